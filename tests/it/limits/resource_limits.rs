//! Proves the limits of resources: bodies that are too large, too many connections and too few descriptors each meet a
//! limit, and other clients are served.

use crate::support::prelude::*;

#[test]
fn a_body_over_max_body_is_refused_and_one_at_it_is_stored() {
    for (option, limit) in [("1000", 1000), ("64KiB", 65_536), ("1MiB", 1024 * 1024)] {
        let server = TestServer::start(&["--max-body", option]);
        let value = pattern(1, limit + 1);
        let head = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";

        let status = server.connect().ask(put_head("k", limit + 1)).status;
        assert_eq!(status, 413, "announced, of {option}");
        let mut connection = server.connect();
        connection.send([head.as_bytes(), &chunked(value.chunks(999))].concat());
        assert_eq!(connection.answer().status, 413, "chunked, of {option}");
        server.dir.assert_holds(&[]);

        server.store("k", &value[..limit]);
        let mut connection = server.connect();
        let chunks = chunked(value[..limit].chunks(999));
        connection.send([head.as_bytes(), &chunks, b"0\r\n\r\n"].concat());
        let status = connection.answer().status;
        assert_eq!(status, 200, "chunked, at the limit of {option}");
        assert!(server.dir.read("k") == value[..limit]);
        server.dir.assert_holds(&["k"]);
    }
}

/// A single reactor accepts for itself; two reactors have an acceptor.
const WHO_ACCEPTS: [&str; 2] = ["1", "2"];

#[test]
fn connections_beyond_the_maximum_wait_for_their_turn() {
    http1_only!("a client is busy with half a head");
    clear_only!("a client that waits to be accepted cannot ask by TLS");
    // With listeners of their own a free permit serves any client, whichever reactor the kernel chooses for it.
    for who in [
        "--threads 1",
        "--threads 2",
        "--threads 4 --dispatch reuse-port",
    ] {
        for _ in 0..if who.contains("reuse") { 4 } else { 1 } {
            connections_beyond_three_wait(&words(&format!("{who} --max-connections 3")));
        }
    }
}

fn connections_beyond_three_wait(args: &[&str]) {
    let server = TestServer::start(args);
    server.dir.place("here", "value");
    let get = "GET /here HTTP/1.1\r\nHost: t\r\n\r\n";
    let mut open: Vec<Raw> = (0..3).map(|_| server.connect()).collect();
    for connection in &mut open {
        assert_eq!(connection.ask(get).status, 200);
        // In the middle of a request: an idle connection makes way for a client that waits.
        connection.send(put_head("k", 5) + "val");
    }
    let mut waiting: Vec<Raw> = (0..3).map(|_| server.connect()).collect();
    for connection in &mut waiting {
        connection.send(get);
    }
    let unserved = waiting[0].silent_for(Duration::from_millis(500));
    unserved.expect("no fourth connection is served");
    for (mut connection, mut next) in open.into_iter().zip(waiting) {
        connection.send("ue");
        let status = connection.answer().status;
        assert_eq!(status, 200, "those that are open are served meanwhile");
        drop(connection);
        assert_eq!(next.answer().body, b"value", "the next in line");
    }
}

/// Without descriptors the server pauses accepting, logs that once, uses no CPU, answers 503 where it can, and
/// recovers.
#[test]
fn running_out_of_descriptors_pauses_accepting_and_recovers() {
    http1_only!("a client is busy with half a head");
    clear_only!("a client that waits to be accepted cannot ask by TLS");
    directory_only!("the cache");
    thread::scope(|scope| {
        for threads in WHO_ACCEPTS {
            scope.spawn(move || run_out_of_descriptors(threads));
        }
    });
}

fn run_out_of_descriptors(threads: &str) {
    let args = words("--max-connections 1000 --header-timeout 60s --threads");
    let launch = Launch::new(&[args, vec![threads]].concat());
    let mut server = launch.through(&["prlimit", "--nofile=64:64"]).start();
    let at_rest = server.proc().sockets();
    server.store("here", "value");
    // A cached value needs no descriptor: the client that is accepted first may leave none.
    eventually("the value is kept", || {
        server.get("here");
        server.proc().has_open(&server.dir.file("here"))
    });
    let get = "GET /here HTTP/1.1\r\nHost: t\r\n\r\n";
    for episode in 1..=2 {
        let comes = || server.proc().sockets() == at_rest;
        eventually("what was closed is closed", comes);
        let mut old = server.connect();
        assert_eq!(old.ask(get).status, 200);
        // In the middle of a request, so that it is not idle and closed for another.
        old.send("GET /cold HTTP/1.1\r\n");
        // A few more than there are descriptors, so that the recovery does not exhaust them again.
        let free = 64 - server.proc().descriptors();
        let mut crowd: Vec<Raw> = (0..free + 5).map(|_| server.connect()).collect();
        let paused = || server.events("accepting paused").len();
        eventually("accepting is paused", || paused() >= episode);

        let last = crowd.last_mut().expect("a crowd");
        last.send(get);
        let cpu = server.proc().cpu();
        let unserved = last.silent_for(Duration::from_secs(1));
        unserved.expect("no client is served without a descriptor");
        let burnt = server.proc().cpu().saturating_sub(cpu);
        let is_right = burnt < Duration::from_millis(100);
        assert!(is_right, "{burnt:?} of CPU in 1 s of pause");
        // A recently read value may still be open, so this one is new.
        server.dir.place("cold", "value");
        old.send("Host: t\r\n\r\n".to_owned() + &put_head("cold", 1) + "v");
        for method in ["GET", "PUT"] {
            let answer = old.answer();
            let found = (answer.status, answer.header("retry-after"));
            assert_eq!(found, (503, Some("1")), "{method}: {answer:?}");
        }
        fs::remove_file(server.dir.file("cold")).expect("a removal by hand");
        assert_eq!(paused(), episode, "one warning for each episode");

        let mut last = crowd.pop().expect("a crowd");
        drop(crowd);
        let body = last.answer().body;
        assert_eq!(body, b"value", "the last in line is served after all");
        let comes = || server.events("accepting again").len() == episode;
        eventually("accepting again is logged", comes);
        assert_eq!(server.get("here").body, b"value");
    }
    let errors = Scrape::of(server.addr).count("data_server_accept_errors_total", &[]);
    assert!(errors >= 2, "{errors} counted");
    let warning = server.event("accepting paused");
    assert_eq!(warning.level, "WARN");
    assert!(!warning.field("error").is_empty(), "{warning:?}");
    server.dir.assert_holds(&["here"]);
    server.stop();
}

/// A connection that is reset before it is accepted affects only its peer.
#[test]
fn connections_reset_in_the_backlog_do_no_harm() {
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("here", "value");
    for _ in 0..300 {
        server.connect().reset();
    }
    assert_eq!(server.get("here").body, b"value");
    assert!(server.events("accepting paused").is_empty());
}
