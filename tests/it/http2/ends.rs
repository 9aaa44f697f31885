//! A connection gives back what it took, however it ends and whatever its streams are doing: sockets, places of
//! `--max-connections`, descriptors, and the tasks of streams, of which a connection waits for each.

use std::path::PathBuf;
use std::thread;

use rustix::process::Signal;

use super::{ask, launch, server};
use crate::support::{
    Asked, Http2, Leave, Scrape, TestServer, comes_true, directory_only, eventually, pattern, words,
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
