//! A connection gives back what it took, however it ends and whatever its streams are doing: sockets, places of
//! `--max-connections`, descriptors, and the tasks of streams, of which a connection waits for each. One that begins
//! while the server stops hears of that at once.

use std::path::PathBuf;
use std::thread;

use rustix::process::Signal;

use super::{ask, launch, server};
use crate::support::{
    Asked, Http2, Leave, Raw, Scrape, TestServer, Trace, comes_true, directory_only, eventually,
    needed, pattern, words,
};

const LARGE: usize = 8 << 20;

/// Opens a connection, and has its streams do something.
type Begin = fn(&TestServer) -> Doing;

/// What the streams of a connection are doing when it ends.
const DOING: [(&str, Begin); 7] = [
    ("nothing", |server| {
        let mut client = Http2::connect(server.addr);
        assert_eq!(client.get("small").body, b"value");
        Doing(client, Vec::new())
    }),
    ("waiting for windows", |server| {
        let client = Http2::connect(server.addr);
        reading(client, server, 8)
    }),
    ("waiting for the socket", |server| {
        let client = Http2::with_wide_windows(server.addr);
        reading(client, server, 8)
    }),
    ("receiving bodies", |server| uploading(server, &[])),
    ("receiving resumable uploads", |server| {
        uploading(server, &[("upload-complete", "?0")])
    }),
    ("compressing", |server| {
        let mut client = Http2::connect(server.addr);
        let coded = (0..8).map(|_| {
            let (uri, fields) = ("http://t/text.txt", [("accept-encoding", "gzip")]);
            client.ask("GET", uri, &fields, true).expect("a request")
        });
        let coded = coded.collect();
        Doing(client, coded)
    }),
    ("watching", |server| {
        let mut client = Http2::connect(server.addr);
        let mut watches: Vec<_> = (0..4)
            .map(|_| ask(&mut client, "GET", "/-/watch", true))
            .collect();
        for watch in &mut watches {
            assert_eq!(watch.head().expect("a head").status, 200);
        }
        Doing(client, watches)
    }),
];

/// A connection, and its streams.
struct Doing(Http2, Vec<Asked>);

/// Asks for `count` large values, and reads nothing but the heads.
fn reading(mut client: Http2, server: &TestServer, count: usize) -> Doing {
    let sent = || Scrape::of(server.addr).only("data_server_sent_bytes_total");
    let before = sent();
    let mut values: Vec<_> = (0..count)
        .map(|n| ask(&mut client, "GET", &format!("/large{}", n % 2), true))
        .collect();
    for value in &mut values {
        assert_eq!(value.head().expect("a head").status, 200);
    }
    eventually("bodies have begun", || sent() > before + 500_000.0);
    Doing(client, values)
}

/// Begins uploads with these fields, and ends none.
fn uploading(server: &TestServer, fields: &[(&str, &str)]) -> Doing {
    let mut client = Http2::connect(server.addr);
    let uploads = (0..8).map(|n| {
        let put = client.ask("PUT", &format!("http://t/part{n}"), fields, false);
        let mut put = put.expect("a request");
        put.send(pattern(n, 40_000), false).expect("room");
        put
    });
    let uploads = uploads.collect();
    Doing(client, uploads)
}

fn place_values(server: &TestServer) {
    server.dir.place("small", "value");
    server
        .dir
        .place("text.txt", "some text\n".repeat(LARGE / 10));
    for n in 0..2 {
        server.dir.place(&format!("large{n}"), pattern(n, LARGE));
    }
}

