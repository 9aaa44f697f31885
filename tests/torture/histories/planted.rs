//! The judge is shown to take what can have happened, and to find lies: in histories that are written here, and in each
//! that was played.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::assert_at_rest;
use super::client::{reads, value, write_of};
use crate::prelude::*;
use crate::support::history::{
    Asked, Event, MOST_ACTORS, Only, PLACES, Told, UNTOLD, Value, Verdict, Version, at, judge,
    mark_meetings,
};

/// This history, each time with one lie in it. Its first actor ended with a read of each name, at rest.
pub(super) fn lies(actors: &[Vec<Event>], evicts: bool) -> Vec<(&'static str, Vec<Vec<Event>>)> {
    let rest = &actors[0][actors[0].len() - PLACES..];
    let at_rest: Vec<Value> = rest
        .iter()
        .map(|event| read_by(event).expect("a read").1)
        .collect();
    let then = |what, events: &[(Asked, Told)]| {
        let mut told = actors.to_vec();
        let end = told[0].last().expect("a read").back;
        let event = |(n, &(asked, told)): (u64, &(Asked, Told))| {
            at(end + 2 * n + 1, end + 2 * n + 2, asked, told)
        };
        told[0].extend((0..).zip(events).map(event));
        (what, told)
    };
    let there = (0..PLACES).find_map(|place| Some((place, at_rest[place]?)));
    // What a store did not answer it may still do.
    let may_go = actors
        .iter()
        .flatten()
        .any(|event| event.back == u64::MAX && matches!(event.asked, Asked::Delete(..)));
    let lost = there
        .filter(|_| !evicts && !may_go)
        .map(|(place, _)| then("a lost write", &[(Asked::Get(place), Told::Read(None))]));
    let before =
        reads(actors).find(|&(place, value)| value.is_some() && is_other(value, at_rest[place]));
    let back = before.map(|(place, value)| {
        then(
            "a value that came back",
            &[(Asked::Get(place), Told::Read(value))],
        )
    });
    let alone = there
        .filter(|(place, _)| at_rest[place & 2 ^ 2].is_none() && at_rest[place & 2 ^ 3].is_none());
    let half = alone.map(|(place, value)| {
        let moved = (Asked::MoveFolder(place / 2), Told::Done(UNTOLD));
        then(
            "half of a folder that was moved",
            &[moved, (Asked::Get(place), Told::Read(Some(value)))],
        )
    });
    let written = |value: Value| value.filter(|read| read.write != 0);
    let untold = reads(actors).find_map(|(_, value)| written(value)).map(|read| {
        let is_it =
            |event: &Event| matches!(event.asked, Asked::Put(_, write, _) if write == read.write);
        let mut told = actors.to_vec();
        for events in &mut told {
            events.retain(|event| !is_it(event));
        }
        ("a value that nobody wrote", told)
    });
    let has_locks = actors.iter().flatten().any(|event| event.shown != 0);
    let locked = has_locks.then(|| {
        let lock = (
            Asked::Lock(0, u16::MAX),
            Told::Count(u8::from(at_rest[0].is_none())),
        );
        let write = (Asked::Put(0, u16::MAX, Only::Always), Told::Done(UNTOLD));
        then("a write without the token of a lock", &[lock, write])
    });
    let speaks_s3 = actors
        .iter()
        .flatten()
        .any(|event| event.told == Told::Gone);
    let there = there.filter(|_| speaks_s3);
    let stays = there.map(|(place, value)| {
        let gone = (Asked::Delete(place, Only::Always), Told::Gone);
        then(
            "an object that was deleted and stays",
            &[gone, (Asked::Get(place), Told::Read(Some(value)))],
        )
    });
    let absent = there.filter(|_| !evicts && !may_go).map(|(place, value)| {
        let swap = Asked::Put(place, u16::MAX, Only::Over(value));
        then("an object that is called absent", &[(swap, Told::Absent)])
    });
    [lost, back, half, untold, locked, stays, absent]
        .into_iter()
        .flatten()
        .collect()
}

fn is_other(one: Value, other: Value) -> bool {
    one.map(|version| version.write) != other.map(|version| version.write)
}

pub(super) fn read_by(event: &Event) -> Option<(usize, Value)> {
    match (event.asked, event.told) {
        (Asked::Get(place), Told::Read(value)) => Some((place, value)),
        _ => None,
    }
}

