//! Values in an S3 store, each a register, through two servers: over a bad network, with a store that loses answers,
//! and while servers and a gateway are killed. The histories are shown to find writes that are made and refused, and
//! writes that are sent twice.
//!
//! A data-server keeps the values of others, too. On `VersityGW` each server has a gateway of its own; there, nothing
//! is removed, because its conditional DELETE is not atomic. The store in memory has an atomic one, and loses answers
//! by order.

use super::client::{Remote, Rules};
use super::{AT_ONCE, CLIENTS, Counts, Play, REGISTERS, REQUESTS, live_at_once};
use crate::prelude::*;
use crate::support::history::{Event, Verdict, judge};
use crate::support::relay::{Fault, Faults, GOOD, Relay};
use crate::support::s3::{self, Bucket, Stub, VersityGw};

/// The bytes of some answers.
const ANSWERS: usize = 12_000;

/// What of the requests the network breaks at least, in percent.
const FAULTS: usize = 10;

/// Requests of one round.
const ALL: usize = AT_ONCE * CLIENTS * REQUESTS;

fn rules(deletes: bool, kills: bool) -> Rules {
    Rules {
        remote: Some(Remote {
            deletes,
            kills,
            names_versions: false,
        }),
        ..REGISTERS
    }
}

/// A server that is killed, and started again on the same socket, as with a service manager: a request to one that was
/// killed is cut off, and the next one waits for the next server.
struct Phoenix {
    socket: TcpListener,
    bucket: Bucket,
    server: TestServer,
}

impl Phoenix {
    fn new(bucket: Bucket) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self {
            server: Self::start(&socket, &bucket),
            socket,
            bucket,
        }
    }

    fn start(socket: &TcpListener, bucket: &Bucket) -> TestServer {
        let launch = Launch::new(&["--threads", "2", "--s3-timeout", "2s"]);
        launch.on_bucket(bucket).passing(socket).start()
    }

    fn rise(&mut self) {
        self.server = Self::start(&self.socket, &self.bucket);
    }
}

/// Histories through two servers, and what came of them.
struct Stage {
    servers: [Phoenix; 2],
    rules: Rules,
    dice: Random,
    rounds: usize,
    mistaken: usize,
}

impl Stage {
    fn new(buckets: [Bucket; 2], rules: Rules, seed: u64) -> Self {
        Self {
            servers: buckets.map(Phoenix::new),
            rules,
            dice: Random::with_seed(seed),
            rounds: 0,
            mistaken: 0,
        }
    }

    /// Plays one round; what all saw, by history. `meanwhile` has the network or the servers fail, and `then` not any
    /// more.
    fn play(
        &mut self,
        meanwhile: impl FnOnce(&mut [Phoenix; 2], &dyn Fn(usize)),
        then: impl FnOnce(),
    ) -> Vec<Vec<Vec<Event>>> {
        let [first, second] = &self.servers;
        let addrs = [first.server.addr, second.server.addr];
        let dir = first.server.dir.clone();
        let mut plays = Play::some(self.rounds, self.rules, &dir, &mut self.dice);
        self.rounds += 1;
        live_at_once(&addrs, &mut plays, |wait| {
            meanwhile(&mut self.servers, wait);
        });
        then();
        let ended = plays.into_iter().map(|play| {
            let stage = Arc::clone(&play.stage);
            let actors = play.end(&addrs);
            self.mistaken += stage.mistaken.load(Ordering::Relaxed);
            actors
        });
        ended.collect()
    }
}

/// The network to a store: while it `is_bad`, each new connection breaks somewhere in its first bytes, in one
/// direction.
fn breaking(endpoint: SocketAddr, mut dice: Random, is_bad: Arc<AtomicBool>) -> Relay {
    Relay::to(endpoint, move || {
        let at = 1 + dice.usize(..ANSWERS);
        let bad = [Fault::Fin, Fault::Reset][dice.usize(..2)](at);
        match (is_bad.load(Ordering::Acquire), dice.bool()) {
            (false, _) => GOOD,
            (true, false) => Faults { up: bad, ..GOOD },
            (true, true) => Faults { down: bad, ..GOOD },
        }
    })
}

