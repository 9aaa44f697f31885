//! A journal belongs to one directory, and to the one server that has it: copies, and places where it was before, do no
//! harm.

use super::{DISK, Paused, cut, files, start};
use crate::support::prelude::*;

#[test]
fn a_journal_that_the_directory_has_left_is_not_taken_for_its_own() {
    journal_only!();
    let place = DataDir::temporary();
    let elsewhere = place.outside("elsewhere");
    let elsewhere = elsewhere.to_str().expect("UTF-8");
    let args = [&DISK[..], &["--journal-dir", elsewhere]].concat();
    let dir = DataDir::temporary();
    let mut server = Launch::new(&args).on(&dir).start();
    server.store("k", "one");
    server.stop();
    let mut server = start(&dir);
    server.store("k", "two");
    server.store("more", "value");
    cut(&mut server);
    // The disk has neither.
    dir.remove("k");
    dir.remove("more");
    let started = Launch::new(&args).on(&dir).start_or_end();
    let server = started.unwrap_or_else(|ended| {
        ended.says(1, "it was in");
        start(&dir)
    });
    let found =
        ["k", "more"].map(|key| String::from_utf8_lossy(&server.get(key).body).into_owned());
    assert_eq!(found, ["two", "value"]);
}

/// It has the note of the original, which says that the journal is its own.
#[test]
fn a_copy_that_is_given_the_journal_of_a_running_server_writes_nothing_to_it() {
    journal_only!();
    for is_elsewhere_mounted in [false, true] {
        let place = DataDir::temporary();
        let elsewhere = place.outside("elsewhere");
        let at = elsewhere.to_str().expect("UTF-8");
        let args = [&DISK[..], &["--journal-dir", at]].concat();
        let dir = DataDir::temporary();
        let mut server = Launch::new(&args).on(&dir).start();
        server.store("k", "value");
        let copy = DataDir::at(dir.outside("copy"));
        {
            // No checkpoint comes between.
            let _paused = Paused::all_of(&server);
            run("cp", &["-a", text(dir.path()), text(copy.path())]).expect("a copy");
            if is_elsewhere_mounted {
                copy.forget_mount();
            }
            let before = files(&elsewhere);
            let started = Launch::new(&args).on(&copy).start_or_end();
            let ended = started.err().expect("the journal is in use");
            ended.says(1, "");
            assert!(before == files(&elsewhere), "{}", ended.stderr);
        }
        cut(&mut server);
        fs::remove_file(dir.file("k")).expect("it is there");
        assert_eq!(Launch::new(&args).on(&dir).start().get("k").body, b"value");
    }
}