/// Connections whose client reset them with responses waiting for the socket stayed for ever, 10 of 10, each with its
/// place.
#[test]
fn a_connection_that_its_client_leaves_gives_back_what_it_took() {
    directory_only!("descriptors and files of uploads");
    let few = DOING.len() * 2;
    let args = "--threads 1 --compress --body-timeout 2s --idle-timeout 5s --max-connections";
    let server = server(&words(&format!("{args} {few}")));
    place_values(&server);
    // What is kept for all, such as pipes, is there. Values that were read stay open for a while.
    for (_, begin) in DOING {
        drop(begin(&server));
    }
    eventually("the first are gone", || server.connections() == 0);
    let values = server.dir.path();
    let descriptors = || {
        let links = server.proc().links();
        let is_value = |link: &&PathBuf| link.parent() == Some(values);
        links.iter().filter(|link| !is_value(link)).count()
    };
    let before = descriptors();
    for how in [Leave::Reset, Leave::Fin, Leave::Silence] {
        // A subscriber that is there, and silent, is served.
        let doing = DOING
            .into_iter()
            .filter(|(what, _)| how != Leave::Silence || !matches!(*what, "watching" | "nothing"));
        let left: Vec<_> = doing
            .map(|(what, begin)| {
                let Doing(client, streams) = begin(&server);
                eprintln!("{how:?} while {what}");
                (client.leave(how), streams)
            })
            .collect();
        let now = || (server.connections(), descriptors());
        let is_given_back = comes_true(|| now().0 == 0 && now().1 <= before);
        let (connections, descriptors) = now();
        assert!(
            is_given_back,
            "{how:?}: {connections} connections, {descriptors} descriptors, {before} before, {:?}",
            server.proc().links()
        );
        drop(left);
    }
    // Each has its place again.
    let all: Vec<_> = (0..few - 1)
        .map(|_| {
            let mut client = Http2::connect(server.addr);
            assert_eq!(client.get("small").body, b"value");
            client
        })
        .collect();
    drop(all);
    let found = Scrape::of(server.addr).count("data_server_panics_total", &[]);
    assert_eq!(found, 0);
}

/// One that was reset with responses waiting for the socket held up the stop for all of the grace period.
#[test]
fn a_stop_waits_for_no_client_that_does_not_go_on() {
    directory_only!("descriptors and files of uploads");
    let ways = [
        None,
        Some(Leave::Reset),
        Some(Leave::Fin),
        Some(Leave::Silence),
    ];
    thread::scope(|scope| {
        for (what, begin) in DOING {
            for how in ways {
                let stop = move || {
                    let args = words("--threads 1 --compress --body-timeout 2s --grace-period 10m");
                    let mut server = launch(&args).start();
                    place_values(&server);
                    let Doing(client, streams) = begin(&server);
                    let client = match how {
                        // It is there, and asks for nothing more.
                        None => (Some(client), None),
                        Some(how) => (None, client.leave(how)),
                    };
                    server.signal(Signal::TERM);
                    assert_eq!(server.exit(), Some(0), "{what}, {how:?}");
                    drop((client, streams));
                };
                let thread = thread::Builder::new().name(format!("{what}, {how:?}"));
                thread.spawn_scoped(scope, stop).expect("a thread");
            }
        }
    });
}

/// Types of frames (RFC 9113, section 6).
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;

/// The type of the next frame.
fn frame(client: &mut Raw) -> Option<u8> {
    let head = client.try_take(9)?;
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    client.try_take(len.try_into().expect("short"))?;
    Some(head[3])
}

/// Begins HTTP/2 on a connection that was open when the server was asked to stop. `None` where it was too late.
fn begun_in_a_drain(server: &mut TestServer, mut client: Raw) -> Option<()> {
    server.signal(Signal::TERM);
    eventually("the drain has begun", || server.refuses_connections());
    let put = b"\x02\x03PUT\x86\x04\x02/k\x01\x01t";
    let head = [&[0, 0, 13, HEADERS, 4, 0, 0, 0, 1][..], put].concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    client.offer([&preface[..], &head].concat()).ok()?;
    // It is told while its request is open, and the request is answered.
    while frame(&mut client)? != GOAWAY {}
    client.offer(b"\0\0\x01\0\x01\0\0\0\x01v").ok()?;
    while frame(&mut client)? != HEADERS {}
    Some(())
}

/// The kernel waited 200 ms for more with each write (`MSG_MORE`), and the client heard of no end.
#[test]
fn a_connection_that_begins_in_a_drain_hears_of_it_and_no_write_waits_for_more() {
    // The server may close a connection that begins late before it reads of it.
    for _ in 0..20 {
        let trace = needed!(Trace::with(
            &["-e", "trace=sendto,sendmsg"],
            "the flags of what is sent"
        ));
        let mut server = trace.around(launch(&["--threads", "1"])).start();
        let client = Raw::connect_clear(server.addr);
        client.give_up_after(std::time::Duration::from_secs(20));
        let mut last = Raw::connect_clear(server.addr);
        let get = "GET /gone HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
        assert_eq!(last.ask(get).status, 404);
        let begun = begun_in_a_drain(&mut server, client);
        assert_eq!(server.exit(), Some(0));
        if begun.is_some() {
            let held = trace.calls();
            let mut held = held.iter().filter(|call| call.args.contains("MSG_MORE"));
            assert!(
                held.clone().count() > 0,
                "the end of a connection of HTTP/1.1"
            );
            assert!(held.all(|call| call.args.contains("HTTP/1.1 404")));
            return;
        }
    }
    panic!("it was too late each time");
}
