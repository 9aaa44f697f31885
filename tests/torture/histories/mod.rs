//! T7: histories of folders, bounds and hands. Some clients make, move, copy and remove two folders and the values in
//! them, within a bound that evicts and beside a hand that changes the same files, while the server is killed, or power
//! is cut; the judge finds an order of what they saw, or there is none.
//!
//! Each history is short and there are many, so that each is decided: one that is not is a failure. Into each some lies
//! are planted, and each of them must be found.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture histories` draws the same requests again.

mod client;
mod counts;
mod hand;
mod planted;
mod power;
mod remote;

use std::sync::LazyLock;

use self::client::s3::{door_of, end_uploads};
use self::client::{Client, Rules, Stage, gather};
use self::counts::Counts;
use self::hand::Hand;
use crate::prelude::*;
use crate::support::Client as Session;
use crate::support::history::{Event, Told};

const CLIENTS: usize = 3;

/// Requests of each client in one history.
const REQUESTS: usize = 14;

/// What a hand does in one history.
const ACTS: usize = 4;

/// Histories at the same time on one server.
const AT_ONCE: usize = 6;

/// One history: its folders, and who changes them.
struct Play {
    stage: Arc<Stage>,
    clients: Vec<Client>,
    hand: Option<Hand>,
}

impl Play {
    fn new(number: usize, rules: Rules, dir: &DataDir, dice: &mut Random) -> Self {
        // In some histories one hangs up: what may happen at any time since makes many orders.
        let hangs_up = |client| match number % 3 + client {
            0 if !rules.evicts && !rules.has_hand => REQUESTS / 2,
            _ => REQUESTS,
        };
        let client = |client| {
            let speaks_s3 = rules.s3 && client % 2 == 1;
            Client::new(dice.fork(), speaks_s3, REQUESTS, hangs_up(client))
        };
        // Of a register in a store a request that fails may still be done: many at once have too many orders.
        let meet = if rules.registers && rules.remote.is_none() {
            8
        } else {
            CLIENTS
        };
        Self {
            clients: (0..meet).map(client).collect(),
            stage: Arc::new(Stage::new(number, rules)),
            hand: rules.has_hand.then(|| Hand::new(number, dir, dice.fork())),
        }
    }

    /// Those of one round, each with folders of its own.
    fn some(round: usize, rules: Rules, dir: &DataDir, dice: &mut Random) -> Vec<Self> {
        let number = |n| round * AT_ONCE + n;
        let play = |n| Self::new(number(n), rules, dir, dice);
        (0..AT_ONCE).map(play).collect()
    }

    /// Has all ask what they have not asked yet, until the server ends.
    fn live(&mut self, addrs: &[SocketAddr]) {
        let stage = &*self.stage;
        thread::scope(|scope| {
            for (client, addr) in self.clients.iter_mut().zip(addrs.iter().cycle()) {
                scope.spawn(|| client.play(stage, &mut Session::new(*addr)));
            }
            if let Some(hand) = &mut self.hand {
                scope.spawn(|| hand.play(stage, ACTS, CLIENTS * REQUESTS));
            }
        });
    }

    /// The last word on each name, of every server; what was seen by each, and by the hand.
    fn end(mut self, addrs: &[SocketAddr]) -> Vec<Vec<Event>> {
        for (client, addr) in self.clients.iter_mut().zip(addrs).rev() {
            client.read_all(&self.stage, &mut Session::new(*addr));
        }
        let open = self
            .clients
            .iter_mut()
            .flat_map(|client| client.open.drain(..));
        let open: Vec<_> = open.map(|event| vec![event]).collect();
        let hand = self.hand.into_iter().map(|hand| hand.events);
        let clients = self.clients.into_iter().map(|client| client.events);
        gather(clients.chain(hand).chain(open).collect())
    }
}

/// The server serves from now on: said before the first of them asks, so that it is never said after an end.
fn begin(plays: &[Play]) {
    for play in plays {
        play.stage.is_ending.store(false, Ordering::Release);
    }
}

/// Has all of these live on these servers while `meanwhile` runs, which may wait until so many requests were made.
fn live_at_once(addrs: &[SocketAddr], plays: &mut [Play], meanwhile: impl FnOnce(&dyn Fn(usize))) {
    let stages: Vec<_> = plays.iter().map(|play| Arc::clone(&play.stage)).collect();
    let requests = |stage: &Arc<Stage>| stage.operations.load(Ordering::Relaxed);
    begin(plays);
    thread::scope(|scope| {
        for play in &mut *plays {
            scope.spawn(|| play.live(addrs));
        }
        meanwhile(&|enough| {
            within(2 * DEADLINE, || {
                stages.iter().map(requests).sum::<usize>() >= enough
            });
        });
    });
}

