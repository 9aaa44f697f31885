//! Proves how each `--dispatch` spreads connections over the reactors, and that the guarantees hold without an acceptor.

use crate::support::prelude::*;

/// How many connections each reactor had in all, once the server has drained.
fn drained(server: &TestServer) -> Vec<u64> {
    let events = server.events("reactor drained");
    let counts: BTreeMap<u64, u64> = events
        .iter()
        .map(|event| (event.number("reactor"), event.number("connections")))
        .collect();
    counts.into_values().collect()
}

#[test]
fn round_robin_spreads_connections_evenly() {
    for connections in [64, 66] {
        let mut server = TestServer::start(&["--threads", "4", "--dispatch", "round-robin"]);
        let mut open: Vec<Raw> = (0..connections).map(|_| server.connect()).collect();
        for connection in &mut open {
            let got = connection.ask("GET /gone HTTP/1.1\r\nHost: t\r\n\r\n");
            assert_eq!(got.status, 404);
        }
        server.stop();
        let spread = drained(&server);
        assert_eq!(spread.len(), 4);
        assert_eq!(spread.iter().sum::<u64>(), connections);
        let (least, most) = (spread.iter().min(), spread.iter().max());
        let is_right = most.zip(least).is_some_and(|(m, l)| m - l <= 1);
        assert!(is_right, "{spread:?}");
    }
}

/// How many sockets listen on this server's port.
fn listeners(server: &TestServer) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").expect("the sockets");
    let local = format!(":{:04X} 00000000:0000 0A", server.addr.port());
    table.lines().filter(|line| line.contains(&local)).count()
}

/// Whether there is an acceptor thread.
fn has_acceptor(server: &TestServer) -> bool {
    let threads = server.proc().threads();
    threads.iter().any(|(name, _)| name == "acceptor")
}

#[test]
fn a_reactor_that_is_alone_accepts_for_itself() {
    for dispatch in ["round-robin", "reuse-port"] {
        let mut server = TestServer::start(&["--threads", "1", "--dispatch", dispatch]);
        assert_eq!(listeners(&server), 1);
        let is_right = !has_acceptor(&server);
        assert!(is_right, "{dispatch}: an acceptor without a choice");
        let mut open: Vec<Raw> = (0..64).map(|_| server.connect()).collect();
        for connection in &mut open {
            let got = connection.ask("GET /gone HTTP/1.1\r\nHost: t\r\n\r\n");
            assert_eq!(got.status, 404);
        }
        server.stop();
        assert_eq!(drained(&server), [64]);
    }
}

