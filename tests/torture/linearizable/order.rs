//! The search: is there an order in which what clients saw can have happened one by one? It is shown to refuse lies.

use super::register::{
    Asked, EMPTY, Event, Only, Told, UNHEARD, Values, Version, after, at, is_early,
    mark_collisions, outcomes,
};
use crate::prelude::*;

/// Points that a search may visit: a search that needs more has too many unknown outcomes to be one.
const MOST_POINTS: usize = 2_000_000;

/// The same where a lie is looked for: that there is no order takes looking at all of them.
const MOST_OF_A_LIE: usize = 20_000;

/// How far a search has come: events before `base` have their place, those in `ahead` have (counted from `base` on),
/// the unknown ones in `taken` have happened.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Point {
    base: usize,
    ahead: Vec<bool>,
    taken: Vec<usize>,
    values: Values,
}

/// Whether the events of one register or two, empty at first, have an order that they could have happened in one by one
/// (Wing and Gong's search, remembering where it has been).
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
    has_order(events, false)
}

/// The same, where each register may also be emptied at any moment, if it is one that `evicts`.
pub(crate) fn has_order(events: &[Event], evicts: bool) -> bool {
    search(events, evicts, MOST_POINTS).expect("too many orders to try them all")
}

/// Whether this history, which has a lie in it, is taken for the truth; `None` where it has too many orders to tell.
pub(super) fn takes_lie(events: &[Event], evicts: bool) -> Option<bool> {
    search(events, evicts, MOST_OF_A_LIE)
}

