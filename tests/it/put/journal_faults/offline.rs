//! What an operator has for a journal that is damaged: `data-server journal check`, which reads, and `--journal discard`, which gives
//! up what cannot be read.

use super::damage::{Damaged, KEYS, assert_there, key};
use super::{DISK, cut, files, start};
use crate::support::prelude::*;

fn check(dir: &DataDir) -> Ended {
    let path = dir.path().to_str().expect("UTF-8");
    let is_there = dir.own("journal").exists();
    let before = is_there.then(|| files(&dir.own("journal")));
    let ended = Launch::new(&["journal", "check", path]).bare().run();
    let is_right = before == is_there.then(|| files(&dir.own("journal")));
    assert!(is_right, "it only reads");
    ended
}

#[test]
fn a_check_of_a_journal_that_is_whole_says_what_a_replay_would_do() {
    journal_only!();
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    for n in 0..KEYS {
        server.store(&key(n), "value");
    }
    assert_eq!(server.ask("DELETE", &key(0)).status, 200);
    cut(&mut server);
    for n in 1..4 {
        dir.remove(&key(n));
    }
    dir.place(&key(0), "it was removed");
    let note = fs::read(dir.own("journal-state")).expect("a note");
    let checked = check(&dir);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let said = &checked.stdout;
    // Three values that the files lack. The fourth file is a hand's, for the server never wrote it.
    for text in ["21 changes", "3 values"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert!(note == fs::read(dir.own("journal-state")).expect("a note"));
    let mut server = start(&dir);
    for n in 1..KEYS {
        assert_eq!(server.get(&key(n)).body, b"value");
    }
    server.stop();
    let checked = check(&dir);
    let found = checked.code;
    assert_eq!(found, Some(0), "{}{}", checked.stdout, checked.stderr);
}

#[test]
fn a_check_of_a_damaged_journal_names_the_damage() {
    journal_only!();
    let damaged = Damaged::new();
    damaged.flip(10);
    let checked = check(&damaged.dir);
    assert_eq!(checked.code, Some(1), "{}", checked.stderr);
    let said = checked.stdout + &checked.stderr;
    let segment = format!("segment {}", damaged.segment_name());
    for text in [&segment, "frame", "9 change"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    fs::remove_file(&damaged.segment).expect("it is there");
    let checked = check(&damaged.dir);
    assert_eq!(checked.code, Some(1), "{}", checked.stderr);
    damaged.put_back();
    assert_eq!(check(&damaged.dir).code, Some(0));
}

#[test]
fn a_check_of_a_directory_without_a_journal_is_no_damage() {
    journal_only!();
    let dir = DataDir::temporary();
    Launch::new(&["--journal", "off"]).on(&dir).start().stop();
    let checked = check(&dir);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

/// The directories in which a journal was set aside.
pub(super) fn set_aside(dir: &DataDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.own("journal")).expect("a directory");
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let name = |path: &PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let is_aside = |path: &PathBuf| name(path).is_some_and(|name| name.starts_with("discarded-"));
    entries.filter(is_aside).collect()
}

const DISCARD: [&str; 4] = ["--durability", "disk", "--journal", "discard"];

#[test]
fn what_cannot_be_read_of_a_journal_is_given_up_by_order_and_kept_aside() {
    journal_only!();
    let damaged = Damaged::new();
    damaged.flip(10);
    let bytes = fs::read(&damaged.segment).expect("a segment");
    let mut server = Launch::new(&DISCARD).on(&damaged.dir).start();
    assert_there(&server, 0..10, "before the damage");
    // The key of the damaged frame is not known for sure, those of the frames behind it are.
    let log = format!("{:?}", damaged.dir.names());
    let aside = set_aside(&damaged.dir);
    assert_eq!(aside.len(), 1, "{log}");
    let kept = files(&aside[0]);
    let is_right = kept.values().any(|kept| *kept == bytes);
    assert!(is_right, "{:?}", kept.keys());
    server.store("new", "value");
    cut(&mut server);
    let log = server.log().join("\n");
    for n in 11..KEYS {
        let is_named = log.contains(&key(n));
        assert!(is_named, "{} is given up in silence: {log}", key(n));
    }
    damaged.dir.remove("new");
    let server = start(&damaged.dir);
    assert_eq!(server.get("new").body, b"value");
    assert_there(&server, 0..10, "at the start after it");
}

#[test]
fn a_directory_whose_journal_is_lost_is_served_by_order() {
    journal_only!();
    let damaged = Damaged::new();
    fs::remove_dir_all(damaged.dir.own("journal")).expect("it is there");
    let ended = Launch::new(&DISK).on(&damaged.dir).run();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let mut server = Launch::new(&DISCARD).on(&damaged.dir).start();
    server.store("new", "value");
    cut(&mut server);
    damaged.dir.remove("new");
    assert_eq!(start(&damaged.dir).get("new").body, b"value");
}

/// `--journal discard` refused the journal of such a directory as another's.
#[test]
fn a_directory_whose_note_is_damaged_is_served_by_order_with_all_that_the_journal_has() {
    journal_only!();
    let damaged = Damaged::new();
    fs::write(damaged.dir.own("journal-state"), "half a").expect("a note");
    let ended = Launch::new(&DISK).on(&damaged.dir).run();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let mut server = Launch::new(&DISCARD).on(&damaged.dir).start();
    assert_there(&server, 0..KEYS, "a whole journal");
    server.store("new", "value");
    cut(&mut server);
    damaged.dir.remove("new");
    let server = start(&damaged.dir);
    assert_eq!(server.get("new").body, b"value");
    assert_there(&server, 0..KEYS, "at the start after it");
}

#[test]
fn nothing_is_given_up_of_a_journal_that_is_whole() {
    journal_only!();
    let damaged = Damaged::new();
    let server = Launch::new(&DISCARD).on(&damaged.dir).start();
    assert_there(&server, 0..KEYS, "a whole journal");
    assert_eq!(set_aside(&damaged.dir).len(), 0);
}