fn place(text: &str) -> usize {
    let (folder, name) = text.split_at(1);
    2 * usize::from(folder == "b") + usize::from(name == "y")
}

/// A history as text: each event has its times, of which the second is missing where there was no answer. Places are
/// `ax` to `by`; a value is the number of its write, and its tag after a point, if that is another.
fn history(text: &str) -> Vec<Vec<Event>> {
    let mut actors: Vec<Vec<Event>> = Vec::new();
    for text in text.split(", ") {
        let event = event(text).unwrap_or_else(|| panic!("{text}"));
        let is_free =
            |events: &&mut Vec<Event>| events.last().is_some_and(|last| last.back < event.call);
        match actors.iter_mut().find(is_free) {
            Some(events) => events.push(event),
            None => actors.push(vec![event]),
        }
    }
    assert!(actors.len() <= MOST_ACTORS, "{text}");
    mark_meetings(&mut actors);
    actors
}

fn event(text: &str) -> Option<Event> {
    let (times, words) = text.split_once(' ')?;
    let mut words: Vec<&str> = words.split(' ').collect();
    let by_hand = words[0] == "hand";
    words.drain(..usize::from(by_hand));
    let shown = words.iter().position(|word| *word == "with");
    let shown = shown.map_or(Some(0), |at| words.split_off(at)[1].parse().ok())?;
    let (call, back) = times.split_once('-')?;
    let version = |text: &str| {
        let (write, tag) = text.split_once('.').unwrap_or((text, text));
        let [write, tag] = [write, tag].map(|number| number.parse().ok());
        let (write, tag) = (write?, tag?);
        Some(Version { write, tag })
    };
    let end =
        words.pop_if(|word| matches!(*word, "refused" | "absent" | "taken" | "locked" | "gone"));
    let (always, folder) = (Only::Always, usize::from(words[1] == "b"));
    let mut tag = UNTOLD;
    let mut tagged = |text| {
        tag = version(text)?.tag;
        version(text).map(|version| version.write)
    };
    let mut count = None;
    let asked = match words[..] {
        ["get", at, _] => Asked::Get(place(at)),
        ["list", _] => Asked::List,
        ["put", at, new] => Asked::Put(place(at), tagged(new)?, always),
        ["new", at, new] => Asked::Put(place(at), tagged(new)?, Only::New),
        ["swap", at, old, new] => Asked::Put(place(at), tagged(new)?, Only::Over(version(old)?)),
        ["delete", at] => Asked::Delete(place(at), always),
        ["delete", at, old] => Asked::Delete(place(at), Only::Over(version(old)?)),
        ["move", from, to, new] => {
            tagged(new);
            Asked::Move([place(from), place(to)], [always; 2])
        }
        ["move", from, to, new, old] => {
            tagged(new);
            Asked::Move(
                [place(from), place(to)],
                [Only::Over(version(old)?), always],
            )
        }
        ["copy", from, to, new] => {
            tagged(new);
            Asked::Copy([place(from), place(to)], [always; 2])
        }
        ["mkcol", _] => Asked::Make(folder),
        ["rename", _] => Asked::MoveFolder(folder),
        ["lock", at, lock] => {
            count = Some(0);
            Asked::Lock(place(at), lock.parse().ok()?)
        }
        ["unlock", at, lock] => Asked::Unlock(place(at), lock.parse().ok()?),
        ["copies", _, copied] => {
            count = copied.parse().ok();
            Asked::CopyFolder(folder, true)
        }
        ["removes", _, removed] => {
            count = removed.parse().ok();
            Asked::DeleteFolder(folder)
        }
        _ => return None,
    };
    let told = match (end, asked) {
        _ if back.is_empty() => Told::Unknown,
        (Some("refused"), _) => Told::Refused,
        (Some("absent"), _) => Told::Absent,
        (Some("locked"), _) => Told::Locked,
        (Some("gone"), _) => Told::Gone,
        (Some(_), _) => Told::Taken,
        (_, Asked::Get(_)) => Told::Read(version(words[2])),
        (_, Asked::List) => {
            Told::Listed([0, 1, 2, 3].map(|at| words[1].split('+').any(|it| place(it) == at)))
        }
        _ => count.map_or(Told::Done(if by_hand { UNTOLD } else { tag }), Told::Count),
    };
    let back = back.parse().unwrap_or(u64::MAX);
    Some(Event {
        by_hand,
        shown,
        ..at(call.parse().ok()?, back, asked, told)
    })
}

