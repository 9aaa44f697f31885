//! Proves how each `--dispatch` spreads connections over the reactors, and that the guarantees hold without an
//! acceptor.

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

/// Each reactor has its own counts. One that is alone accepts for itself; of several each has a listener of its own, or
/// an acceptor gives them connections in turn.
#[test]
fn each_dispatch_spreads_connections_over_the_reactors() {
    for (dispatch, threads, connections, listens) in [
        ("round-robin", "4", 64, 1),
        ("round-robin", "4", 66, 1),
        ("reuse-port", "4", 64, 4),
        ("round-robin", "1", 64, 1),
        ("reuse-port", "1", 64, 1),
    ] {
        let args = format!("--threads {threads} --dispatch {dispatch} --admin 127.0.0.1:0");
        let mut server = TestServer::start(&words(&args));
        let admin = server.admin();
        assert_eq!(listeners(&server), listens, "{dispatch} {threads}");
        let accepts = (dispatch, threads) == ("round-robin", "4");
        if accepts {
            eventually("there is an acceptor", || has_acceptor(&server));
        }
        assert_eq!(has_acceptor(&server), accepts, "{dispatch} {threads}");
        server.dir.place("here", "value");
        let mut open: Vec<Raw> = (0..connections).map(|_| server.connect()).collect();
        for connection in &mut open {
            assert_eq!(connection.get("here").body, b"value");
        }
        let counted = |what: &str| -> Vec<u64> {
            let (scrape, name) = (Scrape::of(admin), format!("data_server_connections_{what}"));
            let reactors = 0..threads.parse::<usize>().expect("a number");
            let of = |reactor: usize| scrape.count(&name, &[("reactor", &reactor.to_string())]);
            reactors.map(of).collect()
        };
        let accepted = counted("accepted_total");
        assert_eq!(counted("active"), accepted);
        drop(open);
        eventually("all have ended", || counted("finished_total") == accepted);
        assert_eq!(counted("active").iter().sum::<u64>(), 0);
        server.stop();
        // The last is the thread of `--admin`.
        assert_eq!(drained(&server)[..accepted.len()], accepted, "{dispatch}");
        let spread = accepted;
        let of_all = (spread.len().to_string(), spread.iter().sum());
        assert_eq!(of_all, (threads.to_owned(), connections), "{dispatch}");
        let (least, most) = (spread.iter().min(), spread.iter().max());
        let apart = most.zip(least).map(|(most, least)| most - least);
        assert!(!accepts || apart <= Some(1), "{spread:?}");
        let used = spread
            .iter()
            .filter(|&&connections| connections > 0)
            .count();
        let is_right = used > 1 || threads == "1";
        assert!(is_right, "the kernel gave one reactor all of {spread:?}");
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
