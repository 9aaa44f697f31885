//! T11: descriptors, the disk, its inodes and the size of files run out, and come back, again and again.
//!
//! While something is out, what needs it is refused with the status that docs/http.md lists, and everything else goes
//! on. Within a second of relief everything is served again. At the end nothing is kept: no descriptor, no staged file,
//! no memory to speak of.

pub(crate) mod resources;

use crate::prelude::*;
use crate::rest::Rest;

/// How long everything may take to be served again.
const RECOVERY: Duration = Duration::from_secs(1);

/// How long the server may take to let go of what a round had it open.
const LETTING_GO: Duration = Duration::from_secs(5);

/// How much more memory may be in use after all rounds, in KiB.
const GROWTH: u64 = 16 << 10;

const LARGE: usize = 200_000;

/// The options of every server here.
const OPTIONS: [&str; 4] = ["--threads", "1", "--cache", "0"];

/// Something that runs out.
trait Resourced {
    fn exhaust(&mut self, server: &TestServer);

    /// What must hold while it is out.
    fn while_out(&mut self, server: &TestServer, old: &mut Client);

    /// Gives it back; returns once who waited for it is served.
    fn relieve(&mut self, server: &TestServer);
}

/// Exhausts and relieves `resource` as often as the form asks for; prints the longest recovery.
fn rounds(what: &str, dir: &DataDir, resource: &mut dyn Resourced) {
    let count = scaled(3, 100);
    let mut server = Launch::new(&OPTIONS).on(dir).start();
    let witness = TestServer::start(&OPTIONS);
    server.store("old", pattern(1, LARGE));
    // What is started when needed is there before memory is compared.
    for server in [&server, &witness] {
        assert!(full_service(server, 0), "before anything is out");
    }
    let rest = Rest::of(&server);
    let memory = server.proc().rss_kib();
    let mut recoveries = Vec::new();
    for round in (1..).take(count) {
        let mut old = Client::new(server.addr);
        assert_eq!(old.ask("GET", "old").status, 200);
        resource.exhaust(&server);
        resource.while_out(&server, &mut old);
        assert!(dir.read("old") == pattern(1, LARGE), "the old value stays");
        recoveries.push(Recovery::seen(&witness, round, || {
            resource.relieve(&server);
            eventually("full service", || full_service(&server, round));
        }));
        drop(old);
        let let_go = rest.leaked(&server, LETTING_GO);
        let_go.unwrap_or_else(|kept| panic!("{kept}"));
    }
    let told = judge(&mut recoveries).unwrap_or_else(|fault| panic!("{fault}"));
    let grown = server.proc().rss_kib().saturating_sub(memory);
    assert!(grown <= GROWTH, "{grown} KiB more memory in use");
    dir.assert_nothing_staged();
    server.stop();
    counted!("{what}: {count} rounds, {told}; {grown} KiB grown");
}

/// How long full service took to be there after relief, and how long it takes at that moment without a reason to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Recovery {
    took: Duration,
    /// The same of a server beside it to which nothing was done: what the machine and the client cost.
    witness: Duration,
}

impl Recovery {
    /// What `relieve` begins.
    fn seen(witness: &TestServer, round: u64, relieve: impl FnOnce()) -> Self {
        let recovered = Done::default();
        thread::scope(|scope| {
            let witness = scope.spawn(|| longest_service(witness, round, &recovered));
            let guard = recovered.when_dropped();
            let relieved = Instant::now();
            relieve();
            let took = relieved.elapsed();
            drop(guard);
            let witness = witness.join().expect("a witness");
            Self { took, witness }
        })
    }
}

/// Asks `witness` for everything, again and again until it is `over`; the longest that this took. What holds up all,
/// say the disk that both are on, so meets it too.
fn longest_service(witness: &TestServer, round: u64, over: &Done) -> Duration {
    let mut longest = Duration::ZERO;
    loop {
        let began = Instant::now();
        assert!(full_service(witness, round), "the witness serves");
        longest = longest.max(began.elapsed());
        if over.is_said() {
            return longest;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Every recovery takes at most a second more than the witness took; and at least half of them a second in all, so that
/// a machine on which everything is slow proves nothing.
fn judge(recoveries: &mut [Recovery]) -> Result<String, String> {
    recoveries.sort();
    if let Some(late) = recoveries.iter().find(|r| r.took > RECOVERY + r.witness) {
        return Err(format!("full service only after {late:?}"));
    }
    let median = recoveries[recoveries.len() / 2].took;
    if median > RECOVERY {
        let when = format!("after {median:?}, in half of the rounds");
        return Err(format!("full service only {when}"));
    }
    let over = recoveries.iter().filter(|r| r.took > RECOVERY).count();
    let Recovery { took, witness } = recoveries.last().expect("a round");
    Ok(format!(
        "full service after {median:?} (median), {took:?} at most (a server that lacked nothing: {witness:?}), {over} over a second"
    ))
}

/// Whether every operation succeeds, over a connection of its own.
fn full_service(server: &TestServer, round: u64) -> bool {
    let value = pattern(round + 2, LARGE);
    let mut client = Client::new(server.addr);
    client.put("new", &value).status == 200
        && client.put("small", "value").status == 200
        && client.ask("GET", "new").body == value
        && client.ask("GET", "").status == 200
        && client.ask("DELETE", "small").status == 200
        && client.ask("DELETE", "new").status == 200
}

/// The judge is shown to fail.
#[test]
fn late_recoveries_are_found_out_and_a_slow_machine_excuses_as_much_as_it_costs() {
    // How long each took, and its witness, in tenths of what is allowed.
    for (seen, expected) in [
        ([(5, 1), (5, 1), (13, 4)], "full service after"),
        ([(5, 1), (5, 1), (40, 1)], "full service only after"),
        ([(5, 1), (5, 1), (15, 4)], "full service only after"),
        ([(5, 1), (13, 4), (13, 4)], "in half of the rounds"),
    ] {
        let recovery = |(took, witness)| Recovery {
            took: RECOVERY * took / 10,
            witness: RECOVERY * witness / 10,
        };
        let found = judge(&mut seen.map(recovery)).unwrap_or_else(|fault| fault);
        assert!(found.contains(expected), "{seen:?}: {found}");
    }
}
