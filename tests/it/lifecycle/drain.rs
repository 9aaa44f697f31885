//! Proves the drain: requests in flight are finished, idle connections are closed, new ones are not accepted, all
//! within the grace period. A second signal ends the server at once; one sent twice, as `timeout` does, is one, and
//! those that mean nothing here are ignored.

use crate::support::prelude::*;

/// A grace period that is longer than any test waits for an end.
const PATIENT: &str = "1h";

/// More than the buffers of a connection hold.
const LARGE: usize = 32 << 20;

/// Half an upload of 1 MiB to `/k`, known to have reached the file system.
fn half_put(server: &TestServer, value: &[u8]) -> Raw {
    let mut writer = server.connect();
    writer.send(put_head("k", value.len()));
    writer.send(&value[..value.len() * 3 / 4]);
    eventually("the upload reaches the disk", || server.receiving() > 0);
    writer
}

/// A GET of `/large` whose head has been read and whose body has not.
fn unread_get(server: &TestServer) -> Raw {
    let mut reader = Raw::connect_narrow(server.addr);
    reader.send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(reader.head().length(), LARGE);
    reader
}

/// Longer than a client of HTTP/2 has to acknowledge that the server goes away: who finds that behind the ends of its
/// responses lost them.
const LATE: Duration = Duration::from_millis(2_500);

#[test]
fn requests_in_flight_finish_and_idle_connections_close() {
    for (signal, dispatch) in [
        (Signal::TERM, "round-robin"),
        (Signal::INT, "reuse-port"),
        (Signal::QUIT, "round-robin"),
    ] {
        let args = [
            ["--dispatch", dispatch],
            ["--threads", "2"],
            ["--grace-period", PATIENT],
        ];
        let args = [&["--access-log"], args.as_flattened()].concat();
        let mut server = TestServer::start(&args);
        let (stored, large) = (pattern(1, 1024 * 1024), pattern(2, LARGE));
        let hot = pattern(3, 30_000);
        server.dir.place("large", &large);
        server.dir.place("hot", &hot);
        eventually("a value is kept", || {
            assert!(server.get("hot").body == hot);
            is_s3() || server.proc().has_open(&server.dir.file("hot"))
        });
        let mut readers = [(); 4].map(|()| unread_get(&server));
        let mut of_memory = Raw::connect_narrow(server.addr);
        of_memory.send("GET /hot HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(of_memory.head().length(), hot.len());
        let mut writer = half_put(&server, &stored);
        let mut used = server.connect();
        assert_eq!(used.get("gone").status, 404);
        let mut unused = server.connect();
        eventually("all are accepted", || server.connections() >= 8);

        server.signal(signal);
        used.assert_closed();
        unused.assert_closed();
        let comes = || server.refuses_connections();
        eventually("new connections are refused", comes);

        writer.send(&stored[stored.len() * 3 / 4..]);
        let answer = writer.answer();
        assert_eq!((answer.status, answer.closes()), (200, true), "{answer:?}");
        writer.assert_closed();
        assert!(of_memory.take(hot.len()) == hot, "a GET from memory");
        of_memory.assert_closed();
        let (most, end) = large.split_at(LARGE - (1 << 20));
        for reader in &mut readers {
            assert!(reader.take(most.len()) == most, "a GET in flight");
        }
        thread::sleep(LATE); // clients that read the end late are what is tested
        for reader in &mut readers {
            assert!(reader.take(end.len()) == end, "its end");
            reader.assert_closed();
        }

        assert_eq!(server.exit(), Some(0));
        let is_right = server.dir.read("k") == stored;
        assert!(is_right, "the PUT in flight is stored");
        server.dir.assert_holds(&["hot", "k", "large"]);
    }
}

#[test]
fn a_request_pipelined_behind_the_one_in_flight_is_not_begun() {
    let mut server = TestServer::start(&["--threads", "1"]);
    let mut idle = server.connect();
    assert_eq!(idle.get("gone").status, 404);
    let value = pattern(1, 1024 * 1024);
    let mut writer = half_put(&server, &value);
    server.signal(Signal::TERM);
    idle.assert_closed(); // the reactor knows of the drain
    writer.send(&value[value.len() * 3 / 4..]);
    let _may_be_closed = writer.offer("DELETE /k HTTP/1.1\r\nHost: t\r\n\r\n");
    let answer = writer.answer();
    assert_eq!((answer.status, answer.closes()), (200, true));
    writer.assert_closed();
    assert_eq!(server.exit(), Some(0));
    let is_right = server.dir.read("k") == value;
    assert!(
        is_right,
        "what came after `Connection: close` was performed"
    );
}

/// From the line on standard output on.
#[test]
fn an_idle_server_ends_at_once() {
    let ends = [Signal::TERM, Signal::INT, Signal::QUIT];
    for first in ends.into_iter().chain([Signal::HUP, Signal::USR1]) {
        let mut server = TestServer::start(&["--threads", "3", "--grace-period", PATIENT]);
        server.signal(first);
        if matches!(first, Signal::HUP | Signal::USR1) {
            assert_eq!(server.get("gone").status, 404);
            server.signal(Signal::TERM);
        }
        assert_eq!(server.exit(), Some(0));
        let reactors = server.events("reactor drained");
        let reactors = reactors.iter().map(|event| event.number("reactor"));
        let reactors: Vec<u64> = reactors.collect();
        assert_eq!(reactors.len(), 3, "{reactors:?}");
    }
}

#[test]
fn the_grace_period_bounds_the_drain() {
    let mut server = TestServer::start(&["--grace-period", "1s"]);
    server.dir.place("large", pattern(2, LARGE));
    let mut reader = unread_get(&server);
    let mut writer = half_put(&server, &pattern(1, 1024 * 1024));
    let start = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.exit(), Some(0));
    let took = start.elapsed();
    let is_right = took >= Duration::from_millis(900);
    assert!(is_right, "no grace: ended after {took:?}");
    assert!(reader.rest().len() < LARGE, "the whole body arrived");
    let is_right = !writer.rest().starts_with(b"HTTP/1.1 200");
    assert!(is_right, "half an upload was acknowledged");
    server.dir.assert_holds(&["large"]);
}