/// Histories through two servers, whose connections to the endpoints of this bucket break now and then.
fn registers_over_a_bad_network(what: &str, bucket: &Bucket, rules: Rules) {
    let seed = seed(&format!("histories, {what}"));
    let (mut dice, mut counts) = (Random::with_seed(seed), Counts::default());
    let is_bad = Arc::<AtomicBool>::default();
    let endpoint = |n: usize| bucket.endpoints[n % bucket.endpoints.len()];
    let to = |n: usize| breaking(endpoint(n), dice.fork(), Arc::clone(&is_bad));
    let networks = [0, 1].map(to);
    let buckets = [0, 1].map(|n: usize| bucket.at(&[networks[n].addr()]));
    let mut stage = Stage::new(buckets, rules, seed);
    let set = |bad| is_bad.store(bad, Ordering::Release);
    for _ in 0..scaled(6, 500) {
        let actors = stage.play(|_, _| set(true), || set(false));
        counts.add_all(&actors);
    }
    let (mut connections, mut broken) = (0, 0);
    for network in &networks {
        let (all, faulty) = network.counts();
        (connections, broken) = (connections + all, broken + faulty);
    }
    let mistaken = stage.mistaken;
    counted!(
        "histories on {what}: {counts}; {broken} of {connections} connections broken, {mistaken} tags of other bytes"
    );
    counts.assert_proves(rules);
    assert!(
        broken * 100 >= counts.events.len() * FAULTS,
        "too few faults"
    );
}

#[test]
fn values_in_a_real_store_are_registers_through_two_servers_and_a_bad_network() {
    let store = needed!(VersityGw::start(2));
    let bucket = store.bucket.beneath("histories");
    registers_over_a_bad_network("VersityGW", &bucket, rules(false, false));
}

/// A data-server keeps the values of the others, through its door of S3. Its removals are atomic, and its entity tags
/// are versions.
const IN_A_DOOR: Rules = Rules {
    remote: Some(Remote {
        deletes: true,
        kills: false,
        names_versions: true,
    }),
    ..REGISTERS
};

#[test]
fn values_in_another_data_server_are_registers_through_two_servers_and_a_bad_network() {
    let keeper = Launch::new(&["--durability", "disk"]).listen("s3+http://127.0.0.1:0");
    let keeper = keeper.start();
    let bucket = Bucket::of_door(keeper.addr, "values");
    registers_over_a_bad_network("another data-server", &bucket, IN_A_DOOR);
}

/// The one that keeps them is killed among the requests, and starts again at its address.
#[test]
fn values_in_another_data_server_outlive_its_kills() {
    let (socket, dir) = (
        TcpListener::bind("127.0.0.1:0").expect("a port"),
        DataDir::temporary(),
    );
    let start = |durability| {
        let launch = Launch::new(&["--durability", durability]).on(&dir);
        launch.passing(&socket).listen("s3+fd:3").start()
    };
    let mut keeper = start("os");
    let bucket = Bucket::of_door(socket.local_addr().expect("its address"), "values");
    let (name, rounds) = ("histories, kills of another data-server", scaled(4, 60));
    let mut stage = Stage::new([bucket.clone(), bucket.clone()], IN_A_DOOR, seed(name));
    let (mut counts, mut kills) = (Counts::default(), 0);
    for round in 0..rounds {
        let kill = |_: &mut [Phoenix; 2], wait: &dyn Fn(usize)| {
            for enough in [ALL / 4, ALL / 2] {
                wait(enough);
                keeper.kill();
                keeper = start(["os", "disk"][round % 2]);
                kills += 1;
            }
        };
        let actors = stage.play(kill, || {});
        counts.add_all(&actors);
        assert_eq!(bucket.multipart_uploads(), 0);
    }
    counted!("histories on another data-server: {kills} kills of it: {counts}");
    counts.assert_proves(IN_A_DOOR);
}

