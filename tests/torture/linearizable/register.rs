//! The model of one key, a register with compare-and-swap, and the checker: is there an order of what clients saw? It is
//! shown to refuse lies. A write is a number, which stands for its bytes and its tag.

use crate::prelude::*;

/// Points that a search may visit: a search that needs more has too many unknown outcomes to be one.
const MOST_POINTS: usize = 2_000_000;

/// What a register holds.
pub(crate) type Value = Option<u32>;

/// When a write may be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Only {
    Always,
    /// `If-Match` with the tag of this write.
    Over(u32),
    /// `If-None-Match: *`
    New,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Get,
    Put(u32, Only),
    Delete(Only),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
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
pub(crate) struct Event {
    pub(crate) asked: Asked,
    pub(crate) told: Told,
    pub(crate) call: u64,
    pub(crate) back: u64,
}

/// What was asked and told between these moments.
pub(crate) fn at(call: u64, back: u64, asked: Asked, told: Told) -> Event {
    Event {
        asked,
        told,
        call,
        back,
    }
}

impl Only {
    fn holds(self, value: Value) -> bool {
        match self {
            Self::Always => true,
            Self::Over(write) => value == Some(write),
            Self::New => value.is_none(),
        }
    }
}

/// What a register holds after `event`, if it can have told that while it held `value`.
fn after(event: &Event, value: Value) -> Option<Value> {
    match (event.asked, event.told) {
        (Asked::Get, Told::Read(read)) => (value == read).then_some(value),
        (Asked::Put(write, only), Told::Done | Told::Unknown) => {
            only.holds(value).then_some(Some(write))
        }
        (Asked::Put(_, only), Told::Refused) => (!only.holds(value)).then_some(value),
        (Asked::Delete(_), Told::Absent) => value.is_none().then_some(value),
        (Asked::Delete(only), Told::Done | Told::Unknown) => {
            (value.is_some() && only.holds(value)).then_some(None)
        }
        (Asked::Delete(only), Told::Refused) => {
            (value.is_some() && !only.holds(value)).then_some(value)
        }
        _ => None,
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

/// Whether the events of a register, empty at first, have an order that they could have happened in one by one
/// (Wing and Gong's search, remembering where it has been).
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
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
            let value = after(event, point.value).filter(|value| *value != point.value);
            let is_taken = point.taken.contains(&place);
            if let Some(value) = value.filter(|_| !is_taken) {
                let mut next = Point {
                    value,
                    ..point.clone()
                };
                next.taken.push(place);
                next.taken.sort_unstable();
                stack.push(next);
            }
        }
        // Tried first, as they stand last on the stack: what is known to have happened, in the order of the answers.
        for (place, value) in changes.into_iter().rev() {
            let mut next = point.clone();
            next.value = value;
            next.place(place);
            stack.push(next);
        }
    }
    false
}

