//! The model of one key, a register with compare-and-swap, or of two between which values move, and the checker: is
//! there an order of what clients saw? It is shown to refuse lies.

use crate::prelude::*;

/// Points that a search may visit: a search that needs more has too many unknown outcomes to be one.
const MOST_POINTS: usize = 2_000_000;

/// The tag of a write or move that no client has heard of. It may be any tag from [`UNHEARD`] on.
pub(crate) const UNTOLD: u32 = 0;

/// Tags from this number on were read, and no write or move was heard to have them.
pub(crate) const UNHEARD: u32 = 1 << 31;

/// The number of the write that the bytes are of, and that of the tag: of a value that never moved, the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) write: u32,
    pub(crate) tag: u32,
}

impl Version {
    pub(crate) fn of(write: u32) -> Self {
        Self { write, tag: write }
    }

    /// True if it may be `other`, as far as its tag is known.
    fn may_be(self, other: Self) -> bool {
        let may_have = self.tag == UNTOLD && other.tag >= UNHEARD;
        self.write == other.write && (self.tag == other.tag || may_have)
    }
}

/// What a register holds.
pub(crate) type Value = Option<Version>;

/// When a write may be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Only {
    Always,
    /// `If-Match` with the tag of this version.
    Over(Version),
    /// `If-Match: *`
    Any,
    /// `If-None-Match: *`
    New,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Get,
    Put(Version, Only),
    Delete(Only),
    /// To the other register, where it has this tag, under conditions of both.
    Move(u32, Only, Only),
    /// A COPY, whose ends are looked at one after the other: one that was refused. Another is a read of the one and a
    /// write of the other.
    Copy(Only, Only),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    Read(Value),
    Done,
    /// 412
    Refused,
    /// DELETE, MOVE: 404
    Absent,
    /// The client never heard: it happened at any time from the call on, or never.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// Of which of two registers: 0 where there is one.
    pub(crate) of: usize,
    pub(crate) asked: Asked,
    pub(crate) told: Told,
    pub(crate) call: u64,
    pub(crate) back: u64,
}

/// What was asked and told between these moments.
pub(crate) fn at(call: u64, back: u64, asked: Asked, told: Told) -> Event {
    Event {
        of: 0,
        asked,
        told,
        call,
        back,
    }
}

impl Event {
    /// The versions that its client has read, now or before.
    pub(crate) fn known(&mut self) -> impl Iterator<Item = &mut Version> {
        let conditions = match &mut self.asked {
            Asked::Get => [None, None],
            Asked::Put(_, only) | Asked::Delete(only) => [Some(only), None],
            Asked::Move(_, from, to) | Asked::Copy(from, to) => [Some(from), Some(to)],
        };
        let read = match &mut self.told {
            Told::Read(value) => value.as_mut(),
            _ => None,
        };
        let over = conditions.into_iter().flatten();
        let over = over.filter_map(|only| match only {
            Only::Over(version) => Some(version),
            _ => None,
        });
        over.chain(read)
    }
}

impl Only {
    /// True if it may hold, as far as the tag of `value` is known.
    fn may_hold(self, value: Value) -> bool {
        match self {
            Self::Always => true,
            Self::Over(version) => value.is_some_and(|value| value.may_be(version)),
            Self::Any => value.is_some(),
            Self::New => value.is_none(),
        }
    }

    fn may_fail(self, value: Value) -> bool {
        match self {
            Self::Always => false,
            Self::Over(version) => value != Some(version),
            Self::Any => value.is_none(),
            Self::New => value.is_some(),
        }
    }
}

/// What the registers hold after `event`, if they can have told that while they held `values`.
fn after(event: &Event, values: [Value; 2]) -> Option<[Value; 2]> {
    let (of, value, other) = (event.of, values[event.of], values[1 - event.of]);
    let mut then = values;
    match (event.asked, event.told) {
        (Asked::Get, Told::Read(None)) | (Asked::Delete(_) | Asked::Move(..), Told::Absent)
            if value.is_none() => {}
        (Asked::Get, Told::Read(Some(read))) if value.is_some_and(|it| it.may_be(read)) => {
            then[of] = Some(read);
        }
        (Asked::Put(version, only), Told::Done | Told::Unknown) if only.may_hold(value) => {
            then[of] = Some(version);
        }
        (Asked::Put(_, only), Told::Refused) if only.may_fail(value) => {}
        (Asked::Delete(only), Told::Done | Told::Unknown) if only.may_hold(value) => {
            value?;
            then[of] = None;
        }
        (Asked::Delete(only), Told::Refused) if only.may_fail(value) => drop(value?),
        (Asked::Move(tag, from, to), Told::Done | Told::Unknown)
            if from.may_hold(value) && to.may_hold(other) =>
        {
            then[1 - of] = Some(Version { tag, ..value? });
            then[of] = None;
        }
        (Asked::Move(_, from, to), Told::Refused) if from.may_fail(value) || to.may_fail(other) => {
            value?;
        }
        (Asked::Copy(from, to), Told::Refused) if from.may_fail(value) || to.may_fail(other) => {}
        _ => return None,
    }
    Some(then)
}

