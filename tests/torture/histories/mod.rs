//! T7: histories of folders, bounds and hands. Some clients make, move, copy and remove two folders and the values in them,
//! within a bound that evicts and beside a hand that changes the same files, while the server is killed, or power is cut;
//! the judge finds an order of what they saw, or there is none.
//!
//! Each history is short and there are many, so that each is decided: one that is not is a failure. Into each some lies are
//! planted, and each of them must be found.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture histories` draws the same requests again.

mod client;
mod hand;
mod planted;
mod power;

use std::fmt;
use std::sync::LazyLock;

use self::client::{Client, Rules, Stage, gather};
use self::hand::Hand;
use self::planted::lies;
use crate::prelude::*;
use crate::support::Client as Session;
use crate::support::history::{Asked, Event, Told, Verdict, beginning, judge};

const CLIENTS: usize = 3;

/// Requests of each client in one history.
const REQUESTS: usize = 14;

/// What a hand does in one history.
const ACTS: usize = 10;

/// Histories at the same time, where the server is killed or power is cut.
const AT_ONCE: usize = 6;

/// One history: its folders, and who changes them.
struct Play {
    stage: Arc<Stage>,
    clients: Vec<Client>,
    hand: Option<Hand>,
}

impl Play {
    fn new(number: usize, rules: Rules, dir: &DataDir, dice: &mut Random) -> Self {
        // In every third history one hangs up: what may happen at any time since makes many orders.
        let hangs_up = |client| {
            if number % 3 + client == 0 {
                REQUESTS / 2
            } else {
                REQUESTS
            }
        };
        let client = |client| Client::new(dice.fork(), REQUESTS, hangs_up(client));
        Self {
            clients: (0..CLIENTS).map(client).collect(),
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
    fn live(&mut self, addr: SocketAddr) {
        let stage = &*self.stage;
        stage.is_ending.store(false, Ordering::Release);
        thread::scope(|scope| {
            for client in &mut self.clients {
                scope.spawn(|| client.play(stage, &mut Session::new(addr)));
            }
            if let Some(hand) = &mut self.hand {
                scope.spawn(|| hand.play(stage, ACTS, CLIENTS * REQUESTS));
            }
        });
    }

    /// The last word on each name; what was seen by each, and by the hand.
    fn end(mut self, addr: SocketAddr) -> Vec<Vec<Event>> {
        self.clients[0].read_all(&self.stage, &mut Session::new(addr));
        let hung_up = self
            .clients
            .iter_mut()
            .filter_map(|client| client.hung_up.take());
        let hung_up: Vec<_> = hung_up.map(|event| vec![event]).collect();
        let hand = self.hand.into_iter().map(|hand| hand.events);
        let clients = self.clients.into_iter().map(|client| client.events);
        gather(clients.chain(hand).chain(hung_up).collect())
    }
}

fn live_at_once(addr: SocketAddr, plays: &mut [Play]) {
    thread::scope(|scope| {
        for play in plays {
            scope.spawn(|| play.live(addr));
        }
    });
}

/// Has all of these live on one server, until so many requests were made and it meets its `end`.
fn end_among(addr: SocketAddr, plays: &mut [Play], enough: usize, end: impl FnOnce()) {
    let stages: Vec<_> = plays.iter().map(|play| Arc::clone(&play.stage)).collect();
    let requests = |stage: &Arc<Stage>| stage.operations.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for play in &mut *plays {
            scope.spawn(|| play.live(addr));
        }
        within(DEADLINE, || {
            stages.iter().map(requests).sum::<usize>() >= enough
        });
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

/// What was counted over all histories.
#[derive(Default)]
struct Counts {
    histories: usize,
    events: Vec<Event>,
    lies: usize,
    /// The most points that a search visited.
    points: usize,
    /// Histories that no order explains but one with an eviction.
    evicted: usize,
}

impl Counts {
    /// Adds a history: there is an order of it, and none of it with a lie in it.
    fn add(&mut self, actors: &[Vec<Event>], evicts: bool) {
        let (verdict, points) = judge(actors, evicts);
        assert!(
            verdict == Verdict::Order,
            "{}",
            report(actors, verdict, evicts)
        );
        self.points = self.points.max(points);
        self.evicted += usize::from(evicts && judge(actors, false).0 == Verdict::NoOrder);
        for (what, told) in lies(actors, evicts) {
            let (verdict, points) = judge(&told, evicts);
            assert!(
                verdict == Verdict::NoOrder,
                "{verdict:?} with {what}: {}",
                show(&told)
            );
            self.points = self.points.max(points);
            self.lies += 1;
        }
        self.histories += 1;
        self.events.extend(actors.iter().flatten());
    }

    fn count(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| is_it(event)).count()
    }

    fn done(&self, is_it: fn(&Asked) -> bool) -> usize {
        let is_done = |told| matches!(told, Told::Done(_) | Told::Count(1..));
        self.count(|event| is_done(event.told) && is_it(&event.asked) && !event.by_hand)
    }

    /// Refuses to have proved anything by histories in which little happened.
    fn assert_proves(&self, rules: Rules) {
        let asked: [fn(&Asked) -> bool; 7] = [
            |asked| matches!(asked, Asked::Put(..)),
            |asked| matches!(asked, Asked::Delete(..)),
            |asked| matches!(asked, Asked::Move(..)),
            |asked| matches!(asked, Asked::Make(_)),
            |asked| matches!(asked, Asked::MoveFolder(_)),
            |asked| matches!(asked, Asked::CopyFolder(..)),
            |asked| matches!(asked, Asked::DeleteFolder(_)),
        ];
        for (number, asked) in asked.into_iter().enumerate() {
            let is_left_out = rules.is_cut && number == 5;
            let enough = self.histories / 8;
            assert!(
                is_left_out || self.done(asked) >= enough,
                "{number}: too few to prove anything: {self}"
            );
        }
        let is_enough = self.lies > self.histories && (self.evicted > 0 || !rules.evicts);
        assert!(is_enough, "too few to prove anything: {self}");
        assert!(
            self.count(|event| event.by_hand) > self.histories || !rules.has_hand,
            "{self}"
        );
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            histories,
            lies,
            points,
            evicted,
            ..
        } = self;
        let refused = self.count(|event| event.told == Told::Refused);
        let unknown = self.count(|event| event.told == Told::Unknown);
        let by_hand = self.count(|event| event.by_hand);
        let collisions = self.count(|event| event.collides() && !event.is_pure());
        let moved = self.done(|asked| matches!(asked, Asked::Move(..)));
        let folders = self.done(|asked| matches!(asked, Asked::MoveFolder(_)));
        write!(
            f,
            "{histories} histories, {} operations: {moved} values and {folders} folders moved, {refused} refused, {unknown} \
             unknown, {by_hand} by hand, {collisions} changes at one moment with a hand's, {evicted} histories with evictions; an \
             order for each, after {points} points at most; {lies} planted lies found",
            self.events.len()
        )
    }
}

/// All events, in the order of their beginnings, each with the number of its actor.
fn show(actors: &[Vec<Event>]) -> String {
    let numbered = actors.iter().enumerate();
    let mut events: Vec<_> = numbered
        .flat_map(|(actor, events)| events.iter().map(move |event| (actor, event)))
        .collect();
    events.sort_by_key(|(_, event)| event.call);
    let lines = events
        .iter()
        .map(|(actor, event)| format!("\n{actor}: {event:?}"));
    lines.collect()
}

/// The shortest beginning of a history that no order explains.
fn report(actors: &[Vec<Event>], verdict: Verdict, evicts: bool) -> String {
    let mut ends: Vec<_> = actors.iter().flatten().map(|event| event.back).collect();
    ends.sort_unstable();
    let beginnings = ends
        .iter()
        .map(|end| beginning(actors, end.saturating_add(1)));
    let shortest = beginnings
        .into_iter()
        .find(|it| judge(it, evicts).0 == verdict);
    let shortest = shortest.unwrap_or_else(|| actors.to_vec());
    format!("{verdict:?}:{}\nof:{}", show(&shortest), show(actors))
}

/// Values that are listed all the while.
static STAY: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..200).map(|n| format!("stays/{n:03}")).collect());

