//! Proves that a start for which the system has too little ends with the reason in a line, and without a panic.

use std::os::unix::fs::PermissionsExt;

use crate::support::prelude::*;

/// Starts a server of a user of whom there is no other process, within this limit of prlimit(1): what it says where it ends, or
/// `None` where it serves.
fn within(user: u32, limit: &str) -> Option<String> {
    let dir = DataDir::temporary();
    for open in [dir.path(), &dir.outside("")] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).expect("a mode");
    }
    let user = format!("--reuid={user} --regid={user} --clear-groups");
    let wrapper = format!("setpriv {user} prlimit {limit}");
    let launch = Launch::new(&["--threads", "2"]).on(&dir);
    match launch.through(&words(&wrapper)).start_or_end() {
        Ok(mut server) => {
            server.store("k", "a value");
            assert_eq!(server.get("k").body, b"a value", "{limit}");
            server.stop();
            let log = server.log().join("\n");
            assert!(!log.contains("panicked"), "{limit}: {log}");
            None
        }
        Err(ended) => {
            let said = ended.stderr;
            assert_eq!(ended.code, Some(1), "{limit}: {said}");
            assert!(!said.contains("panicked"), "{limit}: {said}");
            Some(said)
        }
    }
}

fn is_possible() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let is_possible = is_root && ["setpriv", "prlimit"].into_iter().all(is_on_path);
    if !is_possible {
        left_out("limits of a start", "not root, or no setpriv and prlimit");
    }
    is_possible
}

#[test]
fn a_start_without_enough_threads_says_so() {
    directory_only!("another user's directory");
    if !is_possible() {
        return;
    }
    let mut limits = 1..40;
    let told = limits
        .by_ref()
        .map_while(|n| within(64_321, &format!("--nproc={n}")));
    for said in told.collect::<Vec<_>>() {
        assert!(said.contains("threads"), "{said}");
    }
    assert!((5..20).contains(&limits.start), "{limits:?}");
}

#[test]
fn a_start_without_enough_descriptors_says_so() {
    directory_only!("another user's directory");
    if !is_possible() {
        return;
    }
    let needed = 51;
    for n in [6, 7, 8, 9, 10, 12, 16, 24, 32, needed - 1] {
        let said = within(64_322, &format!("--nofile={n}:{n}")).expect("it ends");
        assert!(
            said.contains("this server needs 51 descriptors"),
            "{n}: {said}"
        );
    }
    assert_eq!(within(64_322, &format!("--nofile={needed}:{needed}")), None);
}