impl Point {
    /// Gives its place to everything that may come next and changes nothing: no order is lost by that. Returns the
    /// changes that may come next, and when the first of all answers was given that is still to be explained.
    fn settle(&mut self, known: &[Event]) -> (Vec<(usize, Value)>, u64) {
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
                match after(event, self.value) {
                    Some(value) if value == self.value => still.push(place),
                    Some(value) => changes.push((place, value)),
                    None => {}
                }
            }
            changes.retain(|&(place, _)| known[place].call <= until);
            still.retain(|&place| known[place].call <= until);
            if still.is_empty() {
                changes.sort_by_key(|&(place, _)| known[place].back);
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

/// The first `count` events, and what was under way at the end of them as never heard of.
pub(crate) fn beginning(events: &[Event], count: usize) -> Vec<Event> {
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

/// This history, each time with one lie in it: long after a write was replaced, somebody meets it again.
pub(crate) fn lies(events: &[Event]) -> Vec<(&'static str, Vec<Event>)> {
    let mut sorted = events.to_vec();
    sorted.sort_by_key(|e| e.call);
    let is_change = |e: &&Event| e.told == Told::Done;
    let first = sorted.iter().filter(is_change).find_map(|e| match e.asked {
        Asked::Put(write, _) => Some((write, e.back)),
        _ => None,
    });
    let Some((first, written)) = first else {
        return Vec::new();
    };
    let after = sorted.iter().filter(|e| e.call > written);
    let Some(replaced) = after.filter(is_change).map(|e| e.back).min() else {
        return Vec::new();
    };
    let lie = |what, find: &dyn Fn(&Event) -> bool, change: &dyn Fn(&mut Event)| {
        let mut told = sorted.clone();
        change(told.iter_mut().find(|e| e.call > replaced && find(e))?);
        Some((what, told))
    };
    let is_read = |e: &Event| matches!(e.told, Told::Read(Some(_)));
    let stale = lie("a stale read", &is_read, &|e| {
        e.told = Told::Read(Some(first));
    });
    let is_put = |e: &Event| matches!((e.asked, e.told), (Asked::Put(..), Told::Done));
    let swap = lie("a swap of a value long replaced", &is_put, &|e| {
        if let Asked::Put(write, _) = e.asked {
            e.asked = Asked::Put(write, Only::Over(first));
        }
    });
    [stale, swap].into_iter().flatten().collect()
}

// The checker itself.

fn put(write: u32) -> Asked {
    Asked::Put(write, Only::Always)
}

fn swap(old: u32, new: u32) -> Asked {
    Asked::Put(new, Only::Over(old))
}

/// A history as text, in which what has no end is unknown, and what says no more is done.
fn history(text: &str) -> Vec<Event> {
    let event = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        let numbers = words.iter().skip(2).map_while(|word| word.parse().ok());
        let numbers: Vec<u32> = numbers.collect();
        let last = words[words.len() - 1];
        let asked = match (words[1], &numbers[..]) {
            ("put", &[write]) => put(write),
            ("swap", &[old, new]) => swap(old, new),
            ("new", &[write]) => Asked::Put(write, Only::New),
            ("delete", &[]) => Asked::Delete(Only::Always),
            ("delete", &[write]) => Asked::Delete(Only::Over(write)),
            ("get", _) => Asked::Get,
            _ => panic!("{text}"),
        };
        let (call, back) = words[0].split_once('-').expect("two times");
        let told = match last {
            _ if back.is_empty() => Told::Unknown,
            "refused" => Told::Refused,
            "absent" => Told::Absent,
            _ if asked == Asked::Get => Told::Read(numbers.first().copied()),
            _ => Told::Done,
        };
        let back = back.parse().unwrap_or(u64::MAX);
        at(call.parse().expect("a time"), back, asked, told)
    };
    text.split(", ").map(event).collect()
}

#[test]
fn the_checker_takes_what_can_have_happened() {
    for text in [
        "0-1 get none, 2-3 put 1, 4-5 get 1",
        // Two writes at once may be read in either order, by all alike.
        "0-9 put 1, 0-9 put 2, 10-11 get 1",
        "0-9 put 1, 0-9 put 2, 10-11 get 2",
        // A read during a write sees the old value or the new one.
        "0-9 put 1, 1-2 get none, 3-4 get 1",
        "0-1 put 1, 2-9 swap 1 2, 2-9 swap 1 3 refused",
        // What nobody heard the end of happened late, or never.
        "0- put 1, 5-6 get none, 7-8 get 1",
        "0- put 1, 5-6 get none",
        "0-1 put 1, 2-3 delete 1, 4-5 delete absent, 6-7 new 2, 8-9 delete 1 refused",
    ] {
        assert!(is_linearizable(&history(text)), "{text}");
    }
    assert!(is_linearizable(&[]));
}

#[test]
fn the_checker_refuses_planted_lies() {
    for [what, text] in table(
        "a stale read ; 0-1 put 1, 2-3 put 2, 4-5 get 1
        a read from the future ; 0-1 get 1, 2-3 put 1
        a value that came from nowhere ; 0-1 get 7
        a read that goes back ; 0-9 put 1, 1-2 get 1, 3-4 get none
        two orders of the same writes ; 0-9 put 1, 0-9 put 2, 10-11 get 1, 12-13 get 2
        a lost update ; 0-1 put 1, 2-3 swap 1 2, 4-5 get 1
        one value swapped twice ; 0-1 put 1, 2-9 swap 1 2, 2-9 swap 1 3
        created twice ; 0-9 new 1, 0-9 new 2
        a refusal without a reason ; 0-1 put 1, 2-3 swap 1 2 refused
        a deletion of nothing ; 0-1 delete
        a deletion not seen ; 0-1 put 1, 2-3 delete absent
        an unknown write before it was asked for ; 0-1 get 1, 5- put 1
        an unknown write done twice ; 0- put 1, 1-2 get 1, 3-4 put 2, 5-6 get 1",
    ) {
        let is_taken = is_linearizable(&history(text));
        assert!(!is_taken, "the checker takes {what} for the truth");
    }
}

/// A register in memory, played by clients that overlap: the checker takes what it tells, and refuses every such
/// history in which one read was changed to another value.
#[test]
fn the_checker_tells_a_register_from_a_broken_one() {
    for seed in 0..30 {
        let mut dice = Random::with_seed(seed);
        let (mut value, mut events) = (None::<u32>, Vec::new());
        for (time, write) in (0..200_u32).zip(1..) {
            let asked = match dice.u64(..6) {
                0..=2 => Asked::Get,
                3 => put(write),
                4 => value.map_or(Asked::Put(write, Only::New), |old| swap(old, write)),
                _ => Asked::Delete(Only::Always),
            };
            let tells = [Told::Read(value), Told::Done, Told::Absent];
            let mut tells = tells.into_iter().filter_map(|told| {
                let then = after(&at(0, 0, asked, told), value)?;
                Some((told, then))
            });
            let told;
            (told, value) = tells.next().expect("an answer");
            let moment = u64::from(time) * 10 + 50;
            let (call, back) = (moment - dice.u64(..50), moment + dice.u64(..50));
            events.push(at(call, back, asked, told));
        }
        assert!(is_linearizable(&events), "seed {seed}");
        let reads = (0..events.len()).filter(|&place| events[place].asked == Asked::Get);
        for place in reads.step_by(5) {
            let mut told = events.clone();
            told[place].told = Told::Read(Some(1_000_000));
            let is_taken = is_linearizable(&told);
            assert!(!is_taken, "seed {seed}: a read of what nobody wrote");
        }
    }
}
