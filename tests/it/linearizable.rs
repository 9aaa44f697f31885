//! Proves that each key is a linearizable register with compare-and-swap: sixteen clients on eight reactors read, write,
//! create, swap and delete, and a checker finds an order of what they saw, or there is none. The checker is shown to
//! refuse lies.

use std::collections::{BTreeMap, HashSet};
use std::iter::from_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use crate::support::{Raw, TestServer, ask, pattern};

/// What a register holds: the number of the write that made it.
type Value = Option<u32>;

/// When a write may be done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Only {
    Always,
    /// `If-Match` with the tag of this write.
    Over(u32),
    /// `If-None-Match: *`
    New,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Get,
    Put(u32, Only),
    Delete(Only),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Read(Value),
    Done,
    /// 412
    Refused,
    /// DELETE: 404
    Absent,
    /// The client never heard: it happened at any time from the call on, or never.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    asked: Asked,
    told: Told,
    call: u64,
    back: u64,
}

impl Only {
    fn allows(self, value: Value) -> bool {
        match self {
            Self::Always => true,
            Self::Over(write) => value == Some(write),
            Self::New => value.is_none(),
        }
    }
}

/// What a register that holds `value` tells, and holds then.
fn apply(asked: Asked, value: Value) -> (Told, Value) {
    match asked {
        Asked::Get => (Told::Read(value), value),
        Asked::Put(write, only) if only.allows(value) => (Told::Done, Some(write)),
        Asked::Delete(_) if value.is_none() => (Told::Absent, value),
        Asked::Delete(only) if only.allows(value) => (Told::Done, None),
        Asked::Put(..) | Asked::Delete(_) => (Told::Refused, value),
    }
}

/// How far a search has come: events before `base` have their place, those in `ahead` have (counted from `base` on),
/// the unknown ones in `taken` have happened.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Point {
    base: usize,
    ahead: Vec<bool>,
    taken: Vec<usize>,
    value: Value,
}

/// Whether the events of one register, empty at first, have an order that they could have happened in one by one
/// (Wing and Gong's search, remembering where it has been).
fn is_linearizable(events: &[Event]) -> bool {
    let (mut open, mut known): (Vec<Event>, Vec<Event>) =
        events.iter().partition(|e| e.told == Told::Unknown);
    known.sort_by_key(|e| e.call);
    open.sort_by_key(|e| e.call);
    let start = Point {
        base: 0,
        ahead: Vec::new(),
        taken: Vec::new(),
        value: None,
    };
    let (mut been, mut stack) = (HashSet::new(), vec![start]);
    while let Some(mut point) = stack.pop() {
        let (changes, until) = point.settle(&known);
        if point.base == known.len() {
            return true;
        }
        if !been.insert(point.clone()) {
            continue;
        }
        assert!(been.len() < MOST_POINTS, "too many orders to try them all");
        for (place, event) in open.iter().enumerate().filter(|(_, e)| e.call <= until) {
            let value = apply(event.asked, point.value).1;
            if value != point.value && !point.taken.contains(&place) {
                let mut next = point.clone();
                next.value = value;
                next.taken.push(place);
                next.taken.sort_unstable();
                stack.push(next);
            }
        }
        // Tried first, as they stand last on the stack: what is known to have happened, in the order of the answers.
        for place in changes.into_iter().rev() {
            let mut next = point.clone();
            next.value = apply(known[place].asked, point.value).1;
            next.place(place);
            stack.push(next);
        }
    }
    false
}

impl Point {
    /// Gives its place to everything that may come next and changes nothing: no order is lost by that. Returns the
    /// changes that may come next, and when the first of all answers was given that is still to be explained.
    fn settle(&mut self, known: &[Event]) -> (Vec<usize>, u64) {
        loop {
            let (mut changes, mut still, mut until) = (Vec::new(), Vec::new(), u64::MAX);
            for (place, event) in known.iter().enumerate().skip(self.base) {
                if event.call > until {
                    break;
                }
                if self.is_placed(place) {
                    continue;
                }
                until = until.min(event.back);
                match apply(event.asked, self.value) {
                    (told, value) if told == event.told && value == self.value => still.push(place),
                    (told, _) if told == event.told => changes.push(place),
                    _ => {}
                }
            }
            changes.retain(|&place| known[place].call <= until);
            still.retain(|&place| known[place].call <= until);
            if still.is_empty() {
                changes.sort_by_key(|&place| known[place].back);
                return (changes, until);
            }
            for place in still {
                self.place(place);
            }
        }
    }