fn verdict(text: &str, evicts: bool) -> Verdict {
    judge(&history(text), evicts).0
}

#[test]
fn the_judge_takes_what_can_have_happened() {
    for text in [
        "0-1 get ax none, 2-3 put ax 1, 4-5 get ax 1, 6-7 swap ax 1 2, 8-9 get ax 2",
        // Two writes at once may be read in either order; a read meanwhile sees the old value or the new one.
        "0-9 put ax 1, 0-9 put ax 2, 10-11 get ax 1",
        "0-9 put ax 1, 0-9 put ax 2, 1-2 get ax none, 10-11 get ax 2",
        "0-1 put ax 1, 2-9 swap ax 1 2, 2-9 swap ax 1 3 refused",
        // What nobody heard the end of happened late, or never.
        "0- put ax 1, 5-6 get ax none, 7-8 get ax 1.40000",
        "0- put ax 1, 5-6 get ax none",
        "0-1 put ax 1, 2-3 move ax by 1.7, 4-5 get ax none, 6-7 get by 1.7, 8-9 delete by 1 refused",
        // Just before its new name a value has its new tag.
        "0-1 put ax 1, 2-9 move ax bx 1.7, 3-4 get ax 1.7, 5-6 get bx 1.7",
        "0-1 put ax 1, 2-9 move ax bx 1.7, 3-4 delete ax 1 refused, 5-6 get bx none",
        "0-1 put ax 1, 2- move ax bx 0, 3-4 get ax 1.40000, 5-6 get ax 1.40000, 7-8 new ax 2 refused",
        "0-1 put ax 1, 2-9 copy ax bx 1.7, 3-4 put ax 2, 5-6 get bx none, 10-11 get bx 1.7",
        "0-1 put ax 1, 2-3 put ay 2, 4-5 rename a, 6-7 get bx 1, 6-7 get by 2, 8-9 swap bx 1 3",
        "0-1 mkcol a, 2-3 mkcol a taken, 4-5 rename a, 6-7 mkcol a, 8-9 removes b 0, 10-11 mkcol b",
        "0-9 rename a, 1-2 put ax 1, 10-11 get bx 1, 12-13 rename a absent",
        "0-1 put ax 1, 0-1 put ay 2, 2-9 copies a 2, 3-4 get by 2.40000, 5-6 get bx none, 10-11 get bx 1.40001",
        "0-1 put ax 1, 0-1 put ay 2, 2-9 removes a 1, 3-4 put ay 3, 10-11 get ay 3, 12-13 list ay",
        "0-1 put ax 1, 2-9 rename a, 3-8 list ax+bx",
        "0-1 put ax 1, 2-3 delete ax 1, 4-5 delete ax absent, 6-7 new ax 2, 8-9 delete ax 1 refused",
        "0-1 put ax 1, 2-3 lock ax 9, 4-5 put ax 2 locked, 6-7 put ax 3 with 9, 8-9 unlock ax 9, 10-11 put ax 4",
        "0-1 put ax 1, 2-9 put ax 2, 3-8 lock ax 9, 10-11 get ax 2, 12-13 put ay 3, 14-15 move ay ax 3.7 locked",
        "0-1 put ax 1, 2-3 lock ax 9, 4-9 move ax bx 1.7 with 9, 5-6 put ax 2 locked, 10-11 put ax 3, 12-13 lock ax 8",
        "0-1 put ax 1, 2-9 put ax 2, 3-4 lock ax 9 locked, 5-6 get ax 1",
        "0-1 delete ax gone, 2-3 put ax 1, 4-5 delete ax gone, 6-7 delete ax gone, 8-9 get ax none",
        "0-1 put ax 1, 2-9 delete ax gone, 2-9 swap ax 1 2, 10-11 get ax none",
        "0-1 put ax 1, 2-9 delete ax gone, 3-4 swap ax 1 2 absent, 10-11 new ax 3",
    ] {
        assert_eq!(verdict(text, false), Verdict::Order, "{text}");
    }
}

