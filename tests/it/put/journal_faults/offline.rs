//! What an operator has for a journal that is damaged: `data-server journal check`, which reads, and `--journal
//! discard`, which gives up what cannot be read.

use super::damage::{Damaged, KEYS, assert_there, key};
use super::{DISK, check, cut, files, start};
use crate::support::prelude::*;

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
    let is_aside = |path: &PathBuf| text(path).contains("/discarded-");
    entries.filter(is_aside).collect()
}

const DISCARD: [&str; 4] = ["--durability", "disk", "--journal", "discard"];

#[test]
fn what_cannot_be_read_of_a_journal_is_given_up_by_order_and_no_more() {
    journal_only!();
    for (what, served) in [
        ("nothing", KEYS),
        ("a frame", 10),
        ("the note", KEYS),
        ("the journal", 0),
    ] {
        let damaged = Damaged::new();
        match what {
            "a frame" => damaged.flip(10),
            "the note" => fs::write(damaged.dir.own("journal-state"), "half a").expect("a note"),
            "the journal" => fs::remove_dir_all(damaged.dir.own("journal")).expect("it is there"),
            _ => {}
        }
        let bytes = fs::read(&damaged.segment).unwrap_or_default();
        if what != "nothing" {
            Launch::new(&DISK).on(&damaged.dir).run().says(1, "");
        }
        let mut server = Launch::new(&DISCARD).on(&damaged.dir).start();
        assert_there(&server, 0..served, what);
        let aside = set_aside(&damaged.dir);
        match what {
            "nothing" => assert_eq!(aside.len(), 0),
            "a frame" => {
                assert_eq!(aside.len(), 1, "{aside:?}");
                assert!(files(&aside[0]).values().any(|kept| *kept == bytes));
            }
            _ => {}
        }
        server.store("new", "value");
        cut(&mut server);
        let log = server.log().join("\n");
        // The key of the damaged frame is not known for sure, those of the frames behind it are.
        for n in (served + 1..KEYS).filter(|_| what == "a frame") {
            let is_named = log.contains(&key(n));
            assert!(is_named, "{} is given up in silence: {log}", key(n));
        }
        damaged.dir.remove("new");
        let server = start(&damaged.dir);
        assert_eq!(server.get("new").body, b"value");
        assert_there(&server, 0..served, what);
    }
}
