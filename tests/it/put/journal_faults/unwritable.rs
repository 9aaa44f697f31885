//! One key that a replay cannot write costs that key alone: the start tells it, keeps its record, and serves all others.

use super::{cut, start};
use crate::support::prelude::*;

/// A folder in which nothing can be changed, by root neither.
struct Immutable(std::path::PathBuf);

impl Immutable {
    fn of(dir: &DataDir, folder: &str) -> Option<Self> {
        let path = dir.file(folder);
        set("+i", &path).then_some(Self(path))
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        set("-i", &self.0);
    }
}

fn set(flag: &str, path: &std::path::Path) -> bool {
    let output = Command::new("chattr").arg(flag).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_key_that_cannot_be_written_does_not_keep_all_others_from_being_served() {
    journal_only!();
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    let keys = ["a", "stuck/put", "stuck/removed", "z"];
    for key in keys {
        server.store(key, "first");
    }
    for key in ["a", "stuck/put", "z"] {
        server.store(key, "second");
    }
    assert_eq!(server.ask("DELETE", "stuck/removed").status, 200);
    cut(&mut server);
    for key in ["a", "stuck/put", "z"] {
        dir.remove(key);
    }
    dir.place("stuck/other", "by hand");
    let Some(immutable) = Immutable::of(&dir, "stuck") else {
        left_out("a key that cannot be written", "chattr does not work here");
        return;
    };
    // Also after an orderly end, and by every further start.
    for round in 0..3 {
        let mut server = start(&dir);
        for key in ["a", "z"] {
            assert_eq!(server.get(key).body, b"second", "{key}");
        }
        server.store("more", format!("value {round}"));
        // Lines of the log are written a moment later: they are there before the kill.
        server.event("cannot make what the journal has of this key: its record is kept, and the key not changed, until a start can");
        if round == 1 {
            server.signal(rustix::process::Signal::TERM);
            server.exit();
        } else {
            cut(&mut server);
        }
        let log = server.log().join("\n");
        assert!(log.contains("stuck/put"), "{log}");
    }
    drop(immutable);
    let server = start(&dir);
    assert_eq!(server.get("stuck/put").body, b"second");
    assert_eq!(server.get("more").body, b"value 2");
    eventually("it is ready", || super::ready(&server) == 200);
}

/// The value that is replaced lies in the staging directory then, until the next start.
#[test]
fn a_replaced_value_is_removed_though_its_first_removal_fails() {
    journal_only!();
    tracing_only!("removals that fail");
    let server = TestServer::start(&super::DISK);
    server.store("k", "old");
    let fail = [
        "-e",
        "trace=unlinkat",
        "-e",
        "inject=unlinkat:error=EIO:when=1",
    ];
    let tracer = Attached::to(&server, &fail);
    server.store("k", "new");
    eventually("a removal fails", || tracer.has_injected());
    server.dir.assert_nothing_staged();
    assert_eq!(server.get("k").body, b"new");
}