#[test]
fn the_judge_finds_planted_lies() {
    for [what, text] in table(
        "a stale read ; 0-1 put ax 1, 2-3 put ax 2, 4-5 get ax 1
        a read that goes back ; 0-9 put ax 1, 1-2 get ax 1, 3-4 get ax none
        two orders of the same writes ; 0-9 put ax 1, 0-9 put ax 2, 10-11 get ax 1, 12-13 get ax 2
        a read from the future ; 0-1 get ax 1, 2-3 put ax 1
        a value that came from nowhere ; 0-1 get ax 7
        created twice ; 0-9 new ax 1, 0-9 new ax 2
        a deletion of nothing ; 0-1 delete ax
        an unanswered write before it was asked for ; 0-1 get ax 1.40000, 5- put ax 1
        a lost update ; 0-1 put ax 1, 2-3 swap ax 1 2, 4-5 get ax 1
        one value swapped twice ; 0-1 put ax 1, 2-9 swap ax 1 2, 2-9 swap ax 1 3
        a refusal without a reason ; 0-1 put ax 1, 2-3 swap ax 1 2 refused
        a deletion not seen ; 0-1 put ax 1, 2-3 delete ax absent
        an unanswered write done twice ; 0- put ax 1, 1-2 get ax 1.40000, 3-4 put ax 2, 5-6 get ax 1.40000
        a value under both names ; 0-1 put ax 1, 2-9 move ax bx 1.7, 3-4 get bx 1.7, 5-6 get ax 1
        a value under none ; 0-1 put ax 1, 2-9 move ax bx 1.7, 3-4 get ax none, 5-6 get bx none
        the new tag long before the move ; 0-1 put ax 1, 2-3 get ax 1.7, 4-5 move ax bx 1.7
        a move that keeps the tag ; 0-1 put ax 1, 2-3 move ax bx 1.7, 4-5 get bx 1
        a move without an answer that keeps the tag ; 0-1 put ax 1, 2- move ax bx 0, 3-4 get bx 1
        a copy of what was replaced before ; 0-1 put ax 1, 2-3 put ax 2, 4-5 copy ax bx 1.7, 6-7 get bx 1.7
        a move of a version long replaced ; 0-1 put ax 1, 2-3 put ax 2, 4-5 move ax bx 1.7 1
        half of a moved folder ; 0-1 put ax 1, 0-1 put ay 2, 2-3 rename a, 4-5 get bx 1, 6-7 get ay 2
        a folder under both names ; 0-1 put ax 1, 2-9 rename a, 3-4 get bx 1, 5-6 get ax 1
        a folder that replaces another ; 0-1 put ax 1, 0-1 put bx 2, 2-3 rename a
        a folder whose value gets another tag ; 0-1 put ax 1, 2-3 rename a, 4-5 get bx 1.7
        a folder that does not stay ; 0-1 mkcol a, 2-3 mkcol a
        a folder that stays and is not found ; 0-1 mkcol a, 2-3 rename a absent
        a copy that leaves one out ; 0-1 put ax 1, 0-1 put ay 2, 2-3 copies a 1
        a removal that leaves one ; 0-1 put ax 1, 0-1 put ay 2, 2-3 removes a 2, 4-5 get ay 2
        a listing without what was there before ; 0-1 put ax 1, 0-1 put ay 2, 2-3 list ax
        a file of a hand that is lost ; 0-1 put ax 1, 2-3 hand put ax 2, 4-5 get ax 1
        a swap of what a hand replaced before ; 0-1 put ax 1, 2-3 hand put ax 2, 4-5 swap ax 1 3
        a write without the token ; 0-1 put ax 1, 2-3 lock ax 9, 4-7 put ax 2, 8-9 unlock ax 9
        a write that shows what ended ; 0-1 put ax 1, 2-3 lock ax 9, 4-5 unlock ax 9, 6-7 lock ax 8, 8-9 put ax 2 with 9
        a write that was begun before and came after ; 0-1 put ax 1, 2-9 put ax 2, 3-4 lock ax 9, 5-6 get ax 1, 10-11 get ax 2
        a move over what is locked ; 0-1 put ax 1, 0-1 put ay 2, 2-3 lock ay 9, 4-5 move ax ay 1.7
        a refusal that was none ; 0-1 put ax 1, 2-3 lock ax 9, 4-5 put ax 2 locked, 6-7 get ax 2
        a refusal without a lock ; 0-1 put ax 1, 2-3 lock ax 9, 4-5 unlock ax 9, 6-7 put ax 2 locked
        an object that was deleted and is there ; 0-1 put ax 1, 2-3 delete ax gone, 4-5 get ax 1
        an object that is there and called absent ; 0-1 put ax 1, 2-3 swap ax 1 2 absent
        two locks of one name ; 0-1 put ax 1, 2-3 lock ax 9, 4-5 lock ax 8",
    ) {
        assert_eq!(verdict(text, false), Verdict::NoOrder, "{what}: {text}");
    }
}

