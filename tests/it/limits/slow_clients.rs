//! Clients that are slow, or that others have to wait for: what each of them may hold, and for how long.

use crate::support::prelude::*;

/// The length of a value that no buffers and windows hold all of.
const HUGE: u64 = 64 << 20;

/// A server in the clear, with a small value.
fn server(launch: Launch) -> TestServer {
    let server = launch.in_the_clear().start();
    server.dir.place("here", "value");
    server
}

fn place_huge(server: &TestServer) {
    let huge = File::create(server.dir.file("huge")).expect("a file");
    huge.set_len(HUGE).expect("a length");
}

fn over_http2(args: &[&str]) -> Launch {
    Launch::new(&[args, &["--http2-clear", "--threads", "1"]].concat())
}

/// So many GETs of the huge value, each of which has its head and takes no more.
fn paused(client: &mut Http2, streams: usize) -> Vec<Asked> {
    let ask = |_| {
        let mut asked = (client.ask("GET", "http://t/huge", &[], true)).expect("a request");
        assert_eq!(asked.head().expect("a head").status, 200);
        asked
    };
    (0..streams).map(ask).collect()
}

/// The kernel went on sending megabytes, for as long as the client liked, and no limit counted that.
#[test]
fn nothing_stays_in_the_kernel_of_a_reader_that_is_cut() {
    directory_only!("its value is a file of holes");
    http1_only!("the test beside it is over HTTP/2");
    let server = TestServer::start(&["--body-timeout", "1s"]);
    place_huge(&server);
    let mut reader = server.begin("GET", "/huge", "");
    assert_eq!(reader.head().status, 200);
    assert_cut_whole(&server);
}