    fn is_placed(&self, place: usize) -> bool {
        self.ahead.get(place - self.base).copied().unwrap_or(false)
    }

    fn place(&mut self, place: usize) {
        let at = place - self.base;
        if self.ahead.len() <= at {
            self.ahead.resize(at + 1, false);
        }
        self.ahead[at] = true;
        let done = self.ahead.iter().take_while(|&&placed| placed).count();
        self.ahead.drain(..done);
        self.base += done;
    }
}

/// Numbers that differ from run to run of a client's choices.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let bytes = pattern(seed, 1 << 16);
    let mut words = (0..).map(move |n: usize| {
        let at = n * 8 % bytes.len();
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    });
    move |below| (words.next().expect("endless") >> 20) % below
}

const CLIENTS: u64 = 16;
const KEYS: usize = 8;
const ROUNDS: usize = 300;
/// Points that a search may visit: a search that needs more has too many unknown outcomes to be one.
const MOST_POINTS: usize = 2_000_000;

/// The value of a write: its number, in one of three size classes.
fn value(write: u32) -> Vec<u8> {
    let length = match write % 20 {
        0 => 70_000,
        1 | 2 => 10_000,
        _ => 40,
    };
    let mut value = pattern(write.into(), length);
    value[..4].copy_from_slice(&write.to_le_bytes());
    value
}

/// The write that a value is of; it must be all of it.
fn write_of(bytes: &[u8]) -> u32 {
    let write = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    assert!(bytes == value(write), "a value that nobody wrote");
    write
}

/// One client: what it asks, and what it knows of each key.
struct Client<'a> {
    server: &'a TestServer,
    raw: Raw,
    writes: &'a AtomicU32,
    epoch: Instant,
    seen: Vec<Option<(u32, String)>>,
    tags: BTreeMap<u32, String>,
}

impl Client<'_> {
    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).expect("a short test")
    }

    /// Something to ask of this key, and the condition as a header line.
    fn choose(&self, key: usize, next: &mut impl FnMut(u64) -> u64) -> (Asked, String) {
        let write = || self.writes.fetch_add(1, Ordering::Relaxed);
        let over = self.seen[key].as_ref();
        let over = over.map(|(write, tag)| (Only::Over(*write), format!("If-Match: {tag}\r\n")));
        let none = String::new;
        match (next(20), over) {
            (0..=6, _) => (Asked::Get, none()),
            (7..=8, _) => (Asked::Put(write(), Only::Always), none()),
            (9..=14, Some((only, line))) => (Asked::Put(write(), only), line),
            (15, _) => (Asked::Delete(Only::Always), none()),
            (16, Some((only, line))) => (Asked::Delete(only), line),
            _ => (
                Asked::Put(write(), Only::New),
                "If-None-Match: *\r\n".into(),
            ),
        }
    }

    fn round(&mut self, key: usize, asked: Asked, line: &str) -> Event {
        let (method, body) = match asked {
            Asked::Get => ("GET", Vec::new()),
            Asked::Put(write, _) => ("PUT", value(write)),
            Asked::Delete(_) => ("DELETE", Vec::new()),
        };
        let call = self.now();
        let got = ask(&mut self.raw, method, &format!("/r{key}"), line, &body);
        let back = self.now();
        let told = match (asked, got.status) {
            (Asked::Get, 404) => Told::Read(None),
            (Asked::Get, 200) => Told::Read(Some(write_of(&got.body))),
            (_, 200) => Told::Done,
            (_, 412) => Told::Refused,
            (Asked::Delete(_), 404) => Told::Absent,
            (_, status) => panic!("{asked:?}: {status}"),
        };
        match (asked, told) {
            (Asked::Get, Told::Read(Some(write))) | (Asked::Put(write, _), Told::Done) => {
                let tag = got.must("etag").to_owned();
                let same = self.tags.entry(write).or_insert_with(|| tag.clone());
                assert_eq!(*same, tag, "one write, two tags");
                self.seen[key] = Some((write, tag));
            }
            _ => {}
        }
        if got.closes() {
            self.raw = self.server.connect();
        }
        Event {
            asked,
            told,
            call,
            back,
        }
    }

    /// Asks and hangs up at once.
    fn cut(&mut self, key: usize, write: u32, line: &str) -> Event {
        let call = self.now();
        let body = value(write);
        let head = format!(
            "PUT /r{key} HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n{line}\r\n",
            body.len()
        );
        let mut raw = self.server.connect();
        raw.send([head.as_bytes(), &body].concat());
        drop(raw);
        let asked = if line.is_empty() {
            Only::Always
        } else {
            Only::New
        };
        Event {
            asked: Asked::Put(write, asked),
            told: Told::Unknown,
            call,
            back: u64::MAX,
        }
    }
}

