//! Faults that the torture suite found, with a test for each. strace injects the results of system calls.

use rustix::fs::XattrFlags;

use crate::support::prelude::*;

/// A server with these calls failing from now on; without strace, says what is left out.
fn failing(args: &[&str], injections: &[&str]) -> Option<(TestServer, Attached)> {
    let what = format!("{injections:?}");
    only_where!(can_trace(), &what, "strace does not run here", None);
    let server = TestServer::start(args);
    let options: Vec<&str> = injections.iter().flat_map(|i| ["-e", i]).collect();
    let tracer = Attached::to(&server, &options);
    Some((server, tracer))
}

#[test]
fn an_interrupted_call_is_repeated_and_not_a_500() {
    // Every second call is interrupted: the server must repeat each at once.
    const CALLS: [&str; 9] = [
        "openat2",
        "newfstatat",
        "linkat",
        "renameat",
        "utimensat",
        "fallocate",
        "unlinkat",
        "fsetxattr",
        "recvfrom",
    ];
    directory_only!("system calls on files");
    let injections = CALLS.map(|call| format!("inject={call}:error=EINTR:when=1+2"));
    let injections = injections.each_ref().map(String::as_str);
    let (server, tracer) = needed!(failing(&["--threads", "1", "--cache", "0"], &injections));
    for (seed, size) in (1..).zip([3_000, 300_000, 3_000, 300_000]) {
        let value = pattern(seed, size);
        let mut raw = server.connect();
        raw.send(format!(
            "PUT /key HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\r\n"
        ));
        assert_eq!(raw.ask(&value).status, 200);
        assert!(server.get("key").body == value);
    }
    assert_eq!(server.ask("GET", "").status, 200);
    assert_eq!(server.ask("DELETE", "key").status, 200);
    server.dir.assert_holds(&[]);
    let met = tracer.detach();
    for call in CALLS {
        let met = met.iter().any(|met| met.name == call && met.is_injected());
        assert!(met, "no {call} was interrupted, or this tests nothing");
    }
}

#[test]
fn an_interrupted_stat_after_the_directory_sync_is_repeated() {
    directory_only!("system calls on files");
    let args = words("--threads 1 --cache 0 --durability disk --journal off");
    let (server, tracer) = needed!(failing(&args, &["inject=fstat:error=EINTR:when=1+2"]));
    for n in 0..4 {
        assert_eq!(server.put("key", pattern(n, 3_000)).status, 200);
    }
    assert_eq!(server.ask("DELETE", "key").status, 200);
    let met = tracer.detach();
    let is_of_directory = |call: &&Call| call.is_injected() && call.args.contains("/data>");
    let is_right = met.iter().find(is_of_directory).is_some();
    assert!(is_right, "none was interrupted: {met:?}");
}

#[test]
fn without_new_threads_requests_wait_for_existing_ones() {
    directory_only!("system calls on files");
    let no_threads = "inject=clone3,clone:error=EAGAIN";
    let (mut server, tracer) = needed!(failing(&["--threads", "1", "--cache", "0"], &[no_threads]));
    server.store("large", pattern(1, 700_000));
    assert!(server.get("large").body == pattern(1, 700_000));
    assert_eq!(server.ask("GET", "").status, 200);
    tracer.detach();
    server.stop();
    let log = server.log();
    let is_right = !log.iter().any(|line| line.contains("panicked"));
    assert!(is_right, "{log:#?}");
}

#[test]
fn a_media_type_that_cannot_be_read_is_an_error_and_not_a_guess() {
    directory_only!("system calls on files");
    let args = ["--threads", "1", "--cache", "0"];
    let (server, tracer) = needed!(failing(&args, &["inject=fgetxattr:error=EIO"]));
    server.dir.place("k", "value");
    let file = std::fs::File::open(server.dir.file("k")).expect("the value");
    rustix::fs::fsetxattr(&file, "user.mime_type", b"text/x-kept", XattrFlags::empty())
        .expect("an attribute");
    assert_eq!(server.get("k").status, 500);
    assert!(tracer.has_injected());
    tracer.detach();
    assert_eq!(server.get("k").header("content-type"), Some("text/x-kept"));
}

/// The runtime panics without descriptors. That was exit code 101, which docs/operations.md does not list.
#[test]
fn a_start_without_descriptors_is_exit_code_1() {
    let dir = DataDir::temporary();
    Launch::new(&[]).on(&dir).start().store("k", "value");
    let mut refused = 0;
    for limit in 3..30 {
        let limit = format!("--nofile={limit}:{limit}");
        let launch = Launch::new(&["--threads", "1"]).through(&["prlimit", &limit]);
        let Err(ended) = launch.on(&dir).start_or_end() else {
            continue;
        };
        // Below some limit the dynamic loader fails before the server runs.
        if ended.code == Some(127) {
            continue;
        }
        refused += 1;
        let is_right = matches!(ended.code, Some(1 | 4));
        assert!(is_right, "{limit}: {:?}", ended.code);
        let says_why = |line: &str| line.starts_with("data-server: ");
        let is_right = ended.stderr.lines().any(says_why);
        assert!(is_right, "{limit}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{limit}");
    }
    assert!(refused > 5, "only {refused} starts were refused");
    assert_eq!(Launch::new(&[]).on(&dir).start().get("k").body, b"value");
}
