//! T7: each key is a linearizable register with compare-and-swap. Sixteen clients read, write, create, swap and delete
//! eight keys while the server is stopped, goes on, is killed and started again; the checker finds an order of what
//! they saw, or there is none. What nobody heard the end of may have happened at any time since, or never.
//!
//! In other histories values and their folders move between the two keys of a pair and are copied, within a bound that
//! has room for half of them, and beside a hand that changes the same files and folders. Meanwhile the directory is
//! listed: each listing has what stays, and at rest it is what lies there.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture linearizable` draws the same requests and faults again.

mod hand;
mod kills;
mod order;
mod planted;
mod player;
mod power;
mod register;
mod remote;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::prelude::*;
use hand::Hand;
use order::{beginning, has_order, is_linearizable, lies, takes_lie};
use player::{Player, Rules, Stage};
use register::{Asked, Event, Only, Told, UNHEARD, Value, mark_collisions};

const CLIENTS: usize = 16;
const KEYS: usize = 8;

/// Lives of the server in one history; each but the last ends with a kill.
const LIVES: usize = 3;

/// How often each life is stopped and goes on.
const PAUSES: usize = 3;

/// Values that stay, in folders that others come to and leave.
const STAY: [&str; 3] = ["few/r/stays", "shared/stays", "stays"];

/// Where a history is played.
struct Scene<'a> {
    args: &'a str,
    lives: usize,
    /// A bound that has room for half of the values.
    bound: bool,
    has_hand: bool,
}

impl Scene<'_> {
    /// Plays a history of so many operations of keys that are alone, and returns what all saw, by key.
    fn record(&self, dice: &mut Random, operations: usize) -> Vec<Vec<Event>> {
        let mut stage = Stage::new(Rules::All);
        gather(self.play(&mut stage, CLIENTS, dice, operations))
    }

    /// As [`Self::record`], where values and folders move between the keys of a pair: by pair.
    fn record_pairs(&self, dice: &mut Random, operations: usize) -> Vec<Vec<Event>> {
        let mut stage = Stage::with_moves(Rules::All);
        let players = self.play(&mut stage, CLIENTS / 2, dice, operations);
        pairs(players, stage.hand, &[])
    }

    /// Plays a history of so many operations by so many clients.
    fn play(
        &self,
        stage: &mut Stage,
        clients: usize,
        dice: &mut Random,
        operations: usize,
    ) -> Vec<Player> {
        // In memory there is no journal.
        let dir = if self.args.contains("disk") {
            DataDir::temporary()
        } else {
            DataDir::in_memory()
        };
        let mut args = words(self.args);
        args.extend(
            ["--bound", "max-keys = 4"]
                .into_iter()
                .filter(|_| self.bound),
        );
        stage.evicts = self.bound;
        stage.leaves_folders = AtomicBool::new(self.has_hand);
        stage.hand = self
            .has_hand
            .then(|| Mutex::new(Hand::new(&dir, dice.fork())));
        let player = |number| Player::new(number, dice.fork());
        let mut players: Vec<_> = (0..clients).map(player).collect();
        for life in 1..=self.lives {
            let mut server = Launch::new(&args).on(&dir).start();
            if life == 1 && !self.bound {
                for key in STAY {
                    server.store(key, "value");
                }
            }
            stage.ending.unsay();
            let until = operations * life / self.lives;
            live(&server, stage, &mut players, dice, until, life < self.lives);
            if life < self.lives {
                assert_eq!(server.exit(), None, "killed");
                stage.leaves_folders.store(true, Ordering::Release);
                continue;
            }
            // The last word on each key.
            let mut client = Client::new(server.addr);
            for key in 0..KEYS {
                assert!(players[0].read(key, stage, &mut client));
            }
            assert_at_rest(&server, stage);
            server.stop();
        }
        players
    }
}

/// What all saw, by pair, and what a hand did, where some versions are known from before.
fn pairs(players: Vec<Player>, hand: Option<Mutex<Hand>>, known: &[Value]) -> Vec<Vec<Event>> {
    let hand = hand.map(|hand| hand.into_inner().expect("a hand"));
    let by_hand = hand.into_iter().flat_map(|hand| hand.events);
    let by_clients = players.into_iter().flat_map(|player| player.events);
    let mut events: Vec<_> = by_clients.chain(by_hand).collect();
    let done = events.iter().filter(|(_, event)| event.told == Told::Done);
    let heard: HashSet<u32> = done
        .filter_map(|(_, event)| match event.asked {
            Asked::Put(version, _) => Some(version.tag),
            Asked::Move(tag, ..) => Some(tag),
            _ => None,
        })
        .chain(known.iter().flatten().map(|version| version.tag))
        .collect();
    let mut pairs = vec![Vec::new(); KEYS / 2];
    for (key, event) in &mut events {
        event.of = *key % 2;
        let unheard = event
            .known()
            .filter(|version| !heard.contains(&version.tag));
        unheard.for_each(|version| version.tag |= UNHEARD);
        pairs[*key / 2].push(*event);
    }
    pairs.iter_mut().for_each(mark_collisions);
    pairs
}