/// Has all of these live on one server, until so many requests were made and it meets its `end`.
fn end_among(addrs: &[SocketAddr], plays: &mut [Play], enough: usize, end: impl FnOnce()) {
    let stages: Vec<_> = plays.iter().map(|play| Arc::clone(&play.stage)).collect();
    live_at_once(addrs, plays, |wait| {
        wait(enough);
        for stage in &stages {
            stage.is_ending.store(true, Ordering::Release);
        }
        end();
    });
    for play in plays {
        let now = play.stage.now();
        let asked = play.clients.iter_mut().flat_map(Client::asked);
        asked.for_each(|event| event.back = event.back.min(now));
    }
}

/// Values that are listed all the while.
static STAY: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..600).map(|n| format!("stays/{n:03}")).collect());

/// How a server is started.
const WAYS: [&str; 6] = [
    "--durability os --threads 2",
    "--durability disk --threads 1",
    "--durability disk --journal off --threads 8",
    "--durability os --threads 2 --listing-index 0",
    "--durability disk --threads 2",
    "--durability os --threads 8 --dispatch reuse-port",
];

/// At rest each listing has what lies there, and no folder is left that a PUT made.
fn assert_at_rest(server: &TestServer, leaves_folders: bool) {
    // Also of who has hung up.
    eventually("no request is under way", || server.connections() == 0);
    let there = if leaves_folders {
        server.dir.values().into_keys().collect()
    } else {
        server.dir.names()
    };
    let page = Session::new(server.addr).ask("GET", "?limit=10000").json();
    let keys = page["keys"].as_array().expect("keys").iter();
    let keys = keys.map(|entry| entry["key"].as_str().expect("a key").as_bytes());
    let listed: Vec<_> = keys.collect();
    assert!(listed == there, "{listed:?}, and what is there: {there:?}");
    server.dir.assert_nothing_staged();
}

/// What the histories have left goes.
fn clear(server: &TestServer) {
    let removed = server.request("DELETE", "/h/", "Depth: infinity\r\n", b"");
    assert!([200, 404].contains(&removed.status), "{removed:?}");
}

/// A directory that has what stays.
fn data_dir(rules: Rules, args: &str) -> DataDir {
    // In memory there is no journal.
    let is_on_disk = args.contains("disk");
    let dir = if is_on_disk {
        DataDir::temporary()
    } else {
        DataDir::in_memory()
    };
    let stay = STAY.iter().filter(|_| !rules.evicts);
    stay.for_each(|key| dir.place(key, "stays"));
    dir
}

/// A bound has room for half of the values of the histories at the same time.
fn launch(rules: Rules, args: &str, dir: &DataDir) -> TestServer {
    let room = format!("max-keys = {}", 2 * AT_ONCE);
    let bound = ["--bound", &room].into_iter().filter(|_| rules.evicts);
    let args: Vec<_> = words(args).into_iter().chain(bound).collect();
    start(rules, &args, dir)
}

/// With clients of S3 it listens for them too, and their bucket is there.
fn start(rules: Rules, args: &[&str], dir: &DataDir) -> TestServer {
    if !rules.s3 {
        return Launch::new(args).on(dir).start();
    }
    let args = [args, &["--listen", "http://127.0.0.1:0"]].concat();
    let launch = Launch::new(&args).listen("s3+http://127.0.0.1:0");
    let server = launch.on(dir).start();
    make_bucket(&server);
    server
}

fn make_bucket(server: &TestServer) {
    let made = server.ask("MKCOL", "h/");
    assert!([201, 405].contains(&made.status), "{made:?}");
}

/// Where its clients find it, each kind in turn.
fn addrs(server: &TestServer, rules: Rules) -> Vec<SocketAddr> {
    let door = rules.s3.then(|| door_of(server));
    [server.addr].into_iter().chain(door).collect()
}

/// The last word on these histories.
fn end(server: &TestServer, plays: Vec<Play>, rules: Rules, counts: &mut Counts, killed: bool) {
    let makes_folders = plays.iter().any(|play| play.stage.makes_folders);
    for play in plays {
        counts.add(&play.end(&addrs(server, rules)), rules.evicts);
    }
    if rules.s3 {
        end_uploads(server);
    }
    if !rules.evicts {
        assert_at_rest(
            server,
            rules.has_hand || rules.s3 || makes_folders || killed,
        );
    }
    clear(server);
    if rules.s3 {
        make_bucket(server);
    }
}

fn all_have_an_order(what: &str, rules: Rules) {
    let (seed, each) = (seed(&format!("histories, {what}")), scaled(2, 60));
    let mut counts = Counts::default();
    for (way, args) in WAYS.iter().enumerate() {
        let dir = data_dir(rules, args);
        let mut server = launch(rules, args, &dir);
        for round in 0..each {
            let mut dice = nth(seed, (way * each + round) as u64);
            let mut plays = Play::some(round, rules, &dir, &mut dice);
            live_at_once(&addrs(&server, rules), &mut plays, |_| {});
            end(&server, plays, rules, &mut counts, false);
        }
        server.stop();
    }
    counted!("histories, {what}: {counts}; seed {seed}");
    counts.assert_proves(rules);
}

