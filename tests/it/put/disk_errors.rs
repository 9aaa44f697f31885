//! Proves the behaviour on disk errors: full, out of inodes, read-only, or a file too large for the process. The answer
//! has the reason, the old value stays, reads and deletes work, and freed space can be used.

use crate::support::prelude::*;

/// A 507 with its reason in one line.
#[track_caller]
fn assert_no_room(answer: &Response, what: &str) {
    answer.says(507, "");
    let reason = answer.text();
    let is_right = reason.len() > 5 && reason.ends_with('\n') && reason.lines().count() == 1;
    assert!(is_right, "{what}: {reason:?}");
}

#[test]
fn a_full_disk_refuses_only_puts() {
    directory_only!("the file system");
    let left_out = "PUT, GET and DELETE on a full disk";
    let mount = needed!(Mount::tmpfs("size=2m", left_out));
    let mut server = Launch::new(&[]).on(&mount.dir()).start();
    let old = pattern(1, 100_000);
    let victim = pattern(2, 600_000);
    let new = pattern(3, 400_000);
    server.store("k", &old);
    server.store("victim", &victim);
    let room = || {
        let free = rustix::fs::statvfs(mount.dir().path());
        free.expect("the file system").f_bavail
    };
    let before = room();

    let announced = server.connect().ask(put_head("k", 4_000_000));
    assert_no_room(&announced, "announced and too large, no byte sent");
    let unannounced = server.put_chunked("k", &pattern(4, 3_000_000));
    assert_no_room(&unannounced, "too large, not announced");
    // The blocks of a closed file are freed a moment later: a disk that was filled before that would not stay full.
    let comes = || server.proc().staged() == 0 && room() == before;
    eventually("what was refused is forgotten, and its room free", comes);
    fill(&mount.dir().file("filler"));
    for round in 0..3 {
        assert_no_room(&server.put("k", &new), "fixed length, replacing");
        assert_no_room(&server.put("fresh", b"x"), "one byte, new");
        assert_no_room(&server.put_chunked("k", &new), "chunked, replacing");
        assert_no_room(&server.put_chunked("fresh", &new), "chunked, new");
        assert!(server.get("k").body == old, "the old value, round {round}");
        assert_eq!(server.get("fresh").status, 404);
        server.dir.assert_holds(&["k", "victim", "filler"]);
    }

    let status = server.ask("DELETE", "victim").status;
    assert_eq!(status, 200, "DELETE on a full disk");
    // The blocks of a large file are freed in the background.
    let comes = || server.put("k", &new).status == 200;
    eventually("room made is room used", comes);
    assert!(server.get("k").body == new);
    assert_eq!(server.put_chunked("fresh", &old).status, 200);
    server.dir.assert_holds(&["k", "fresh", "filler"]);
    server.stop();
}

fn fill(path: &Path) {
    let mut filler = File::create(path).expect("a filler");
    let full = (0..10_000).find_map(|_| filler.write_all(&[0; 4096]).err());
    assert!(full.is_some(), "the disk is not small");
}

#[test]
fn a_disk_that_became_read_only_refuses_writes_and_serves_reads() {
    directory_only!("the file system");
    let left_out = "PUT and DELETE on a disk that became read-only";
    let mount = needed!(Mount::ext4(left_out));
    let mut server = Launch::new(&[]).on(&mount.dir()).start();
    server.store("k", "value");
    mount.fail();
    assert_no_room(&server.put("k", b"new"), "a small PUT");
    assert_no_room(&server.put("k", pattern(1, 300_000)), "a large PUT");
    assert_no_room(&server.put_chunked("new", &pattern(1, 300_000)), "chunked");
    assert_no_room(&server.ask("DELETE", "k"), "DELETE");
    assert_eq!(server.ask("DELETE", "gone").status, 404);
    assert_eq!(server.get("k").body, b"value");
    server.dir.assert_holds(&["k"]);
    let named = server.request("PUT", "/k", "Accept: application/problem+json\r\n", b"x");
    named.says(507, "file-system-read-only");
    server.stop();
    let said = "the file system is read-only, so nothing can be written: the log of the kernel says why it has become so";
    let events = server.events(said);
    assert_eq!(events.len(), 1, "once, and not for each request");
    assert_eq!(events[0].level, "ERROR");
}

#[test]
fn a_directory_that_cannot_be_written_is_exit_code_1() {
    directory_only!("the file system");
    let left_out = "starting on a read-only file system";
    let mount = needed!(Mount::tmpfs("size=2m", left_out));
    fs::create_dir(mount.dir().path()).expect("a directory");
    mount.remount_read_only();
    Launch::new(&[]).on(&mount.dir()).run().says(1, "ead-only");
}