/// What all clients saw, by key, and the tags of the writes.
fn record(server: &TestServer) -> Vec<Vec<Event>> {
    let (writes, epoch) = (AtomicU32::new(1), Instant::now());
    let client = |seed: u64| {
        let mut next = numbers(seed);
        let mut client = Client {
            server,
            raw: server.connect(),
            writes: &writes,
            epoch,
            seen: vec![None; KEYS],
            tags: BTreeMap::new(),
        };
        let mut events = Vec::new();
        // Each client hangs up once: what is unknown may have happened at any time since, which doubles the orders.
        let cut = usize::try_from(next(ROUNDS as u64)).expect("small");
        for round in 0..ROUNDS {
            // Half of the time all meet at two keys.
            let among = if round % 4 == 0 { 4 } else { KEYS as u64 };
            let mut key = usize::try_from(next(among)).expect("small");
            let event = if round == cut {
                key = usize::try_from(seed).expect("small") % KEYS;
                let line = if next(2) == 0 {
                    ""
                } else {
                    "If-None-Match: *\r\n"
                };
                client.cut(key, writes.fetch_add(1, Ordering::Relaxed), line)
            } else {
                if next(3) == 0 {
                    // A swap of what was just read has a chance.
                    events.push((key, client.round(key, Asked::Get, "")));
                }
                let (asked, line) = client.choose(key, &mut next);
                client.round(key, asked, &line)
            };
            events.push((key, event));
        }
        (events, client.tags)
    };
    let (mut keys, mut tags) = (vec![Vec::new(); KEYS], BTreeMap::new());
    thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| scope.spawn(move || client(n)))
            .collect();
        for each in clients {
            let (events, known) = each.join().expect("a client");
            for (key, event) in events {
                keys[key].push(event);
            }
            for (write, tag) in known {
                let same = tags.entry(write).or_insert_with(|| tag.clone());
                assert_eq!(*same, tag, "one write, two tags");
            }
        }
    });
    let distinct: HashSet<&String> = tags.values().collect();
    assert_eq!(distinct.len(), tags.len(), "two writes of one tag");
    keys
}

#[test]
fn every_key_is_a_linearizable_register_with_compare_and_swap() {
    let server = TestServer::start(&["--threads", "8"]);
    let keys = record(&server);
    let all = || keys.iter().flatten();
    let count = |what: fn(&Event) -> bool| all().filter(|e| what(e)).count();
    let swapped = count(|e| {
        matches!(
            (e.asked, e.told),
            (Asked::Put(_, Only::Over(_)), Told::Done)
        )
    });
    let created = count(|e| matches!((e.asked, e.told), (Asked::Put(_, Only::New), Told::Done)));
    let refused = count(|e| e.told == Told::Refused);
    let unknown = count(|e| e.told == Told::Unknown);
    println!(
        "{} operations: {swapped} swapped, {created} created, {refused} refused, {unknown} unknown",
        all().count()
    );
    assert_eq!(unknown, 16);
    for number in [swapped, created, refused] {
        assert!(number >= 40, "too few to prove anything");
    }
    for (key, events) in keys.iter().enumerate() {
        assert!(
            is_linearizable(events),
            "r{key}: no order explains {} operations",
            events.len()
        );
        // The beginning of the same history with one lie in it has none. Only the beginning: to find that there is no
        // order takes looking at all of them.
        let lies = lies(&beginning(events, 60));
        for (what, told) in lies {
            assert!(
                !is_linearizable(&told),
                "r{key}: the checker takes {what} for the truth"
            );
        }
    }
    server.dir.assert_nothing_staged();
}

