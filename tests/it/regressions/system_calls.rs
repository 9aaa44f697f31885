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