#[test]
fn a_second_signal_ends_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let mut server = TestServer::start(&["--grace-period", PATIENT]);
        let _writer = half_put(&server, &pattern(1, 1024 * 1024));
        server.signal(Signal::TERM);
        eventually("the drain has begun", || server.refuses_connections());
        // A signal within half a second of the first counts as the same.
        pass(Duration::from_millis(600));
        server.signal(second);
        assert_eq!(server.exit(), Some(1), "exit code after {second:?}");
        server.dir.assert_holds(&[]);
    }
}

/// Connections in the queue of the listening socket, or on their way into it, were reset when it was closed.
#[test]
fn no_client_that_could_connect_is_left_without_a_response() {
    clear_only!("a connection is there when its handshake is, which a stop may refuse");
    for dispatch in ["round-robin", "reuse-port"] {
        for _ in 0..scaled(3, 25) {
            let mut server = TestServer::start(&["--dispatch", dispatch, "--threads", "2"]);
            server.dir.place("k", "value");
            let (addr, answered) = (server.addr, AtomicU64::new(0));
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        while let Ok(mut client) = Raw::try_connect(addr) {
                            let get = "GET /k HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
                            client.offer(get).expect("a connection");
                            assert_eq!(client.try_head().expect("a response").status, 200);
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                eventually("clients are served", || {
                    answered.load(Ordering::Relaxed) > 100
                });
                server.signal(Signal::TERM);
            });
            assert_eq!(server.exit(), Some(0));
        }
    }
}

const STOPS: usize = 12;

/// Half an upload: a drain waits for its other half.
fn begun_put(server: &TestServer) -> Raw {
    let mut writer = server.connect();
    writer.send(put_head("k", 4));
    writer.send("va");
    eventually("the server's kernel has it", || writer.is_taken());
    writer
}

#[track_caller]
fn finish_put(writer: &mut Raw) {
    writer.send("lu");
    assert_eq!(writer.answer().status, 200);
}

/// One stop with a second signal during the drain: the time between the signals, and the exit code.
fn doubled(again: Signal) -> (Duration, Option<i32>) {
    let mut server = TestServer::start(&["--threads", "1"]);
    let mut writer = begun_put(&server);
    let start = Instant::now();
    server.signal(Signal::TERM);
    server.event("draining");
    server.signal(again);
    let apart = start.elapsed();
    let _ = writer.offer("lu");
    // Not an assertion: the exit code shows whether the server has ended.
    let _ = writer.try_head();
    (apart, server.exit())
}

#[test]
fn a_signal_sent_twice_within_half_a_second_is_one() {
    let stops = (0..STOPS * 20).map(|n| doubled([Signal::TERM, Signal::INT][n % 2]));
    // On a busy machine the signals may be further apart, and then they count as two: others are tried.
    let in_time = stops.filter(|(apart, _)| *apart < Duration::from_millis(400));
    let codes: Vec<_> = in_time.take(STOPS).map(|(_, code)| code).collect();
    let drained = codes.iter().filter(|&&code| code == Some(0)).count();
    assert_eq!(drained, codes.len(), "{codes:?}");
    assert_eq!(codes.len(), STOPS, "stops in time");
}

#[test]
fn sighup_sigusr1_and_sigusr2_are_logged_and_ignored() {
    clear_only!("SIGHUP rereads the certificates");
    let mut server = TestServer::start(&[]);
    let mut writer = begun_put(&server);
    server.signal(Signal::HUP);
    server.event("reload: nothing to reread; options change with a restart");
    for (signal, name) in [(Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2")] {
        let ignored = || server.events("signal ignored: it has no meaning here");
        let before = ignored().len();
        server.signal(signal);
        eventually("the signal is logged", || ignored().len() > before);
        assert_eq!(ignored()[before].field("signal"), name);
    }
    finish_put(&mut writer);
    server.stop();
}