/// Only at that moment the server may have looked before it was changed, and a file may have come into a moved folder.
#[test]
fn the_judge_excuses_what_a_hand_and_a_client_change_at_one_moment() {
    for text in [
        "0-1 put ax 1, 2-9 hand put ax 2, 2-9 swap ax 1 3, 10-11 get ax 3",
        "0-1 put ax 1, 2-9 hand rename a, 2-9 put ax 2, 3-4 get bx 1, 10-11 get bx 2, 12-13 get ax none",
        "0-1 put ax 1, 2-9 rename a, 2-9 hand put ax 2, 3-4 get bx 1, 10-11 get bx 2.40000, 12-13 get ax none",
        "0-1 put ax 1, 2-9 hand delete ax, 2-9 move ax bx 1.7 absent, 10-11 get bx none",
    ] {
        assert_eq!(verdict(text, false), Verdict::Order, "{text}");
    }
    for text in [
        "0-1 put ax 1, 2-3 hand rename a, 4-5 put ax 2, 6-7 get bx 2",
        "0-1 put ax 1, 2-9 hand put ax 2, 2-9 swap ax 1 3, 10-11 get ax 1",
        "0-1 put ax 1, 2-9 hand delete ax, 2-9 put ax 2, 10-11 get ax 1",
    ] {
        assert_eq!(verdict(text, false), Verdict::NoOrder, "{text}");
    }
}

#[test]
fn the_judge_takes_evictions_and_no_lie_about_them() {
    for text in [
        "0-1 put ax 1, 2-3 get ax none",
        "0-1 put ax 1, 2-3 swap ax 1 2 refused, 4-5 new ax 3",
        "0-1 put ax 1, 2-3 delete ax absent, 4-5 put ax 2, 6-7 new ax 3",
        "0-1 put ax 1, 2-3 put by 2, 4-5 list by, 6-7 rename a absent",
        "0-1 put ax 1, 0-1 put ay 2, 2-3 rename a, 4-5 get bx 1, 6-7 get by none",
    ] {
        assert_eq!(verdict(text, true), Verdict::Order, "{text}");
        assert_eq!(verdict(text, false), Verdict::NoOrder, "{text}");
    }
    for [what, text] in table(
        "a value back after its eviction ; 0-1 put ax 1, 2-3 get ax none, 4-5 get ax 1
        an older value after the eviction of a later ; 0-1 put ax 1, 2-3 put ax 2, 4-5 get ax none, 6-7 get ax 1
        an older value in place of a later ; 0-1 put ax 1, 2-3 put ax 2, 4-5 get ax 1
        a swap of what was evicted ; 0-1 put ax 1, 2-3 get ax none, 4-5 swap ax 1 2
        a refusal of a new value where there is none ; 0-1 put ax 1, 2-3 get ax none, 4-5 new ax 2 refused
        a folder that stays and is gone ; 0-1 mkcol a, 2-3 put ax 1, 4-5 get ax none, 6-7 mkcol a",
    ) {
        assert_eq!(verdict(text, true), Verdict::NoOrder, "{what}: {text}");
    }
}

#[test]
fn a_torn_value_is_found() {
    for write in [5, 20] {
        let (whole, other) = (value(write), value(write + 20));
        assert_eq!(write_of(&whole), write);
        let half = whole.len() / 2;
        for torn in [
            whole[..half].to_vec(),
            [&whole[..half], &other[half..whole.len()]].concat(),
        ] {
            assert!(catch_unwind(|| write_of(&torn)).is_err(), "{write}");
        }
    }
}

/// What lies there at rest is shown to be looked at.
#[test]
fn a_folder_or_a_name_that_nobody_made_is_found_at_rest() {
    let server = TestServer::start(&["--threads", "1"]);
    server.store("few/value", "value");
    let is_wrong = || catch_unwind(AssertUnwindSafe(|| assert_at_rest(&server, false))).is_err();
    assert!(!is_wrong());
    let (folder, link) = (server.dir.file("few/empty"), server.dir.file("few/link"));
    fs::create_dir(&folder).expect("a folder");
    assert!(is_wrong(), "a folder that stays is not found");
    fs::remove_dir(folder).expect("no folder");
    symlink("/nowhere", link).expect("a link");
    assert!(is_wrong(), "a name that no listing has is not found");
}
