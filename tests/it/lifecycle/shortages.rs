//! Proves that a start for which the system has too little ends with the reason in a line, and without a panic,
//! and that a server goes on that gets no more threads.

use crate::support::prelude::*;

/// Starts a server of a user of whom there is no other process, within this limit of prlimit(1): what it says where it
/// ends, or `None` where it serves.
fn within(user: u32, limit: &str) -> Option<String> {
    let dir = DataDir::temporary();
    for open in [dir.path(), &dir.outside("")] {
        chmod(open, 0o777);
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

fn possible() -> Option<()> {
    let is_root = rustix::process::geteuid().is_root();
    let is_possible = is_root && ["setpriv", "prlimit"].into_iter().all(is_on_path);
    let why = "not root, or no setpriv and prlimit";
    only_where!(is_possible, "limits of a start", why, None);
    Some(())
}

#[test]
fn a_start_without_enough_threads_says_so() {
    directory_only!("another user's directory");
    needed!(possible());
    let mut limits = 1..40;
    let refused = |n| within(64_321, &format!("--nproc={n}"));
    let told = limits.by_ref().map_while(refused);
    for said in told.collect::<Vec<_>>() {
        assert!(said.contains("threads"), "{said}");
    }
    assert!((5..20).contains(&limits.start), "{limits:?}");
}

#[test]
fn a_listing_without_enough_inotify_watches_is_whole_and_names_the_limit() {
    directory_only!("a directory is watched");
    let dir = DataDir::temporary();
    fs::create_dir(dir.file("folder")).expect("a folder");
    for n in 0..1100 {
        dir.place(&format!("folder/{n}"), "");
    }
    for (limit, own) in [
        ("max_user_watches", "max_inotify_watches"),
        ("max_user_instances", "max_inotify_instances"),
    ] {
        let script = format!("echo 0 > /proc/sys/user/{own} && exec \"$0\" \"$@\"");
        let launch = Launch::new(&[]).on(&dir);
        // The limit of a namespace of its own: that of /proc/sys/fs is of the whole machine.
        let wrapper = ["unshare", "--user", "--map-root-user", "sh", "-c", &script];
        let Ok(server) = launch.through(&wrapper).start_or_end() else {
            left_out("inotify's limits", "no namespace for users");
            return;
        };
        for _ in 0..2 {
            let listing = server.request("GET", "/?limit=2000", "", b"");
            assert_eq!(listing.text().matches("folder/").count(), 1100, "{limit}");
        }
        let told =
            "changes of the directory and its folders cannot be watched: each listing walks them";
        let told = server.event(told).field("limit");
        assert!(told.contains(limit), "{told}");
    }
}

#[test]
fn without_new_threads_requests_wait_for_existing_ones() {
    file_calls_only!("threads that cannot be made");
    let mut server = TestServer::start(&["--threads", "1", "--cache", "0"]);
    let tracer = Attached::injecting(&server, "clone3,clone", "error=EAGAIN");
    server.store("large", pattern(1, 700_000));
    assert!(server.get("large").body == pattern(1, 700_000));
    assert_eq!(server.ask("GET", "").status, 200);
    tracer.detach();
    server.stop();
    let log = server.log();
    let is_right = !log.iter().any(|line| line.contains("panicked"));
    assert!(is_right, "{log:#?}");
}