/// The clients go on at the next server, from what the killed one had acknowledged.
fn all_have_an_order_over_kills(what: &str, rules: Rules) {
    let (seed, kills) = (seed(&format!("histories, {what}")), scaled(12, 300));
    let (mut counts, dir) = (Counts::default(), data_dir(rules, "disk"));
    for kill in 0..kills {
        let mut dice = nth(seed, kill as u64);
        let mut plays = Play::some(kill, rules, &dir, &mut dice);
        let args = WAYS[kill % WAYS.len()];
        let mut server = launch(rules, args, &dir);
        let enough = dice.usize(..AT_ONCE * CLIENTS * REQUESTS * 3 / 4);
        let addrs_of_first = addrs(&server, rules);
        end_among(&addrs_of_first, &mut plays, enough, || {
            for _ in 0..3 {
                server.signal(Signal::STOP);
                thread::sleep(Duration::from_millis(1 + dice.u64(..20))); // the server is slow
                server.signal(Signal::CONT);
                thread::yield_now();
            }
            server.kill();
        });
        let mut server = launch(rules, args, &dir);
        live_at_once(&addrs(&server, rules), &mut plays, |_| {});
        end(&server, plays, rules, &mut counts, true);
        server.stop();
    }
    counted!("histories, {what}: {kills} kills: {counts}; seed {seed}");
    counts.assert_proves(rules);
    assert!(counts.count(|event| event.told == Told::Unknown) >= kills);
}

const PLAIN: Rules = Rules {
    evicts: false,
    has_hand: false,
    is_cut: false,
    registers: false,
    locks: None,
    s3: false,
    remote: None,
};

const REGISTERS: Rules = Rules {
    registers: true,
    ..PLAIN
};

/// Clients of S3 and others.
const MIXED: Rules = Rules { s3: true, ..PLAIN };

const MIXED_REGISTERS: Rules = Rules {
    s3: true,
    ..REGISTERS
};

const BOUND: Rules = Rules {
    evicts: true,
    ..PLAIN
};

const HAND: Rules = Rules {
    has_hand: true,
    ..PLAIN
};

#[test]
fn locks_and_the_changes_of_what_they_lock_have_an_order() {
    let seed = seed("histories, locks");
    let (each, mut counts) = (scaled(2, 60), Counts::default());
    for (way, args) in WAYS.iter().enumerate() {
        let dir = data_dir(PLAIN, args);
        let args = [words(args), vec!["--listen", "http://127.0.0.1:0"]].concat();
        let launch = Launch::new(&args).listen("dav+http://127.0.0.1:0");
        let mut server = launch.on(&dir).start();
        let printed = || server.stdout_so_far().into_iter();
        let place = |line: String| line.strip_prefix("listening on dav+http://")?.parse().ok();
        eventually("it listens at both", || {
            printed().any(|line| place(line).is_some())
        });
        let rules = Rules {
            locks: printed().find_map(place),
            ..PLAIN
        };
        for round in 0..each {
            let mut dice = nth(seed, (way * each + round) as u64);
            let mut plays = Play::some(round, rules, &dir, &mut dice);
            live_at_once(&[server.addr], &mut plays, |_| {});
            end(&server, plays, rules, &mut counts, false);
        }
        server.stop();
    }
    counted!("histories, locks: {counts}; seed {seed}");
    counts.assert_proves_locks();
}

#[test]
fn folders_and_values_have_an_order() {
    all_have_an_order("folders", PLAIN);
}

#[test]
fn folders_and_values_within_a_bound_have_an_order() {
    all_have_an_order("bound", BOUND);
}

#[test]
fn folders_and_values_beside_a_hand_have_an_order() {
    all_have_an_order("hand", HAND);
}

#[test]
fn folders_and_values_within_a_bound_beside_a_hand_have_an_order() {
    let has_hand = true;
    all_have_an_order("bound and hand", Rules { has_hand, ..BOUND });
}

#[test]
fn folders_and_values_have_an_order_over_a_kill() {
    all_have_an_order_over_kills("kills", PLAIN);
}

#[test]
fn every_value_is_a_linearizable_register_with_compare_and_swap() {
    all_have_an_order_over_kills("registers", REGISTERS);
}

#[test]
fn folders_and_values_have_an_order_beside_clients_of_s3() {
    all_have_an_order("s3 clients", MIXED);
}

#[test]
fn folders_and_values_have_an_order_beside_clients_of_s3_over_a_kill() {
    all_have_an_order_over_kills("s3 clients, kills", MIXED);
}

#[test]
fn every_object_is_a_linearizable_register_with_compare_and_swap() {
    all_have_an_order_over_kills("s3 clients, registers", MIXED_REGISTERS);
}

#[test]
fn folders_and_values_within_a_bound_have_an_order_over_a_kill() {
    all_have_an_order_over_kills("kills within a bound", BOUND);
}
