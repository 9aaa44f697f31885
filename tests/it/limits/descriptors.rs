//! Limits on descriptors that are too low: with 32 the server answered only 503, and with 64 most of 100 clients waited
//! for 30 s.

use crate::support::prelude::*;

const CLIENTS: usize = 100;

/// As long as clients waited then. A crowd takes seconds on a busy machine.
const TOO_LONG: Duration = Duration::from_secs(30);

/// What each of them asks for. How long a store takes is not the matter.
fn requests() -> usize {
    by_engine(10, 2)
}

/// The argument of `prlimit` for the soft and the hard limit.
fn limited(args: &[&str], descriptors: u64) -> Launch {
    let limit = format!("--nofile={descriptors}:{descriptors}");
    Launch::new(args).through(&["prlimit", &limit])
}

/// Many clients ask at once, repeatedly, each on a kept connection: all are answered 200, none after a time that is too
/// long.
fn crowd(server: &TestServer, args: &[&str]) {
    let ask = |n: usize| {
        let mut client = Client::new(server.addr);
        let (get, put) = (get_head("here"), put_head(&format!("k{n}"), 5) + "value");
        let asked = (0..requests()).map(|request| {
            let start = Instant::now();
            let request = if request % 2 == 0 { &get } else { &put };
            let status = loop {
                match client.exchange(request.as_bytes()) {
                    Heard::Answer(answer) => break answer.status,
                    Heard::Nothing => {} // a connection that was closed while idle
                    heard => panic!("{heard:?}"),
                }
            };
            (status, start.elapsed())
        });
        asked.collect::<Vec<_>>()
    };
    let ask = &ask;
    let answers = thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|n| scope.spawn(move || ask(n)));
        let clients: Vec<_> = clients.collect();
        let answers = clients.into_iter().map(|c| c.join().expect("a client"));
        answers.collect::<Vec<_>>().concat()
    });
    let failed = answers.iter().filter(|(status, _)| *status != 200).count();
    let slowest = answers.iter().map(|(_, took)| *took).max();
    let slowest = slowest.unwrap_or_default();
    let all = CLIENTS * requests();
    eprintln!("{args:?}: {all} answers, the slowest in {slowest:?}");
    assert_eq!(failed, 0, "{args:?}: of {all} requests");
    assert!(slowest < TOO_LONG, "{args:?}: {slowest:?}");
}

/// Over HTTP/2 one client held a file with each stream that it did not read: all others were answered 503.
#[test]
fn streams_that_are_not_read_leave_descriptors_to_others() {
    const STALLED: usize = 12;
    directory_only!("its values are files");
    let args = words("--threads 1 --http2-clear --max-connections 200");
    let server = limited(&args, 600).in_the_clear().start();
    // A file for each stream: those of one file share its descriptor, once it is cached.
    for n in 0..100 * STALLED {
        let large = File::create(server.dir.file(format!("large{n:04}"))).expect("a file");
        large.set_len(4 << 20).expect("a length");
    }
    for n in 0..40 {
        server.dir.place(&format!("value{n}"), pattern(n, 100_000));
    }
    let stalled: Vec<_> = (0..STALLED)
        .map(|n| stalled(server.addr, 100 * n))
        .collect();
    let proc = server.proc();
    let mut before = 0;
    eventually("they hold what they can", || {
        thread::sleep(Duration::from_millis(100)); // what is looked for is that it grows no more
        let open = proc.descriptors();
        open > 10 * STALLED && std::mem::replace(&mut before, open) == open
    });
    for n in 0..40 {
        let got = server.get(&format!("value{n}"));
        assert_eq!(got.status, 200, "GET {n}, {} open", proc.descriptors());
        let stored = server.put(&format!("new{n}"), pattern(n, 100_000));
        assert_eq!(stored.status, 200, "PUT {n}, {} open", proc.descriptors());
    }
    // A watcher, which may last for hours, leaves its connection the place for one stream.
    let mut client = Http2::connect(server.addr);
    let mut watch = client.ask("GET", "http://t/-/watch", &[], true);
    let watch = watch.as_mut().expect("a request");
    assert_eq!(watch.head().expect("a head").status, 200);
    assert_eq!(client.get("value1").body, pattern(1, 100_000));
    // Where that is taken, a request waits for a place that others leave, not for an end on its own connection.
    let mut paused = client.ask("GET", "http://t/large0000", &[], true);
    let paused = paused.as_mut().expect("a request");
    assert_eq!(paused.head().expect("a head").status, 200);
    let mut waits = client.ask("GET", "http://t/value2", &[], true);
    let waits = waits.as_mut().expect("a request");
    let early = waits.ends_within(Duration::from_millis(300));
    assert!(early.is_none(), "no place is left: {early:?}");
    // An upload that waited filled the window of its connection, so the one that was served got no more bytes, and then
    // 408.
    let mut client = Http2::connect(server.addr);
    let mut upload = || client.ask("PUT", "http://t/k", &[], false);
    let (mut put, mut behind) = (upload().expect("a request"), upload().expect("a request"));
    let _may_be_refused_before = behind.send(pattern(1, 1 << 20), false);
    put.send("value", true).expect("room");
    assert_eq!(put.answer().expect("an answer").status, 200);
    let refused = behind.answer().expect_err("no place");
    assert_eq!(refused.reason(), Some(h2::Reason::REFUSED_STREAM));
    // One that waited and was reset leaves its part of the window to the next.
    let mut reading = client.ask("GET", "http://t/large0001", &[], true);
    let reading = reading.as_mut().expect("a request");
    assert_eq!(reading.head().expect("a head").status, 200);
    let mut upload = |key| client.ask("PUT", key, &[("content-length", "400000")], false);
    drop(upload("http://t/a").expect("a request"));
    let mut next = upload("http://t/b").expect("a request");
    next.send(pattern(1, 400_000), true).expect("room");
    drop(stalled);
    assert_eq!(next.answer().expect("an answer").status, 200);
    let answer = waits.ends_within(Duration::from_secs(10));
    let head = answer.expect("a place is free").expect("a head");
    assert_eq!(head.status, 200);
}

