//! T7: each key is a linearizable register with compare-and-swap. Sixteen clients read, write, create, swap and delete
//! eight keys while the server is stopped, goes on, is killed and started again; the checker finds an order of what
//! they saw, or there is none. What nobody heard the end of may have happened at any time since, or never.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture linearizable` draws the same requests and faults again.

mod kills;
mod planted;
mod player;
mod register;
mod remote;

use std::fmt;

use crate::prelude::*;
use player::{Player, Rules, Stage};
use register::{Asked, Event, Only, Told, beginning, is_linearizable, lies};

const CLIENTS: usize = 16;
const KEYS: usize = 8;

/// Lives of the server in one history; each but the last ends with a kill.
const LIVES: usize = 3;

/// How often each life is stopped and goes on.
const PAUSES: usize = 3;

/// Plays a history of so many operations, and returns what all saw, by key.
fn record(args: &[&str], dice: &mut Random, operations: usize) -> Vec<Vec<Event>> {
    gather(played(
        args,
        &Stage::new(Rules::All),
        CLIENTS,
        dice,
        operations,
    ))
}

/// Plays a history of so many operations by so many clients.
fn played(
    args: &[&str],
    stage: &Stage,
    clients: usize,
    dice: &mut Random,
    operations: usize,
) -> Vec<Player> {
    // In memory there is no journal.
    let dir = if args.contains(&"disk") {
        DataDir::temporary()
    } else {
        DataDir::in_memory()
    };
    let launch = || Launch::new(args).on(&dir).start();
    let mut players: Vec<_> = (0..clients).map(|_| Player::new(dice.fork())).collect();
    for life in 1..=LIVES {
        let mut server = launch();
        stage.ending.unsay();
        let until = operations * life / LIVES;
        live(&server, stage, &mut players, dice, until, life < LIVES);
        if life < LIVES {
            assert_eq!(server.exit(), None, "killed");
            continue;
        }
        // The last word on each key.
        let mut client = Client::new(server.addr);
        for key in 0..KEYS {
            assert!(players[0].round(key, Asked::Get, "", stage, &mut client));
        }
        dir.assert_nothing_staged();
        server.stop();
    }
    players
}

/// One life of the server, with pauses, until so many operations were made in all.
fn live(
    server: &TestServer,
    stage: &Stage,
    players: &mut [Player],
    dice: &mut Random,
    until: usize,
    kill: bool,
) {
    let made = || stage.operations.load(Ordering::Relaxed);
    let deadline = Instant::now() + 2 * DEADLINE;
    let play = |player: &mut Player| player.play(stage, &mut Client::new(server.addr));
    thread::scope(|scope| {
        let players = players.iter_mut();
        let clients: Vec<_> = players.map(|player| scope.spawn(|| play(player))).collect();
        let wait_for = |count: usize| {
            while made() < count && Instant::now() < deadline {
                thread::sleep(Duration::from_micros(200));
            }
        };
        let (from, mut pauses) = (made(), [0; PAUSES]);
        pauses.fill_with(|| from + dice.usize(..(until - from).max(1)));
        pauses.sort_unstable();
        for at in pauses {
            wait_for(at);
            server.signal(Signal::STOP);
            thread::sleep(Duration::from_millis(1 + dice.u64(..20)));
            server.signal(Signal::CONT);
        }
        wait_for(until);
        drop(stage.ending.when_dropped());
        if kill {
            server.signal(Signal::KILL);
        }
        for client in clients {
            client.join().expect("a client");
        }
    });
    assert!(made() >= until, "only {} of {until} operations", made());
}

/// What was counted over all histories.
#[derive(Default)]
struct Counts {
    histories: usize,
    events: Vec<Event>,
    /// Entity tags that are not of the bytes that they came with.
    mistaken: usize,
    lies: usize,
}

impl Counts {
    /// Adds what all saw in a history, by key: there is an order of it, and none of its beginning with a lie in it.
    fn add(&mut self, keys: Vec<Vec<Event>>) {
        self.histories += 1;
        for (key, events) in keys.into_iter().enumerate() {
            self.lies += check(key, &events);
            self.events.extend(events);
        }
    }

