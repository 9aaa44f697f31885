//! Which folders stay when their last value goes, and which go.

use std::os::unix::fs::chown;

use rustix::fs::XattrFlags;

use super::{is_there, make};
use crate::support::prelude::*;

const MARK: &str = "user.data-server.implicit";

fn is_marked(folder: &Path) -> bool {
    rustix::fs::getxattr(folder, MARK, &mut [0; 1]).is_ok()
}

/// Whether the folders that the test makes keep extended attributes: the kernel's tmpfs does since Linux 6.6.
fn keeps_attributes(dir: &DataDir) -> bool {
    rustix::fs::setxattr(dir.path(), "user.test", b"1", XattrFlags::empty()).is_ok()
}

/// By each engine of publishing, with and without a journal.
const WAYS: [&[&str]; 3] = [
    &[],
    &["--durability", "disk"],
    &["--durability", "disk", "--journal", "off"],
];

#[test]
fn what_somebody_made_stays_and_what_a_put_made_goes() {
    directory_only!("folders of the directory");
    for way in WAYS {
        let dir = DataDir::temporary();
        assert!(keeps_attributes(&dir));
        let server = Launch::new(way).on(&dir).start();
        assert_eq!(make(&server, "made"), 201);
        fs::create_dir(dir.file("hand")).expect("a folder");
        for top in ["made", "hand", "put"] {
            server.store(&format!("{top}/x/y/k"), "v");
            assert!(is_marked(&dir.file(format!("{top}/x/y"))));
            assert!(is_marked(&dir.file(format!("{top}/x"))));
            assert_eq!(is_marked(&dir.file(top)), top == "put", "{top}");
            // One that stays keeps those above it.
            assert_eq!(make(&server, &format!("{top}/x/stays")), 201);
            assert_eq!(server.ask("DELETE", &format!("{top}/x/y/k")).status, 200);
            assert!(is_there(&server, &format!("{top}/x/stays")), "{top}");
            assert!(!is_there(&server, &format!("{top}/x/y")), "{top}");
            let removed = super::remove(&server, &format!("{top}/x/stays/"));
            assert_eq!(super::report(&removed), (0, 0, vec![]), "{top}");
            assert!(!is_there(&server, &format!("{top}/x")), "{top}");
            assert_eq!(is_there(&server, top), top != "put", "{top}");
        }
    }
}

/// As a folder that a team shares.
#[test]
fn a_folder_that_stays_keeps_its_owner_mode_and_group() {
    directory_only!("folders of the directory");
    let dir = DataDir::temporary();
    let server = Launch::new(&[]).on(&dir).start();
    let team = dir.file("team");
    fs::create_dir(&team).expect("a folder");
    let is_given = chown(&team, Some(12_345), Some(54_321)).is_ok();
    chmod(&team, 0o2770);
    let what = |path: &Path| {
        let found = fs::metadata(path).expect("the folder");
        (found.ino(), found.uid(), found.gid(), found.mode())
    };
    let before = what(&team);
    server.store("team/f", "v");
    assert_eq!(server.ask("DELETE", "team/f").status, 200);
    assert_eq!(what(&team), before);
    server.store("team/g", "v");
    let of_value = fs::metadata(dir.file("team/g")).expect("a value");
    assert!(!is_given || of_value.gid() == 54_321);
    // One that MKCOL makes in it has the group and the bit, as one that a PUT makes there.
    assert_eq!(make(&server, "team/sub"), 201);
    let (_, _, group, mode) = what(&dir.file("team/sub"));
    assert!(group == before.2 && mode & 0o2000 != 0, "{group} {mode:o}");
}

#[test]
fn a_restart_a_kill_and_a_copy_change_nothing_about_which_stay() {
    directory_only!("folders of the directory");
    let dir = DataDir::temporary();
    for way in WAYS {
        let mut server = Launch::new(way).on(&dir).start();
        assert_eq!(make(&server, "stays"), 201);
        server.store("stays/k", "v");
        server.store("goes/k", "v");
        server.kill();
        let mut server = Launch::new(way).on(&dir).start();
        let copy = DataDir::temporary();
        for folder in ["stays", "goes"] {
            run("cp", &["-a", text(&dir.file(folder)), text(copy.path())]).expect("a copy");
        }
        let of_copy = Launch::new(way).on(&copy).start();
        for server in [&server, &of_copy] {
            for key in ["stays/k", "goes/k"] {
                assert_eq!(server.ask("DELETE", key).status, 200, "{way:?}");
            }
            let is_right = is_there(server, "stays") && !is_there(server, "goes");
            assert!(is_right, "{way:?}");
        }
        assert_eq!(super::remove(&server, "stays/").status, 200);
        server.stop();
    }
}

/// A directory of an earlier version, and a copy without attributes.
#[test]
fn without_a_mark_a_folder_stays() {
    directory_only!("folders of the directory");
    let server = TestServer::start(&[]);
    server.store("a/b/k", "v");
    for folder in ["a", "a/b"] {
        rustix::fs::removexattr(server.dir.file(folder), MARK).expect("a mark");
    }
    assert_eq!(server.ask("DELETE", "a/b/k").status, 200);
    server.dir.assert_holds(&["a/b"]);
    assert_eq!(super::report(&super::remove(&server, "a/")), (0, 0, vec![]));
    server.dir.assert_holds(&[]);
}

#[test]
fn mkcol_of_a_folder_of_a_put_has_it_stay() {
    directory_only!("folders of the directory");
    for way in WAYS {
        let server = TestServer::start(way);
        server.store("a/b/k", "v");
        assert_eq!(make(&server, "a"), 405);
        assert_eq!(server.ask("DELETE", "a/b/k").status, 200);
        assert!(is_there(&server, "a") && !is_there(&server, "a/b"));
    }
}

#[test]
fn mkcol_of_a_folder_whose_mark_cannot_be_taken_says_so() {
    directory_only!("folders of the directory");
    let server = TestServer::start(&[]);
    server.store("a/k", "v");
    if !is_marked(&server.dir.file("a")) {
        left_out("marks of folders", "no extended attributes");
        return;
    }
    let immutable = needed!(Immutable::new(
        server.dir.file("a"),
        "a folder whose mark cannot be taken"
    ));
    server.ask("MKCOL", "a/").says(403, "have the folder stay");
    drop(immutable);
    assert_eq!(make(&server, "a"), 405);
    assert!(!is_marked(&server.dir.file("a")));
}

#[test]
fn a_mark_costs_a_put_one_call_for_each_folder_that_it_makes_and_no_other() {
    file_calls_only!("system calls");
    let server = TestServer::start(&["--threads", "1"]);
    server.store("warm-up", "v");
    let tracer = Attached::to(&server, &["-e", "trace=fsetxattr,fgetxattr"]);
    server.store("a/b/k", "v");
    server.store("a/b/k", "w");
    server.store("a/b/l", "v");
    server.store("flat", "v");
    let calls = tracer.detach();
    let marks = calls.iter().filter(|call| call.args.contains(MARK));
    assert_eq!(marks.count(), 2);
    // A default ACL is looked for, as before; no attribute of a folder that is there.
    let others = calls.iter().filter(|call| !call.args.contains(MARK));
    assert!(
        others
            .into_iter()
            .all(|call| call.args.contains("posix_acl"))
    );
}