#[test]
fn reuse_port_serves_on_a_listener_of_each_reactor() {
    let mut server = TestServer::start(&["--threads", "4", "--dispatch", "reuse-port"]);
    assert_eq!(listeners(&server), 4);
    assert!(!has_acceptor(&server), "an acceptor with nothing to accept");
    server.dir.place("here", "value");
    let mut open: Vec<Raw> = (0..64).map(|_| server.connect()).collect();
    for connection in &mut open {
        let got = connection.ask("GET /here HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(got.body, b"value");
    }
    server.stop();
    let spread = drained(&server);
    assert_eq!((spread.len(), spread.iter().sum::<u64>()), (4, 64));
    let used = spread.iter().filter(|&&connections| connections > 0);
    let used = used.count();
    assert!(used > 1, "the kernel gave one reactor all of {spread:?}");
}

/// Longer than a client of HTTP/2 has to acknowledge that the server goes away: who finds that behind the ends of its responses lost them.
const LATE: Duration = Duration::from_millis(2_500);

#[test]
fn reuse_port_finishes_what_is_in_flight_when_it_drains() {
    let mut server = TestServer::start(&["--threads", "2", "--dispatch", "reuse-port"]);
    let (stored, large) = (pattern(1, 1 << 20), pattern(2, 32 << 20));
    server.dir.place("large", &large);
    let mut readers: Vec<Raw> = (0..4).map(|_| Raw::connect_narrow(server.addr)).collect();
    for reader in &mut readers {
        reader.send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(reader.head().length(), large.len());
    }
    let mut writer = server.connect();
    writer.send(put_head("k", stored.len()));
    writer.send(&stored[..stored.len() / 2]);
    eventually("the upload reaches the disk", || server.receiving() > 0);
    let mut idle = server.connect();
    let status = idle.ask("GET /gone HTTP/1.1\r\nHost: t\r\n\r\n").status;
    assert_eq!(status, 404);

    server.signal(Signal::TERM);
    idle.assert_closed();
    eventually("no socket listens", || listeners(&server) == 0);
    writer.send(&stored[stored.len() / 2..]);
    let answer = writer.answer();
    assert_eq!((answer.status, answer.closes()), (200, true), "{answer:?}");
    let (most, end) = large.split_at(large.len() - (1 << 20));
    for reader in &mut readers {
        assert!(reader.take(most.len()) == most, "a GET in flight");
    }
    thread::sleep(LATE); // clients that read the end late are what is tested
    for reader in &mut readers {
        assert!(reader.take(end.len()) == end, "its end");
        reader.assert_closed();
    }
    assert_eq!(server.exit(), Some(0));
    assert!(server.dir.read("k") == stored);
}

/// A free permit serves any client, whichever listener the kernel chooses for it.
#[test]
fn reuse_port_fills_the_maximum_of_connections_and_no_more() {
    const MOST: usize = 3;
    http1_only!("a client is busy with half a head");
    clear_only!("a client that waits to be accepted cannot ask by TLS");
    for _ in 0..4 {
        let server = TestServer::start(&words(
            "--threads 4 --dispatch reuse-port --max-connections 3",
        ));
        server.dir.place("here", "value");
        let get = "GET /here HTTP/1.1\r\nHost: t\r\n\r\n";
        let mut open: Vec<Raw> = (0..MOST).map(|_| server.connect()).collect();
        for (n, connection) in open.iter_mut().enumerate() {
            connection.send(get);
            let answer = connection.try_head();
            assert!(answer.is_some(), "connection {n} of {MOST} is not served");
            assert_eq!(connection.take(5), b"value");
            // In the middle of a request: an idle connection makes way for a client that waits.
            connection.send("GET /here HTTP/1.1\r\n");
        }
        let mut next = server.connect();
        next.send(get);
        let unserved = next.silent_for(Duration::from_millis(300));
        unserved.expect("no fourth connection is served");
        open.pop();
        assert_eq!(next.answer().body, b"value", "the next in line");
    }
}

/// A reactor that waits for a permit still drains.
#[test]
fn reuse_port_drains_at_the_maximum_of_connections() {
    clear_only!("a client that waits to be accepted cannot ask by TLS");
    let mut server = TestServer::start(&words(
        "--threads 2 --dispatch reuse-port --max-connections 2 --grace-period 100s",
    ));
    let mut open: Vec<Raw> = (0..8).map(|_| server.connect()).collect();
    for connection in &mut open {
        connection.send("GET /gone HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    eventually("two are served", || {
        open.iter_mut()
            .filter_map(|connection| connection.silent_for(Duration::from_millis(1)).err())
            .count()
            >= 2
    });
    let start = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.exit(), Some(0));
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "took {took:?}");
}

/// The connections and their requests had arrived before the signal.
#[test]
fn requests_that_arrived_before_the_drain_are_answered() {
    http1_only!("what the kernel has of a test is not translated yet");
    for dispatch in ["round-robin", "reuse-port"] {
        for _ in 0..scaled(4, 20) {
            let mut server = TestServer::start(&["--threads", "4", "--dispatch", dispatch]);
            server.dir.place("here", "value");
            let mut asked: Vec<Raw> = (0..32).map(|_| server.connect()).collect();
            for connection in &mut asked {
                connection.send("GET /here HTTP/1.1\r\nHost: t\r\n\r\n");
            }
            server.signal(Signal::TERM);
            for (n, connection) in asked.iter_mut().enumerate() {
                let head = connection.try_head();
                assert!(head.is_some(), "{dispatch}: connection {n} was dropped");
                assert_eq!(connection.take(5), b"value");
                connection.assert_closed();
            }
            assert_eq!(server.exit(), Some(0));
        }
    }
}

/// The server once said that it serves, and did not listen.
#[test]
fn a_listener_that_cannot_be_registered_fails_the_start() {
    for threads in ["1", "2"] {
        let mut ended = 0;
        // The runtime decides which of the thread's calls registers the listener: one of the first.
        for number in 1..=4 {
            let inject = format!("inject=epoll_ctl:error=EIO:when={number}");
            let options = ["-e", "trace=epoll_ctl", "-e", &inject];
            let left_out = "a listener that cannot be registered";
            let trace = needed!(Trace::with(&options, left_out));
            match trace
                .around(Launch::new(&["--threads", threads]))
                .start_or_end()
            {
                // The call may be that of a connection, which is then lost: at most one of each reactor.
                Ok(server) => assert!((0..3).any(|_| {
                    let mut raw = server.connect();
                    raw.offer("GET /gone HTTP/1.1\r\nHost: t\r\n\r\n").is_ok()
                        && raw.try_head().is_some_and(|head| head.status == 404)
                })),
                Err(end) => {
                    assert_eq!(end.code, Some(1), "{}", end.stderr);
                    // The log has other lines too: reactors that had started drain.
                    let reason = |line: &str| line.starts_with("data-server: cannot start: ");
                    assert!(end.stderr.lines().any(reason), "{}", end.stderr);
                    assert!(!end.stderr.contains("abandoned"), "{}", end.stderr);
                    ended += 1;
                }
            }
        }
        assert!(ended > 0, "{threads}: the fault met nothing");
    }
}