/// The keys of a listing, which are in order.
fn listed(client: &mut Client) -> Option<Vec<String>> {
    let Heard::Answer(answer) = client.hear("GET", "?limit=10000", "", &[]) else {
        return None;
    };
    let page = answer.json();
    let keys = page["keys"].as_array().expect("keys").iter();
    let keys = keys.map(|entry| entry["key"].as_str().expect("a key").to_owned());
    let keys: Vec<_> = keys.collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "out of order: {keys:?}");
    Some(keys)
}

/// Lists until the server ends; each listing has what stays.
fn list(addr: SocketAddr, stage: &Stage) {
    let mut client = Client::new(addr);
    while !stage.ending.is_said() {
        let Some(keys) = listed(&mut client) else {
            assert!(stage.ending.is_said(), "no listing while it should serve");
            return;
        };
        let all_stay = STAY.iter().all(|stays| keys.iter().any(|key| key == stays));
        assert!(stage.evicts || all_stay, "what stays is missing: {keys:?}");
        stage.listings.fetch_add(1, Ordering::Relaxed);
    }
}

/// What lies in the directory is what is listed, and no folder is left that had no reason to be.
fn assert_at_rest(server: &TestServer, stage: &Stage) {
    let text = |name| String::from_utf8(name).expect("text");
    let there = if stage.leaves_folders.load(Ordering::Acquire) {
        server.dir.values().into_keys().map(text).collect()
    } else {
        server.dir.names().into_iter().map(text).collect::<Vec<_>>()
    };
    let listed = listed(&mut Client::new(server.addr));
    assert_eq!(
        listed.as_ref(),
        Some(&there),
        "the listing, and what is there"
    );
    server.dir.assert_nothing_staged();
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
        let lister = scope.spawn(|| list(server.addr, stage));
        let by_hand = stage.hand.as_ref();
        let hand = by_hand.map(|hand| scope.spawn(|| hand.lock().expect("a hand").play(stage)));
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
        for client in clients.into_iter().chain([lister]).chain(hand) {
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
    /// Registers may be emptied at any moment.
    evicts: bool,
    /// Histories that no order explains but one with an eviction.
    evicted: usize,
}

impl Counts {
    /// Adds what all saw in a history, by key: there is an order of it, and none of its beginning with a lie in it.
    fn add(&mut self, keys: Vec<Vec<Event>>) {
        self.histories += 1;
        for (key, events) in keys.into_iter().enumerate() {
            self.lies += check(key, &events, self.evicts);
            let is_evicted = self.evicts && !is_linearizable(&beginning(&events, 60));
            self.evicted += usize::from(is_evicted);
            self.events.extend(events);
        }
    }

    fn told(&self, told: Told) -> usize {
        self.count(|event| event.told == told && event.asked != Asked::Retag)
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
fn check(key: usize, events: &[Event], evicts: bool) -> usize {
    if has_order(events, evicts) {
        return refuses_lies(key, events, evicts);
    }
    let explained = |&count: &usize| has_order(&beginning(events, count), evicts);
    let shortest = (1..=events.len()).find(|count| !explained(count));
    let shortest = beginning(events, shortest.unwrap_or(events.len()));
    let operations = shortest.len();
    let end = &shortest[operations.saturating_sub(30)..];
    let end: Vec<_> = end.iter().map(|event| format!("{event:?}")).collect();
    panic!(
        "r{key}: no order explains {operations} operations:\n{}",
        end.join("\n")
    );
}

/// The beginning of the same history with one lie in it has no order. Only the beginning: to find that there is none
/// takes looking at all of them.
fn refuses_lies(key: usize, events: &[Event], evicts: bool) -> usize {
    let mut refused = 0;
    for (what, told) in lies(&beginning(events, 60)) {
        let is_taken = takes_lie(&told, evicts);
        assert!(
            is_taken != Some(true),
            "r{key}: the checker takes {what} for the truth"
        );
        refused += usize::from(is_taken.is_some());
    }
    refused
}

#[test]
fn every_key_is_a_linearizable_register_with_compare_and_swap() {
    let (histories, operations) = (scaled(9, 100), scaled(1_200, 10_000));
    let (mut dice, mut counts) = (Random::with_seed(seed("linearizable")), Counts::default());
    for history in 0..histories {
        let threads = ["1", "2", "8"][history % 3];
        let dispatch = ["round-robin", "reuse-port"][history / 3 % 2];
        let scene = Scene {
            args: &format!("--threads {threads} --dispatch {dispatch}"),
            lives: LIVES,
            bound: false,
            has_hand: false,
        };
        counts.add(scene.record(&mut dice, operations));
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

/// How a server is started, and how often in a history.
const WAYS: [(&str, usize); 5] = [
    ("--durability os --threads 2", LIVES),
    ("--durability disk --threads 1", LIVES),
    ("--durability disk --journal off --threads 8", LIVES),
    ("--durability os --threads 2 --listing-index 0", 1),
    ("--durability disk --threads 2", 1),
];

/// Each way has an order in which values and folders move: a MOVE is one event of both keys, also where the server is
/// killed.
fn pairs_have_an_order(what: &str, bound: bool, has_hand: bool) {
    let (histories, operations) = (scaled(WAYS.len(), 60), scaled(700, 10_000));
    let seed = seed(&format!("linearizable-{what}"));
    let mut counts = Counts {
        evicts: bound,
        ..Counts::default()
    };
    for history in 0..histories {
        let (args, lives) = WAYS[history % WAYS.len()];
        let scene = Scene {
            args,
            lives,
            bound,
            has_hand,
        };
        counts.add(scene.record_pairs(&mut nth(seed, history as u64), operations));
    }
    let of = |asked: fn(&Asked) -> bool, told| {
        counts.count(|e| e.told == told && asked(&e.asked) && !e.by_hand)
    };
    let is_move = |asked: &Asked| matches!(asked, Asked::Move(..));
    let [moved, refused] = [Told::Done, Told::Refused].map(|told| of(is_move, told));
    let folders = of(|asked| matches!(asked, Asked::Rename(_)), Told::Done);
    let copied = of(|asked| matches!(asked, Asked::CopyWrites(..)), Told::Done);
    let by_hand = counts.count(|e| e.by_hand);
    let collisions = counts.count(|e| e.collides && !e.by_hand && e.told != Told::Unknown);
    counted!(
        "linearizable, {what}: {moved} moved, {refused} moves refused, {folders} folders moved, {copied} copied, \
         {by_hand} changes by hand, {collisions} at one moment with a client's, {} keys evicted among the first: {counts}; seed {seed}",
        counts.evicted
    );
    assert!(moved >= 10 * histories && refused >= 10 * histories);
    assert!(folders >= histories && copied >= histories);
    assert!(by_hand >= 10 * histories || !has_hand);
    assert!(counts.evicted >= histories || !bound);
    counts.assert_proves();
}

#[test]
fn every_pair_of_folders_is_linearizable_while_values_and_folders_move() {
    pairs_have_an_order("folders", false, false);
}

/// An eviction is a DELETE at some moment that nobody asked for.
#[test]
fn every_pair_of_folders_within_a_bound_is_linearizable() {
    pairs_have_an_order("bound", true, false);
}

#[test]
fn every_pair_of_folders_beside_a_hand_is_linearizable() {
    pairs_have_an_order("hand", false, true);
}

#[test]
fn every_pair_of_folders_within_a_bound_beside_a_hand_is_linearizable() {
    pairs_have_an_order("bound and hand", true, true);
}

/// The histories are shown to fail: one in which changes by hand are not told has no order.
#[test]
fn a_change_by_hand_that_nobody_tells_has_no_order() {
    type Kind = (&'static str, fn(&Asked) -> bool);
    let mut dice = Random::with_seed(seed("linearizable-hand, planted"));
    let scene = Scene {
        has_hand: true,
        bound: false,
        args: "--durability os",
        lives: 1,
    };
    let mut histories = Vec::new();
    let kinds: [Kind; 3] = [
        ("files written", |asked| matches!(asked, Asked::Put(..))),
        ("files removed", |asked| matches!(asked, Asked::Delete(_))),
        ("files and folders moved", |asked| {
            matches!(asked, Asked::Rename(_))
        }),
    ];
    for (what, is_it) in kinds {
        let (mut hidden, mut found) = (0, 0);
        // A few may be hidden by what came right after each.
        for history in 0..5 {
            if histories.len() == history {
                histories.push(scene.record_pairs(&mut dice, 1_000));
            }
            for events in &histories[history] {
                let by_hand = |e: &Event| e.by_hand && is_it(&e.asked);
                let mut events = beginning(events, 200);
                assert!(is_linearizable(&events));
                hidden += events.iter().filter(|e| by_hand(e)).count();
                events.retain(|e| !by_hand(e));
                found += usize::from(takes_lie(&events, false) == Some(false));
            }
            if found > 0 {
                break;
            }
        }
        counted!(
            "linearizable, planted: {hidden} {what} by hand are not told: {found} pairs without an order"
        );
        assert!(found > 0, "{what} by hand are not missed");
    }
}

/// What lies there at rest is shown to be looked at.
#[test]
fn a_folder_or_a_value_that_nobody_made_is_found_at_rest() {
    type Fault = (&'static str, fn(&DataDir));
    let faults: [Fault; 2] = [
        ("a folder that stays", |dir| {
            fs::create_dir_all(dir.file("few/empty")).expect("a folder");
        }),
        ("a name that no listing has", |dir| {
            std::os::unix::fs::symlink("/nowhere", dir.file("few/link")).expect("a link");
        }),
    ];
    for (what, fault) in faults {
        let server = TestServer::start(&[]);
        let stage = Stage::new(Rules::All);
        for key in STAY {
            server.store(key, "value");
        }
        assert_at_rest(&server, &stage);
        fault(&server.dir);
        let judge = AssertUnwindSafe(|| assert_at_rest(&server, &stage));
        let judged = catch_unwind(judge);
        assert!(judged.is_err(), "{what} is not found");
    }
}