#[test]
fn values_in_a_store_that_loses_answers_are_registers_with_removals() {
    let (stub, rules) = (Stub::start(), rules(true, false));
    let buckets = [stub.bucket.clone(), stub.bucket.clone()];
    let mut stage = Stage::new(buckets, rules, seed("histories, stub"));
    let mut counts = Counts::default();
    for _ in 0..scaled(6, 800) {
        for _ in 0..20 {
            let method = one_of(&mut stage.dice, &["PUT", "PUT", "GET", "HEAD", "DELETE"]);
            let fault = match stage.dice.u64(..5) {
                0 => s3::Fault::LoseDone,
                1 => s3::Fault::LoseUndone,
                2 => s3::Fault::FailDone(500),
                3 => s3::Fault::Refuse(503, "SlowDown", Some(0)),
                _ => s3::Fault::Refuse(409, "ConditionalRequestConflict", Some(0)),
            };
            stub.fail_now_and_then(method, fault, 3 + stage.dice.usize(..30));
        }
        let actors = stage.play(|_, _| {}, || {});
        counts.add_all(&actors);
    }
    assert_eq!(stage.mistaken, 0, "entity tags of other bytes");
    counted!("histories on a store that loses answers: {counts}");
    counts.assert_proves(rules);
}

/// One server after the other is killed, and every other time its gateway.
#[test]
fn values_in_a_real_store_outlive_kills_of_servers_and_of_a_gateway() {
    let mut store = needed!(VersityGw::start(2));
    let (rules, rounds) = (rules(false, true), scaled(4, 60));
    let bucket = store.bucket.beneath("kills");
    let [first, second] = [bucket.endpoints[0], bucket.endpoints[1]];
    let buckets = [[first, second], [second, first]].map(|gateways| bucket.at(&gateways));
    let mut stage = Stage::new(buckets, rules, seed("histories, s3 kills"));
    let mut counts = Counts::default();
    for round in 0..rounds {
        let (server, has_gateway) = (round % 2, round / 2 % 2 == 0);
        let kill = |servers: &mut [Phoenix; 2], wait: &dyn Fn(usize)| {
            wait(ALL / 4);
            servers[server].server.kill();
            // The other server goes on.
            wait(ALL * 3 / 8);
            servers[server].rise();
            if has_gateway {
                wait(ALL / 2);
                store.kill(server);
                wait(ALL * 3 / 4);
                // One that has been killed starts while a gateway is away.
                servers[server].server.kill();
                servers[server].rise();
                store.restart(server);
            }
        };
        let actors = stage.play(kill, || {});
        counts.add_all(&actors);
        assert_eq!(store.bucket.multipart_uploads(), 0);
    }
    counted!("histories on VersityGW under kills: {rounds} rounds: {counts}");
    counts.assert_proves(rules);
}

/// Whether histories have an order that are played on a store which has this fault now and then.
fn have_order(fault: &s3::Fault) -> bool {
    let stub = Stub::start();
    let buckets = [stub.bucket.clone(), stub.bucket.clone()];
    let mut stage = Stage::new(buckets, rules(false, false), seed("histories, s3 planted"));
    (0..4).all(|_| {
        for _ in 0..20 {
            stub.fail_now_and_then("PUT", fault.clone(), 5);
        }
        let actors = stage.play(|_, _| {}, || {});
        actors
            .iter()
            .all(|actors| judge(actors, false).0 == Verdict::Order)
    })
}

#[test]
fn a_write_that_is_made_and_refused_all_the_same_is_found() {
    let is_taken = have_order(&s3::Fault::FailDone(412));
    assert!(!is_taken, "the judge believes a false 412");
}

#[test]
fn a_write_that_is_sent_again_blindly_is_found() {
    // The same lost answers twice: as the server meets them, and behind what sends each write again.
    let is_taken = have_order(&s3::Fault::LoseDone);
    assert!(is_taken, "lost answers alone break the order");
    let is_taken = have_order(&s3::Fault::Twice);
    assert!(!is_taken, "the judge believes blind retries");
}