/// True of a read while one of these `moves` was under way, if it may have read the tag that the value is about to move
/// with: it is given to the file just before the new name.
fn is_early(event: &Event, values: [Value; 2], moves: &[Event]) -> bool {
    let (Told::Read(Some(read)), Some(value)) = (event.told, values[event.of]) else {
        return false;
    };
    let moves = moves.iter().filter(|it| it.of == event.of);
    let mut meanwhile = moves.filter(|it| it.call <= event.back && event.call <= it.back);
    meanwhile.any(|it| match it.asked {
        Asked::Move(tag, from, _) => {
            from.may_hold(Some(value)) && Version { tag, ..value }.may_be(read)
        }
        _ => false,
    })
}

/// How far a search has come: events before `base` have their place, those in `ahead` have (counted from `base` on),
/// the unknown ones in `taken` have happened.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Point {
    base: usize,
    ahead: Vec<bool>,
    taken: Vec<usize>,
    values: [Value; 2],
}

/// Whether the events of one register or two, empty at first, have an order that they could have happened in one by one
/// (Wing and Gong's search, remembering where it has been).
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
    has_order(events, false)
}

/// The same, where the first register may also be emptied at any moment, if it is one that `evicts`.
pub(crate) fn has_order(events: &[Event], evicts: bool) -> bool {
    let (mut open, mut known): (Vec<Event>, Vec<Event>) =
        events.iter().partition(|e| e.told == Told::Unknown);
    known.sort_by_key(|e| e.call);
    open.sort_by_key(|e| e.call);
    let start = Point {
        base: 0,
        ahead: Vec::new(),
        taken: Vec::new(),
        values: [None; 2],
    };
    let is_move = |e: &&Event| {
        matches!(
            (e.asked, e.told),
            (Asked::Move(..), Told::Done | Told::Unknown)
        )
    };
    let moves: Vec<Event> = events.iter().filter(is_move).copied().collect();
    let (mut been, mut stack) = (HashSet::new(), vec![start]);
    while let Some(mut point) = stack.pop() {
        let (changes, until) = point.settle(&known, &moves);
        if point.base == known.len() {
            return true;
        }
        if !been.insert(point.clone()) {
            continue;
        }
        assert!(been.len() < MOST_POINTS, "too many orders to try them all");
        if evicts && point.values[0].is_some() {
            stack.push(Point {
                values: [None; 2],
                ..point.clone()
            });
        }
        for (place, event) in open.iter().enumerate().filter(|(_, e)| e.call <= until) {
            let mut outcomes = vec![after(event, point.values)];
            if let (Asked::Move(tag, from, _), Some(value)) = (event.asked, point.values[event.of])
                && from.may_hold(Some(value))
            {
                // A kill between leaves the old name with the new tag.
                let mut values = point.values;
                values[event.of] = Some(Version { tag, ..value });
                outcomes.push(Some(values));
            }
            let is_taken = point.taken.contains(&place);
            let outcomes = outcomes.into_iter().flatten().filter(|_| !is_taken);
            for values in outcomes.filter(|values| *values != point.values) {
                let mut next = point.clone();
                next.values = values;
                next.taken.push(place);
                next.taken.sort_unstable();
                stack.push(next);
            }
        }
        // Tried first, as they stand last on the stack: what is known to have happened, in the order of the answers.
        for (place, values) in changes.into_iter().rev() {
            let mut next = point.clone();
            next.values = values;
            next.place(place);
            stack.push(next);
        }
    }
    false
}