/// The first `count` events, and what was under way at the end of them as never heard of.
fn beginning(events: &[Event], count: usize) -> Vec<Event> {
    let mut sorted = events.to_vec();
    sorted.sort_by_key(|e| e.call);
    let end = sorted.get(count).map_or(u64::MAX, |e| e.call);
    sorted.truncate(count);
    sorted.retain(|e| e.back < end || e.told == Told::Unknown || matches!(e.told, Told::Done));
    for event in sorted.iter_mut().filter(|e| e.back >= end) {
        (event.told, event.back) = (Told::Unknown, u64::MAX);
    }
    sorted
}

/// This history, each time with one lie in it.
fn lies(events: &[Event]) -> Vec<(&'static str, Vec<Event>)> {
    let mut sorted = events.to_vec();
    sorted.sort_by_key(|e| e.call);
    let lie = |what, find: &dyn Fn(&Event) -> bool, change: &dyn Fn(&mut Event)| {
        let mut told = sorted.clone();
        let middle = told.len() / 2;
        let event = told[middle..].iter_mut().find(|e| find(e))?;
        change(event);
        Some((what, told))
    };
    let first = sorted.iter().find_map(|e| match (e.asked, e.told) {
        (Asked::Put(write, _), Told::Done) => Some(write),
        _ => None,
    });
    let stale = lie(
        "a stale read",
        &|e| matches!(e.told, Told::Read(Some(_))),
        &|e| e.told = Told::Read(first),
    );
    // Nobody can swap a value that was replaced long ago.
    let swap = lie(
        "a swap of a value long replaced",
        &|e| matches!((e.asked, e.told), (Asked::Put(..), Told::Done)),
        &|e| {
            if let Asked::Put(write, _) = e.asked {
                e.asked = Asked::Put(write, Only::Over(first.unwrap_or_default()));
            }
        },
    );
    [stale, swap].into_iter().flatten().collect()
}

// The checker itself.

fn at(call: u64, back: u64, asked: Asked, told: Told) -> Event {
    Event {
        asked,
        told,
        call,
        back,
    }
}

fn put(write: u32) -> Asked {
    Asked::Put(write, Only::Always)
}

fn swap(old: u32, new: u32) -> Asked {
    Asked::Put(new, Only::Over(old))
}

#[test]
fn the_checker_takes_what_can_have_happened() {
    use Asked::{Delete, Get};
    use Told::{Absent, Done, Read, Refused, Unknown};
    let good: &[&[Event]] = &[
        &[],
        &[
            at(0, 1, Get, Read(None)),
            at(2, 3, put(1), Done),
            at(4, 5, Get, Read(Some(1))),
        ],
        // Two writes at once may be read in either order, by all alike.
        &[
            at(0, 9, put(1), Done),
            at(0, 9, put(2), Done),
            at(10, 11, Get, Read(Some(1))),
        ],
        &[
            at(0, 9, put(1), Done),
            at(0, 9, put(2), Done),
            at(10, 11, Get, Read(Some(2))),
        ],
        // A read during a write sees the old value or the new one.
        &[
            at(0, 9, put(1), Done),
            at(1, 2, Get, Read(None)),
            at(3, 4, Get, Read(Some(1))),
        ],
        &[
            at(0, 1, put(1), Done),
            at(2, 9, swap(1, 2), Done),
            at(2, 9, swap(1, 3), Refused),
        ],
        // What nobody heard the end of happened late, or never.
        &[
            at(0, u64::MAX, put(1), Unknown),
            at(5, 6, Get, Read(None)),
            at(7, 8, Get, Read(Some(1))),
        ],
        &[at(0, u64::MAX, put(1), Unknown), at(5, 6, Get, Read(None))],
        &[
            at(0, 1, put(1), Done),
            at(2, 3, Delete(Only::Over(1)), Done),
            at(4, 5, Delete(Only::Always), Absent),
            at(6, 7, Asked::Put(2, Only::New), Done),
            at(8, 9, Delete(Only::Over(1)), Refused),
        ],
    ];
    for events in good {
        assert!(is_linearizable(events), "{events:?}");
    }
}

