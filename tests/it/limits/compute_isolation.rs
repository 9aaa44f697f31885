//! Proves that long computation runs on compute threads and not on reactors, and that one large job does not occupy the
//! compute threads.

#![expect(clippy::float_cmp, reason = "counts are whole, and exact in a float")]

use crate::support::prelude::*;

const DIGEST: &str = "Want-Repr-Digest: sha-256=1\r\n";

fn head(key: &str) -> String {
    format!("HEAD /{key} HTTP/1.1\r\nHost: t\r\n{DIGEST}\r\n")
}

/// A value whose digest takes longer than any test.
fn place_endless(server: &TestServer) {
    let file = File::create(server.dir.file("endless")).expect("a file");
    file.set_len(1 << 40).expect("a hole");
}

fn ask_for_endless(server: &TestServer) -> Raw {
    let mut asking = server.connect();
    asking.send(head("endless"));
    asking
}

/// Busy compute threads, and jobs that wait for one.
fn compute(server: &TestServer) -> (f64, f64) {
    let scrape = Scrape::of(server.addr);
    let of = |name: &str| scrape.only(&format!("data_server_compute_{name}"));
    (of("threads_busy"), of("queue_length"))
}

/// The value arrives compressed and whole.
fn assert_is_zipped(server: &TestServer, key: &str) {
    let lines = "Accept-Encoding: gzip\r\nConnection: close\r\n";
    let mut asking = server.begin("GET", &format!("/{key}"), lines);
    assert_eq!(asking.head().must("content-encoding"), "gzip");
    assert!(asking.rest().ends_with(b"\r\n0\r\n\r\n"), "cut off");
}

#[test]
fn a_long_digest_yields_to_others_and_ends_with_its_client() {
    directory_only!("compression");
    let server = TestServer::start(&["--threads", "1", "--compute-threads", "1", "--compress"]);
    place_endless(&server);
    server.store("small.txt", pattern(1, 100_000));
    let endless = ask_for_endless(&server);
    eventually("it is being computed", || compute(&server).0 == 1.0);
    for _ in 0..3 {
        let digest = server.request("GET", "/small.txt", DIGEST, b"");
        assert_eq!(digest.status, 200);
        assert!(digest.header("repr-digest").is_some());
        assert_is_zipped(&server, "small.txt");
    }
    assert!(!endless.has_unread(), "it cannot have ended");
    endless.reset();
    let comes = || compute(&server) == (0.0, 0.0);
    eventually("no thread works for a client that left", comes);
}

#[test]
fn compute_threads_are_at_most_as_many_as_given_and_nicer_than_all_others() {
    directory_only!("hands in the directory");
    let args = words("--threads 2 --compute-threads 2 --max-size 1GiB");
    let server = TestServer::start(&args);
    place_endless(&server);
    let _asking: Vec<Raw> = (0..6).map(|_| ask_for_endless(&server)).collect();
    eventually("both threads work and jobs wait", || {
        let (busy, waiting) = compute(&server);
        busy == 2.0 && waiting >= 2.0
    });
    let own = server.proc().nice_of("reactor-")[0];
    let nicer = (own + 10).min(19);
    assert_eq!(server.proc().nice_of("compute-"), [nicer, nicer]);
    // A pass over all values takes long, and each change is an event: the thread for these is started by the other.
    for behind in ["disk-bounds", "disk-list-event"] {
        assert_eq!(server.proc().nice_of(behind), [nicer], "{behind}");
    }
    // The acceptor yields to reactors, and goes before compute threads.
    assert_eq!(server.proc().nice_of("acceptor"), [(own + 5).min(19)]);
    // The threads for listings are named disk-list-.
    for others in ["reactor-", "disk-0", "disk-1"] {
        let nice = server.proc().nice_of(others);
        assert!(nice.iter().all(|&nice| nice < nicer), "{others}: {nice:?}");
    }
}