/// How a server is started.
const WAYS: [&str; 5] = [
    "--durability os --threads 2",
    "--durability disk --threads 1",
    "--durability disk --journal off --threads 8",
    "--durability os --threads 2 --listing-index 0",
    "--durability disk --threads 2",
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

fn all_have_an_order(what: &str, rules: Rules) {
    let (seed, each) = (seed(&format!("histories, {what}")), scaled(2, 60));
    let (mut counts, room) = (Counts::default(), format!("max-keys = {}", 2 * AT_ONCE));
    for (way, args) in WAYS.iter().enumerate() {
        let bound = if rules.evicts {
            &["--bound", &room][..]
        } else {
            &[]
        };
        let dir = data_dir(rules, args);
        let mut server = Launch::new(&[&words(args), bound].concat())
            .on(&dir)
            .start();
        for round in 0..each {
            let mut dice = nth(seed, (way * each + round) as u64);
            let mut plays = Play::some(round, rules, &dir, &mut dice);
            live_at_once(server.addr, &mut plays);
            let makes_folders = plays.iter().any(|play| play.stage.makes_folders);
            for play in plays {
                counts.add(&play.end(server.addr), rules.evicts);
            }
            if !rules.evicts {
                assert_at_rest(&server, rules.has_hand || makes_folders);
            }
            clear(&server);
        }
        server.stop();
    }
    counted!("histories, {what}: {counts}; seed {seed}");
    counts.assert_proves(rules);
}

const PLAIN: Rules = Rules {
    evicts: false,
    has_hand: false,
    is_cut: false,
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

/// The clients go on at the next server, from what the killed one had acknowledged.
#[test]
fn folders_and_values_have_an_order_over_a_kill() {
    let (seed, kills) = (seed("histories, kills"), scaled(10, 300));
    let (rules, mut counts) = (PLAIN, Counts::default());
    let dir = data_dir(rules, "disk");
    for kill in 0..kills {
        let mut dice = nth(seed, kill as u64);
        let mut plays = Play::some(kill, rules, &dir, &mut dice);
        let launch = || Launch::new(&words(WAYS[kill % WAYS.len()])).on(&dir);
        let mut server = launch().start();
        let enough = dice.usize(..AT_ONCE * CLIENTS * REQUESTS * 3 / 4);
        let addr = server.addr;
        end_among(addr, &mut plays, enough, || server.kill());
        let mut server = launch().start();
        live_at_once(server.addr, &mut plays);
        for play in plays {
            counts.add(&play.end(server.addr), rules.evicts);
        }
        assert_at_rest(&server, true);
        clear(&server);
        server.stop();
    }
    counted!("histories over {kills} kills: {counts}; seed {seed}");
    counts.assert_proves(rules);
    assert!(counts.count(|event| event.told == Told::Unknown) >= kills);
}