fn search(events: &[Event], evicts: bool, most_points: usize) -> Option<bool> {
    let (mut open, mut known): (Vec<Event>, Vec<Event>) =
        events.iter().partition(|e| e.told == Told::Unknown);
    known.sort_by_key(|e| e.call);
    open.sort_by_key(|e| e.call);
    let start = Point {
        base: 0,
        ahead: Vec::new(),
        taken: Vec::new(),
        values: EMPTY,
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
            return Some(true);
        }
        if !been.insert(point.clone()) {
            continue;
        }
        if been.len() > most_points {
            return None;
        }
        for of in (0..2).filter(|&of| evicts && point.values[of].is_some()) {
            let mut emptied = point.clone();
            emptied.values[of] = None;
            stack.push(emptied);
        }
        let since = point.since(&known);
        let may_come = |(_, e): &(usize, &Event)| e.call <= until && e.back >= since;
        for (place, event) in open.iter().enumerate().filter(may_come) {
            let is_taken = point.taken.contains(&place);
            let outcomes = outcomes(event, point.values)
                .into_iter()
                .filter(|_| !is_taken);
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
    Some(false)
}

impl Point {
    /// Gives its place to everything that may come next and changes nothing: no order is lost by that. Returns the
    /// changes that may come next, and when the first of all answers was given that is still to be explained.
    fn settle(&mut self, known: &[Event], moves: &[Event]) -> (Vec<(usize, Values)>, u64) {
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
                let outcomes = outcomes(event, self.values);
                let is_early = outcomes.is_empty() && is_early(event, self.values, moves);
                if is_early || !event.may_change() && outcomes == [self.values] {
                    still.push(place);
                } else {
                    changes.extend(outcomes.into_iter().map(|values| (place, values)));
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

    /// When the last that has its place was asked for.
    fn since(&self, known: &[Event]) -> u64 {
        let placed = (self.base + self.ahead.len()).checked_sub(1);
        placed.map_or(0, |last| known[last].call)
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

/// This history of two registers, each time with one lie: a read of what nobody wrote, or one about a move whose value
/// was read afterwards.
fn lies_of_moves(events: &[Event]) -> Vec<(&'static str, Vec<Event>)> {
    let read = events.iter().rposition(|e| e.asked == Asked::Get);
    let of_nobody = read.map(|place| {
        let mut told = events.to_vec();
        told[place].told = Told::Read(Some(Version::of(1_000_000)));
        ("a value of nobody", told)
    });
    let read_of = |tag: u32, since: u64| {
        let mut later = events.iter().filter(|e| e.call > since);
        later.find(|e| matches!(e.told, Told::Read(Some(version)) if version.tag == tag))
    };
    let told = events.iter().enumerate();
    let mut moves = told.filter_map(|(place, e)| match (e.asked, e.told) {
        (Asked::Move(tag, Only::Over(old), _), Told::Done) if old.tag < UNHEARD && !e.collides => {
            Some((place, e, old, read_of(tag, e.back)?))
        }
        _ => None,
    });
    let Some((place, change, old, read)) = moves.next() else {
        return of_nobody.into_iter().collect();
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
    let of_move = [
        ("a lost move", lost),
        ("a copy seen before a removal", in_two_steps),
    ];
    of_move.into_iter().chain(of_nobody).collect()
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
            ("rename", &[]) => Asked::Rename(Only::New),
            ("replace", &[]) => Asked::Rename(Only::Always),
            ("reads", &[]) => Asked::CopyReads(0),
            ("writes", &[]) => Asked::CopyWrites(0, Only::Always),
            ("copy", &[write]) => Asked::Copy(over(write), Only::Always),
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
        "0-1 put 1, 2-9 move 7, 3-4 copy 1 refused, 5-6 GET none",
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
        a copy refused long before ; 0-1 put 1, 2-3 copy 1 refused, 4-5 move 7
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
fn the_checker_takes_folders_that_move_and_are_copied_and_no_lie_about_them() {
    for text in [
        "0-1 put 1, 2-3 rename, 4-5 get none, 4-5 GET 1, 6-7 RENAME, 8-9 swap 1 2",
        // A folder without a value moves, too, and none replaces another.
        "0-5 rename, 1-2 put 1, 6-7 GET 1, 8-9 get none",
        "0-1 rename, 2-3 GET none, 4-5 rename absent, 6-7 put 1, 6-7 PUT 2, 8-9 rename refused",
        "0-1 put 1, 0-1 PUT 2, 2-3 replace, 4-5 GET 1, 6-7 get none",
        "0-1 put 1, 2-9 reads, 2-9 writes, 3-4 put 2, 5-6 GET none, 10-11 GET 1 3000000000",
        "0-1 put 1, 2- reads, 2- writes, 5-6 put 2, 7-8 GET none, 9-10 GET 1 3000000000",
    ] {
        assert!(is_linearizable(&history(text)), "{text}");
    }
    for [what, text] in table(
        "a folder under both names ; 0-1 put 1, 2-9 rename, 3-4 GET 1, 5-6 get 1
        a folder under none ; 0-1 put 1, 2-3 rename, 4-5 GET none
        a folder that replaces another ; 0-1 put 1, 0-1 PUT 2, 2-3 rename
        a folder whose value gets another tag ; 0-1 put 1, 2-3 rename, 4-5 GET 1 7
        a refusal of a move to no folder ; 0-1 put 1, 2-3 rename refused
        a copy of what was never there ; 0-1 put 1, 2-3 put 2, 4-5 reads, 4-5 writes, 6-7 GET 1 3000000000
        a copy of nothing ; 2-3 reads, 2-3 writes
        a copy that keeps the tag ; 0-1 put 1, 2-3 reads, 2-3 writes, 4-5 GET 1
        one copy made twice ; 0-1 put 1, 2- reads, 2- writes, 3-4 GET 1 3000000000, 5-6 PUT 2, 7-8 GET 1 3000000001",
    ) {
        let is_taken = is_linearizable(&history(text));
        assert!(!is_taken, "the checker takes {what} for the truth");
    }
}

/// Only at that moment the server may have looked before it was changed, and a file may have come into a moved folder.
#[test]
fn the_checker_excuses_a_client_and_a_hand_that_change_a_folder_at_one_moment() {
    let by_hand = |text: &str, hand: usize| {
        let mut events = history(text);
        events[hand].by_hand = true;
        mark_collisions(&mut events);
        events
    };
    for (text, hand) in [
        (
            "0-1 put 1, 2-9 PUT 3, 3-4 swap 1 2, 5-6 get 2, 10-11 GET 3",
            1,
        ),
        ("0-1 put 1, 2-9 put 3, 2-9 swap 1 2, 10-11 get 2", 1),
        (
            "0-1 put 1, 2-9 rename, 2-9 put 2, 3-4 GET 1, 10-11 GET 2, 12-13 get none",
            1,
        ),
        (
            "0-1 put 1, 2-9 rename, 2-9 put 2, 3-4 GET 1, 10-11 GET 2, 12-13 get none",
            2,
        ),
        (
            "0-1 put 1, 2-9 delete, 2-9 move 7, 10-11 get none, 10-11 GET none",
            1,
        ),
    ] {
        assert!(is_linearizable(&by_hand(text, hand)), "{text}");
    }
    for (text, hand) in [
        ("0-1 put 1, 2-3 put 3, 4-5 swap 1 2", 1),
        ("0-1 put 1, 2-3 rename, 4-5 put 2, 6-7 GET 2", 1),
        ("0-1 put 1, 2-9 put 3, 2-9 swap 1 2, 10-11 get 1", 1),
        ("0-1 put 1, 2-9 delete, 2-9 put 2, 10-11 get 1", 1),
    ] {
        assert!(!is_linearizable(&by_hand(text, hand)), "{text}");
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
                let mut values = EMPTY;
                values[0] = value;
                let then = after(&at(0, 0, asked, told), values)?;
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
