//! What goes wrong on one stream, or takes its time there, is of no matter to the others of the connection.

use super::{ask, launch, server};
use crate::support::{Http2, Raw, Scrape, directory_only, eventually, left_out, pattern};

const LARGE: usize = 8 << 20;

/// So much is held of the uploads of a connection that wait for the disk: 2 MiB each, 4 MiB for all, were.
#[test]
fn a_client_may_be_a_mebibyte_ahead_and_no_more() {
    const SETTINGS: u8 = 4;
    const INITIAL_WINDOW_SIZE: u16 = 4;
    const WINDOW_UPDATE: u8 = 8;
    let server = server(&[]);
    let mut client = Raw::connect_clear(server.addr);
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let (mut of_stream, mut of_connection) = (None, None);
    while of_stream.is_none() || of_connection.is_none() {
        let head = client.take(9);
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let payload = client.take(len.try_into().expect("short"));
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four"));
        match head[3] {
            SETTINGS => {
                let setting = payload
                    .chunks(6)
                    .find(|s| s[..2] == INITIAL_WINDOW_SIZE.to_be_bytes());
                of_stream = of_stream.or(setting.map(|setting| number(&setting[2..])));
            }
            WINDOW_UPDATE => of_connection = Some(65_535 + number(&payload)),
            _ => {}
        }
    }
    assert_eq!((of_stream, of_connection), (Some(1 << 20), Some(1 << 20)));
}

#[test]
fn requests_at_once_are_answered_as_they_are_ready() {
    let server = server(&["--threads", "1"]);
    let large = pattern(1, LARGE);
    server.dir.place("large", &large);
    server.dir.place("small", "value");
    let mut client = Http2::connect(server.addr);
    let mut slow = ask(&mut client, "GET", "/large", true);
    assert_eq!(slow.head().expect("a head").status, 200);
    let mut put = ask(&mut client, "PUT", "/new", false);
    put.send("half ", false).expect("room");
    assert_eq!(client.get("small").body, b"value", "between two long ones");
    put.send("value", true).expect("room");
    assert_eq!(put.answer().expect("an answer").status, 200);
    let mut body = Vec::new();
    while let Some(data) = slow.data().expect("more") {
        body.extend_from_slice(&data);
    }
    assert!(body == large, "{} bytes", body.len());
    assert_eq!(server.dir.read("new"), b"half value");
}

#[test]
fn a_panic_costs_its_stream_alone() {
    if !cfg!(debug_assertions) {
        return left_out("panics over HTTP/2", "a release does not panic by order");
    }
    // What makes the response to a request, at once or after work on it, panics too: nothing is left to answer with.
    let places = [
        ("answer:/boom", "/boom", true),
        ("work:/boom", "/boom", true),
        ("respond:/boom", "/boom", false),
        ("respond:/boom//", "/boom//", false),
    ];
    for (place, path, is_answered) in places {
        let launch = launch(&["--threads", "1"]).env("DATA_SERVER_PANIC", place);
        let server = launch.start();
        server.dir.place("here", "value");
        let mut client = Http2::connect(server.addr);
        let mut other = ask(&mut client, "PUT", "/other", false);
        other.send("val", false).expect("room");
        for _ in 0..3 {
            let failed = ask(&mut client, "GET", path, true).answer();
            match failed {
                Ok(failed) => assert!(is_answered && failed.status == 500, "{place}: {failed:?}"),
                Err(error) => assert!(!is_answered && error.is_reset(), "{place}: {error}"),
            }
            assert_eq!(client.get("here").body, b"value", "{place}");
        }
        other.send("ue", true).expect("room");
        assert_eq!(other.answer().expect("an answer").status, 200, "{place}");
        let counted = Scrape::of(server.addr).count("data_server_panics_total", &[]);
        assert_eq!(counted, 3, "{place}");
    }
}

/// One connection had a hundred of them, whatever the limits of connections were.
#[test]
fn watchers_are_as_many_as_connections_may_be() {
    directory_only!("watching");
    for limit in ["--max-connections-per-ip", "--max-connections"] {
        let server = server(&[limit, "3"]);
        let mut client = Http2::connect(server.addr);
        let mut watch = || {
            let mut events = ask(&mut client, "GET", "/-/watch", true);
            assert_eq!(events.head()?.status, 200);
            Ok::<_, h2::Error>(events)
        };
        let mut watching: Vec<_> = (0..3).map(|_| watch().expect("a place")).collect();
        let refused = watch().err().and_then(|error| error.reason());
        assert_eq!(refused, Some(h2::Reason::REFUSED_STREAM), "{limit}");
        watching.pop();
        eventually("a place is free", || watch().is_ok());
    }
}