#[test]
fn the_checker_refuses_planted_lies() {
    use Asked::{Delete, Get};
    use Told::{Absent, Done, Read, Refused, Unknown};
    let new = |write| Asked::Put(write, Only::New);
    let lies: &[(&str, &[Event])] = &[
        (
            "a stale read",
            &[
                at(0, 1, put(1), Done),
                at(2, 3, put(2), Done),
                at(4, 5, Get, Read(Some(1))),
            ],
        ),
        (
            "a read from the future",
            &[at(0, 1, Get, Read(Some(1))), at(2, 3, put(1), Done)],
        ),
        (
            "a value that came from nowhere",
            &[at(0, 1, Get, Read(Some(7)))],
        ),
        (
            "a read that goes back",
            &[
                at(0, 9, put(1), Done),
                at(1, 2, Get, Read(Some(1))),
                at(3, 4, Get, Read(None)),
            ],
        ),
        (
            "two orders of the same writes",
            &[
                at(0, 9, put(1), Done),
                at(0, 9, put(2), Done),
                at(10, 11, Get, Read(Some(1))),
                at(12, 13, Get, Read(Some(2))),
            ],
        ),
        (
            "a lost update",
            &[
                at(0, 1, put(1), Done),
                at(2, 3, swap(1, 2), Done),
                at(4, 5, Get, Read(Some(1))),
            ],
        ),
        (
            "one value swapped twice",
            &[
                at(0, 1, put(1), Done),
                at(2, 9, swap(1, 2), Done),
                at(2, 9, swap(1, 3), Done),
            ],
        ),
        (
            "created twice",
            &[at(0, 9, new(1), Done), at(0, 9, new(2), Done)],
        ),
        (
            "a refusal without a reason",
            &[at(0, 1, put(1), Done), at(2, 3, swap(1, 2), Refused)],
        ),
        (
            "a deletion of nothing",
            &[at(0, 1, Delete(Only::Always), Done)],
        ),
        (
            "a deletion not seen",
            &[
                at(0, 1, put(1), Done),
                at(2, 3, Delete(Only::Always), Absent),
            ],
        ),
        (
            "an unknown write before it was asked for",
            &[
                at(0, 1, Get, Read(Some(1))),
                at(5, u64::MAX, put(1), Unknown),
            ],
        ),
        (
            "an unknown write done twice",
            &[
                at(0, u64::MAX, put(1), Unknown),
                at(1, 2, Get, Read(Some(1))),
                at(3, 4, put(2), Done),
                at(5, 6, Get, Read(Some(1))),
            ],
        ),
    ];
    for (what, events) in lies {
        assert!(
            !is_linearizable(events),
            "the checker takes {what} for the truth"
        );
    }
}

/// A register in memory, played by clients that overlap: the checker takes what it tells, and refuses every such history
/// in which one read was changed to another value.
#[test]
fn the_checker_tells_a_register_from_a_broken_one() {
    for seed in 0..30 {
        let mut next = numbers(seed);
        let (mut value, mut events) = (None, Vec::new());
        for (time, write) in (0..200_u32).zip(1..) {
            let asked = match next(6) {
                0..=2 => Asked::Get,
                3 => put(write),
                4 => value.map_or(Asked::Put(write, Only::New), |old| swap(old, write)),
                _ => Asked::Delete(Only::Always),
            };
            let told;
            (told, value) = apply(asked, value);
            let (moment, before, after) = (u64::from(time) * 10 + 50, next(50), next(50));
            events.push(at(moment - before, moment + after, asked, told));
        }
        assert!(is_linearizable(&events), "seed {seed}");
        let reads = from_fn({
            let mut from = 0;
            let events = events.clone();
            move || {
                let place = from + events[from..].iter().position(|e| e.asked == Asked::Get)?;
                from = place + 1;
                Some(place)
            }
        });
        for place in reads.step_by(5) {
            let mut told = events.clone();
            told[place].told = Told::Read(Some(1_000_000));
            assert!(
                !is_linearizable(&told),
                "seed {seed}: a read of what nobody wrote"
            );
        }
    }
}