/// It was there for 341 s: all of the response had been handed over, and the connection had ended in order.
#[test]
fn nothing_stays_in_the_kernel_of_a_connection_that_ended_in_order() {
    http1_only!("the test beside it is over HTTP/2");
    let server = TestServer::start(&["--body-timeout", "1s"]);
    server.dir.place("k", pattern(1, 250_000));
    let mut reader = Raw::connect_narrow(server.addr);
    reader.send("GET /k HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    assert_eq!(reader.head().status, 200);
    eventually("it ends", || server.connections() == 0);
    assert_eq!(unsent_of_nobody(server.addr), 0);
}

#[test]
fn nothing_stays_in_the_kernel_of_a_connection_of_http2_that_is_cut() {
    directory_only!("its value is a file of holes");
    let server = server(over_http2(&["--body-timeout", "1s"]));
    place_huge(&server);
    let mut reader = Http2::with_wide_windows(server.addr);
    let _paused = paused(&mut reader, 2);
    let _socket = reader.leave(Leave::Silence).expect("a socket");
    assert_cut_whole(&server);
}

#[track_caller]
fn assert_cut_whole(server: &TestServer) {
    server.event("a client was too slow");
    eventually("it is cut", || server.connections() == 0);
    assert_eq!(unsent_of_nobody(server.addr), 0);
}

/// Each of ten streams of each connection was ended, one every 20 ms, and the client that waited got no place.
#[test]
fn a_client_that_waits_gets_one_place_and_the_streams_of_others_go_on() {
    directory_only!("its value is a file of holes");
    let server = server(over_http2(&["--max-connections", "2"]));
    place_huge(&server);
    let mut clients = [(); 2].map(|()| Http2::connect(server.addr));
    let mut streams = [(); 2].map(|()| Vec::new());
    // In turn, so that those which paused first are of both.
    for _ in 0..5 {
        for (client, streams) in clients.iter_mut().zip(&mut streams) {
            streams.extend(paused(client, 1));
        }
    }
    let mut waiting = server.connect();
    assert_eq!(waiting.get("here").body, b"value");
    let goes_on = |mut stream: Asked| {
        let mut left = HUGE;
        while let Ok(Some(data)) = stream.data() {
            left -= data.len() as u64;
        }
        left == 0
    };
    let whole = streams.into_iter().map(|streams| {
        let whole = streams.into_iter().map(goes_on);
        whole.filter(|&is_whole| is_whole).count()
    });
    let mut whole: Vec<_> = whole.collect();
    whole.sort_unstable();
    assert_eq!(whole, [0, 5], "one connection made room");
}

/// They kept all others out for as long as they liked.
#[test]
fn watchers_make_room_for_a_client_that_waits() {
    directory_only!("watching");
    let by_websocket = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let is_answered = |lines: Option<&str>| {
        let server = server(over_http2(&["--max-connections", "2"]));
        let watch = |lines: &str| {
            let mut watcher = Raw::connect_clear(server.addr);
            watcher.send(format!("GET /-/watch HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
            assert!(matches!(watcher.head().status, 101 | 200));
            watcher
        };
        let _watchers = lines.map(|lines| [(); 2].map(|()| watch(lines)));
        let of_http2 = lines.is_none().then(|| {
            let mut client = Http2::connect(server.addr);
            let ask = |_| {
                client
                    .ask("GET", "http://t/-/watch", &[], true)
                    .expect("a request")
            };
            let mut events: Vec<_> = (0..2).map(ask).collect();
            let heads = events
                .iter_mut()
                .map(|events| events.head().expect("a head"));
            assert!(heads.map(|head| head.status).eq([200; 2]));
            (client, events)
        });
        let mut waiting = Raw::connect_clear(server.addr);
        assert_eq!(waiting.get("here").body, b"value", "{lines:?}");
        drop(of_http2);
    };
    thread::scope(|scope| {
        for lines in [Some(""), Some(by_websocket), None] {
            scope.spawn(move || is_answered(lines));
        }
    });
}

/// Each that waited had the one that was ending asked again: they were served after 4, 8 and 12 s.
#[test]
fn clients_that_wait_do_not_wait_for_one_after_the_other() {
    let server = server(over_http2(&["--max-connections", "3"]));
    let silent = [(); 3].map(|()| {
        let mut silent = Raw::connect_clear(server.addr);
        silent.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        silent
    });
    eventually("they are there", || server.connections() == 3);
    let start = Instant::now();
    let ask = || {
        let mut client = Raw::connect_clear(server.addr);
        assert_eq!(client.get("here").body, b"value");
        (start.elapsed(), client)
    };
    let mut answered: Vec<_> = thread::scope(|scope| {
        let waiting = [(); 3].map(|()| scope.spawn(ask));
        let answered = waiting.map(|client| client.join().expect("a client"));
        answered.into()
    });
    answered.sort_by_key(|(took, _)| *took);
    // On a busy machine all of them take longer.
    let [first, .., last] = &answered[..] else {
        panic!("three of them")
    };
    assert!(last.0 < 2 * first.0, "{:?}, then {:?}", first.0, last.0);
    drop((silent, answered));
}

/// What it sent was dropped at 20 MiB a second: it waited for its 403, and a longer body broke off without one.
#[test]
fn a_refused_upload_is_dropped_as_fast_as_it_comes() {
    http1_only!("a stream of HTTP/2 is ended, and its client knows");
    let server = TestServer::start(&["--read-only"]);
    let takes = TestServer::start(&["--discard"]);
    let body = vec![b'x'; 160 << 20];
    let time = |server: &TestServer, status: u16| {
        let mut client = server.connect();
        let start = Instant::now();
        client.send(put_head("k", body.len()));
        client.send(&body);
        assert_eq!(client.answer().status, status);
        start.elapsed()
    };
    // On a busy machine one that is taken, and dropped, takes its time as well.
    let is_fast = || time(&server, 403) < Duration::from_secs(3) + 3 * time(&takes, 200);
    let is_right = (0..3).any(|_| is_fast());
    assert!(is_right, "slower than an upload that is taken");
}

/// Its connection was closed with bytes unread, which resets it, and most clients never saw the 400.
#[test]
fn a_client_whose_head_the_parser_refuses_is_told() {
    http1_only!("these are not heads of HTTP/2");
    let server = TestServer::start(&[]);
    let body = vec![b'x'; 10 << 20];
    for line in [
        "PUT /a b HTTP/1.1\r\nHost: t",
        "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Type: a\x01b",
    ] {
        let mut client = server.connect();
        client.send(format!("{line}\r\nContent-Length: {}\r\n\r\n", body.len()));
        client.send(&body);
        assert_eq!(client.answer().status, 400, "{line:?}");
        client.finish();
        client.assert_closed();
    }
}