impl Point {
    /// Gives its place to everything that may come next and changes nothing: no order is lost by that. Returns the
    /// changes that may come next, and when the first of all answers was given that is still to be explained.
    fn settle(&mut self, known: &[Event], moves: &[Event]) -> (Vec<(usize, [Value; 2])>, u64) {
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
                match after(event, self.values) {
                    Some(values) if values == self.values => still.push(place),
                    Some(values) => changes.push((place, values)),
                    None if is_early(event, self.values, moves) => still.push(place),
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
    if events.iter().any(|e| matches!(e.asked, Asked::Move(..))) {
        return lies_of_moves(events);
    }
    let mut sorted = events.to_vec();
    sorted.sort_by_key(|e| e.call);
    let is_change = |e: &&Event| e.told == Told::Done;
    let first = sorted.iter().filter(is_change).find_map(|e| match e.asked {
        Asked::Put(version, _) => Some((version, e.back)),
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
        if let Asked::Put(version, _) = e.asked {
            e.asked = Asked::Put(version, Only::Over(first));
        }
    });
    [stale, swap].into_iter().flatten().collect()
}

/// This history of two registers, each time with one lie about a move whose value was read afterwards.
fn lies_of_moves(events: &[Event]) -> Vec<(&'static str, Vec<Event>)> {
    let read_of = |tag: u32, since: u64| {
        let mut later = events.iter().filter(|e| e.call > since);
        later.find(|e| matches!(e.told, Told::Read(Some(version)) if version.tag == tag))
    };
    let told = events.iter().enumerate();
    let mut moves = told.filter_map(|(place, e)| match (e.asked, e.told) {
        (Asked::Move(tag, Only::Over(old), _), Told::Done) if old.tag < UNHEARD => {
            Some((place, e, old, read_of(tag, e.back)?))
        }
        _ => None,
    });
    let Some((place, change, old, read)) = moves.next() else {
        return Vec::new();
    };
    let mut lost = events.to_vec();
    lost.remove(place);
    let mut in_two_steps = events.to_vec();
    let late = Event {
        of: change.of,
        ..at(
            read.back + 1,
            u64::MAX - 1,
            Asked::Get,
            Told::Read(Some(old)),
        )
    };
    in_two_steps.push(late);
    vec![
        ("a lost move", lost),
        ("a copy seen before a removal", in_two_steps),
    ]
}

// The checker itself.

fn put(write: u32) -> Asked {
    Asked::Put(Version::of(write), Only::Always)
}

fn over(write: u32) -> Only {
    Only::Over(Version::of(write))
}

fn swap(old: u32, new: u32) -> Asked {
    Asked::Put(Version::of(new), over(old))
}

/// A history as text, in which what has no end is unknown, and what says no more is done; in capitals, of the second
/// register. A value that has moved has a second number, its tag.
fn history(text: &str) -> Vec<Event> {
    let event = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        let numbers = words.iter().skip(2).map_while(|word| word.parse().ok());
        let numbers: Vec<u32> = numbers.collect();
        let last = words[words.len() - 1];
        let asked = match (&*words[1].to_lowercase(), &numbers[..]) {
            ("put", &[write]) => put(write),
            ("swap", &[old, new]) => swap(old, new),
            ("new", &[write]) => Asked::Put(Version::of(write), Only::New),
            ("delete", &[]) => Asked::Delete(Only::Always),
            ("delete", &[write]) => Asked::Delete(over(write)),
            ("move", &[tag]) if words.contains(&"new") => Asked::Move(tag, Only::Always, Only::New),
            ("move", &[tag]) => Asked::Move(tag, Only::Always, Only::Always),
            ("move", &[tag, write]) => Asked::Move(tag, over(write), Only::Always),
            ("get", _) => Asked::Get,
            _ => panic!("{text}"),
        };
        let (call, back) = words[0].split_once('-').expect("two times");
        let read = |&write: &u32| {
            let tag = numbers.get(1).copied().unwrap_or(write);
            Version { write, tag }
        };
        let told = match last {
            _ if back.is_empty() => Told::Unknown,
            "refused" => Told::Refused,
            "absent" => Told::Absent,
            _ if asked == Asked::Get => Told::Read(numbers.first().map(read)),
            _ => Told::Done,
        };
        let back = back.parse().unwrap_or(u64::MAX);
        Event {
            of: usize::from(words[1].starts_with(char::is_uppercase)),
            ..at(call.parse().expect("a time"), back, asked, told)
        }
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

#[test]
fn the_checker_takes_moves_and_no_lie_about_them() {
    for text in [
        "0-1 put 1, 2-3 move 7, 4-5 get none, 4-5 GET 1 7, 6-7 MOVE 8, 8-9 get 1 8",
        // A reader of one register sees a move before or after, and so does one of the other.
        "0-1 put 1, 2-9 move 7, 3-4 get 1, 5-6 GET 1 7, 7-8 get none",
        // Just before, it may have the new tag, and after a kill it may keep that.
        "0-1 put 1, 2-9 move 7, 3-4 get 1 7, 5-6 GET 1 7",
        "0-1 put 1, 2- move 0, 3-4 get 1 3000000000, 5-6 get 1 3000000000, 7-8 new 2 refused",
        "0-1 put 1, 0-1 PUT 2, 2-3 move 7 new refused, 4-5 move 8 2 refused, 6-7 move 9 1, 8-9 GET 1 9",
        "0-1 move 7 absent, 2-3 PUT 1, 4-5 MOVE 8, 6-7 get 1 8",
        "0-1 put 1, 2- move 0, 3-4 get 1, 5-6 GET none, 7-8 GET 1 3000000000, 9-10 get none",
    ] {
        assert!(is_linearizable(&history(text)), "{text}");
    }
    for [what, text] in table(
        "a copy seen before the removal ; 0-1 put 1, 2-9 move 7, 3-4 GET 1 7, 5-6 get 1
        a removal seen before the copy ; 0-1 put 1, 2-9 move 7, 3-4 get none, 5-6 GET none
        the new tag long before the move ; 0-1 put 1, 2-3 get 1 7, 4-5 move 7
        the new tag after the move was seen ; 0-1 put 1, 2-9 move 7, 3-4 GET 1 7, 5-6 get 1 7
        a lost move ; 0-1 put 1, 2-3 move 7, 4-5 GET none
        a lost value ; 0-1 put 1, 2-3 move 7 absent
        a stale source ; 0-1 put 1, 2-3 put 2, 4-5 move 7, 6-7 GET 1 7
        a move of a version long replaced ; 0-1 put 1, 2-3 put 2, 4-5 move 7 1
        a value that was replaced against the condition ; 0-1 put 1, 0-1 PUT 2, 2-3 move 7 new
        a move that keeps the tag ; 0-1 put 1, 2-3 move 7, 4-5 GET 1
        a tag that comes back with its value ; 0-1 put 1, 2-3 move 7, 4-5 MOVE 8, 6-7 swap 1 2
        a move without an answer that keeps the tag ; 0-1 put 1, 2- move 0, 3-4 GET 1
        two tags of one move ; 0-1 put 1, 2- move 0, 3-4 GET 1 3000000000, 5-6 GET 1 3000000001
        one value moved twice ; 0-1 put 1, 2-9 move 7, 2-9 move 8",
    ) {
        let is_taken = is_linearizable(&history(text));
        assert!(!is_taken, "the checker takes {what} for the truth");
    }
}

#[test]
fn the_checker_takes_evictions_and_no_lie_about_them() {
    for text in [
        "0-1 put 1, 2-3 get none",
        "0-1 put 1, 2-3 get 1, 4-5 get none, 6-7 put 2, 8-9 get 2",
        "0-1 put 1, 2-3 swap 1 2 refused, 4-5 new 3",
        "0-1 put 1, 2-3 delete absent, 4-5 put 2, 6-7 new 3",
        "0-9 put 1, 1-2 get 1, 3-4 get none, 5-6 get none",
        "0- put 1, 2-3 get 1, 4-5 get none",
    ] {
        assert!(has_order(&history(text), true), "{text}");
        let is_taken = is_linearizable(&history(text));
        assert!(!is_taken, "the checker explains {text} without one");
    }
    for [what, text] in table(
        "a value back after its eviction ; 0-1 put 1, 2-3 get none, 4-5 get 1
        an older value after the eviction of a later ; 0-1 put 1, 2-3 put 2, 4-5 get none, 6-7 get 1
        an older value in place of a later ; 0-1 put 1, 2-3 put 2, 4-5 get 1
        a swap of what was evicted ; 0-1 put 1, 2-3 get none, 4-5 swap 1 2
        a deletion of what was evicted ; 0-1 put 1, 2-3 get none, 4-5 delete 1
        a refusal of a new value where there is none ; 0-1 put 1, 2-3 get none, 4-5 new 2 refused
        a value without a write ; 0-1 put 1, 2-3 get 2
        one write done twice ; 0- put 1, 1-2 get 1, 3-4 get none, 5-6 get 1",
    ) {
        let is_taken = has_order(&history(text), true);
        assert!(!is_taken, "the checker takes {what} for the truth");
    }
}

/// A register in memory, played by clients that overlap: the checker takes what it tells, and refuses every such
/// history in which one read was changed to another value.
#[test]
fn the_checker_tells_a_register_from_a_broken_one() {
    for seed in 0..30 {
        let mut dice = Random::with_seed(seed);
        let (mut value, mut events) = (None::<Version>, Vec::new());
        for (time, write) in (0..200_u32).zip(1..) {
            let asked = match dice.u64(..6) {
                0..=2 => Asked::Get,
                3 => put(write),
                4 => value.map_or(Asked::Put(Version::of(write), Only::New), |old| {
                    swap(old.write, write)
                }),
                _ => Asked::Delete(Only::Always),
            };
            let tells = [Told::Read(value), Told::Done, Told::Absent];
            let mut tells = tells.into_iter().filter_map(|told| {
                let then = after(&at(0, 0, asked, told), [value, None])?;
                Some((told, then[0]))
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
            told[place].told = Told::Read(Some(Version::of(1_000_000)));
            let is_taken = is_linearizable(&told);
            assert!(!is_taken, "seed {seed}: a read of what nobody wrote");
        }
    }
}