/// A connection with a hundred GETs, of values from `large{first}` on, whose streams have no window (RFC 9113, section
/// 6.5.2; RFC 7541, section 6).
fn stalled(addr: SocketAddr, first: usize) -> Raw {
    let mut client = Raw::connect_clear(addr);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send(b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0");
    for (stream, value) in (1..200_u32).step_by(2).zip(first..) {
        let path = format!("/large{value:04}");
        let block = [b"\x82\x04\x0a", path.as_bytes(), b"\x86\x01\x01t"].concat();
        let len = u8::try_from(block.len()).expect("short");
        client.send([&[0, 0, len, 1, 5], &stream.to_be_bytes()[..], &block].concat());
    }
    client
}

#[test]
fn the_longest_idle_connection_closes_first_and_a_busy_one_never() {
    for threads in ["1", "2"] {
        let server = TestServer::start(&["--threads", threads, "--max-connections", "4"]);
        server.dir.place("here", "value");
        let mut busy = server.connect();
        busy.send(put_head("k", 5) + "val");
        eventually("it is accepted", || server.proc().sockets() > 0);
        let mut idle: Vec<Raw> = (0..3).map(|_| server.connect()).collect();
        for connection in &mut idle {
            assert_eq!(connection.get("here").status, 200);
        }
        // How long a connection has been idle is known to within a second.
        pass(Duration::from_millis(1500));
        for connection in &mut idle[1..] {
            assert_eq!(connection.get("here").status, 200);
        }
        let mut next = server.connect();
        assert_eq!(next.get("here").body, b"value");
        if threads == "1" {
            idle[0].assert_closed();
        }
        let open = idle[1..].iter_mut().filter_map(|connection| {
            let still = connection.silent_for(Duration::from_millis(50));
            still.is_ok().then_some(())
        });
        assert!(open.count() >= 1, "one connection makes way for one client");
        busy.send("ue");
        assert_eq!(busy.answer().status, 200, "the busy one is not closed");
    }
}

/// No client waits: connections at their limit are left alone.
#[test]
fn idle_connections_stay_open_while_no_client_waits() {
    for threads in ["1", "2"] {
        let server = TestServer::start(&["--threads", threads, "--max-connections", "3"]);
        server.dir.place("here", "value");
        let mut idle: Vec<Raw> = (0..3).map(|_| server.connect()).collect();
        for connection in &mut idle {
            assert_eq!(connection.get("here").status, 200);
        }
        for connection in &mut idle {
            let open = connection.silent_for(Duration::from_millis(200));
            open.expect("nothing asked for this connection");
        }
    }
}

/// The number in the error message is the lowest limit that works.
#[test]
fn too_few_descriptors_fail_the_start_with_the_needed_number() {
    let ways: [&[&str]; 4] = [
        &["--threads", "1"],
        &["--threads", "2"],
        &["--threads", "2", "--admin", "127.0.0.1:0"],
        &["--threads", "3", "--dispatch", "reuse-port"],
    ];
    let dir = DataDir::temporary();
    dir.place("here", "value");
    for args in ways {
        let refused = limited(args, 32).on(&dir).run();
        let words = refused.stderr.split_whitespace();
        let needed = words.skip_while(|&word| word != "needs").nth(1);
        let needed: u64 = needed.and_then(|n| n.parse().ok()).expect("a number");
        refused.says(1, "ulimit -n");

        // Below some limit the dynamic loader fails before the server runs.
        for few in [6, 7, 8, 9, 10, 12, 16, 24, needed - 1] {
            let below = limited(args, few).on(&dir).run();
            below.says(1, "");
            let panics = below.stderr.contains("panicked");
            assert!(!panics, "{few}: {}", below.stderr);
        }
        let mut server = limited(args, needed).on(&dir).start();
        crowd(&server, args);
        server.stop();
    }
}