    fn told(&self, told: Told) -> usize {
        self.count(|event| event.told == told)
    }

    fn count(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| is_it(event)).count()
    }

    /// Refuses to have proved anything by histories in which little happened.
    fn assert_proves(&self) {
        let least = self.histories.max(1);
        let (made, refused) = (self.told(Told::Done), self.told(Told::Refused));
        let is_enough = made > 100 * least && refused > 20 * least && self.lies > 0;
        assert!(is_enough, "too few to prove anything: {self}");
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = [Told::Done, Told::Refused, Told::Unknown].map(|told| self.told(told));
        let (histories, operations, [made, refused, unknown]) =
            (self.histories, self.events.len(), told);
        let Self { mistaken, lies, .. } = self;
        write!(
            f,
            "{histories} histories, {operations} operations: {made} made, {refused} refused, {unknown} unknown, \
             {mistaken} entity tags of another version; an order for each key of each; {lies} planted lies refused"
        )
    }
}

/// What all saw, by key; no two writes have one tag.
fn gather(players: Vec<Player>) -> Vec<Vec<Event>> {
    let (mut keys, mut tags) = (vec![Vec::new(); KEYS], BTreeMap::new());
    for player in players {
        for (key, event) in player.events {
            keys[key].push(event);
        }
        for (write, tag) in player.tags {
            let same = tags.entry(write).or_insert_with(|| tag.clone());
            assert_eq!(*same, tag, "one write, two tags");
        }
    }
    let distinct: HashSet<&String> = tags.values().collect();
    assert_eq!(distinct.len(), tags.len(), "two writes of one tag");
    keys
}

/// Panics with the end of the shortest beginning that no order explains. How many lies about the history were refused.
fn check(key: usize, events: &[Event]) -> usize {
    if is_linearizable(events) {
        return refuses_lies(key, events);
    }
    let explained = |&count: &usize| is_linearizable(&beginning(events, count));
    let shortest = (1..=events.len()).find(|count| !explained(count));
    let shortest = beginning(events, shortest.unwrap_or(events.len()));
    let operations = shortest.len();
    let end = &shortest[operations.saturating_sub(30)..];
    panic!("r{key}: no order explains {operations} operations: {end:#?}");
}

/// The beginning of the same history with one lie in it has no order. Only the beginning: to find that there is none
/// takes looking at all of them.
fn refuses_lies(key: usize, events: &[Event]) -> usize {
    let lies = lies(&beginning(events, 60));
    for (what, told) in &lies {
        let is_taken = is_linearizable(told);
        assert!(!is_taken, "r{key}: the checker takes {what} for the truth");
    }
    lies.len()
}

#[test]
fn every_key_is_a_linearizable_register_with_compare_and_swap() {
    let (histories, operations) = (scaled(9, 100), scaled(1_200, 10_000));
    let (mut dice, mut counts) = (Random::with_seed(seed("linearizable")), Counts::default());
    for history in 0..histories {
        let threads = ["1", "2", "8"][history % 3];
        let dispatch = ["round-robin", "reuse-port"][history / 3 % 2];
        let args = ["--threads", threads, "--dispatch", dispatch];
        counts.add(record(&args, &mut dice, operations));
    }
    let done = |e: &Event| e.told == Told::Done;
    let swapped = counts.count(|e| done(e) && matches!(e.asked, Asked::Put(_, Only::Over(_))));
    let created = counts.count(|e| done(e) && matches!(e.asked, Asked::Put(_, Only::New)));
    let (kills, pauses) = (histories * (LIVES - 1), histories * LIVES * PAUSES);
    let changes = format!("{swapped} swapped, {created} created");
    counted!("linearizable: {kills} kills, {pauses} pauses, {changes}: {counts}");
    assert!(counts.events.len() >= histories * operations);
    for number in [swapped, created, counts.told(Told::Refused)] {
        assert!(number >= histories * 20, "too few to prove anything");
    }
    assert!(counts.told(Told::Unknown) >= histories * CLIENTS / 2);
    assert!(counts.lies >= histories * KEYS / 2);
}
