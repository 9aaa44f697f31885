//! Proves that values pass a connection with TLS whole, both ways, and what a connection costs that waits.

use super::{NAMES, started};
use crate::support::prelude::*;

/// A frame of HTTP/2 ends behind the record that has most of it: to receive no more than the frame wants were a system
/// call for each KiB.
#[test]
fn an_upload_over_http2_is_received_in_long_pieces() {
    const LEN: usize = 8 << 20;
    let why = "how often an upload over HTTP/2 is received";
    let trace = needed!(Trace::with(&["-e", "trace=recvfrom"], why));
    let authority = Authority::new();
    let own = authority.issue("own", &NAMES);
    let launch = Launch::new(&own.options()).listen("https://127.0.0.1:0");
    let mut server = trace.around(launch).start();
    let value = own.key.with_extension("value");
    std::fs::write(&value, pattern(3, LEN)).expect("a file");
    let load = Command::new("h2load")
        .args(["-n", "1", "-H", ":method: PUT", "-d"])
        .arg(value)
        .arg(format!("https://{}/k", server.addr))
        .output();
    let Ok(load) = load else {
        left_out(why, "there is no h2load");
        return;
    };
    let said = String::from_utf8_lossy(&load.stdout);
    assert!(said.contains(" 1 2xx"), "{said}");
    server.stop();
    let calls = trace.calls().len();
    assert!(calls < LEN >> 12, "{calls} calls of recvfrom");
}

/// Each piece is a record of its own, or several; some come together, others alone.
#[test]
fn a_value_in_records_of_all_lengths_is_whole_while_keys_change() {
    let (authority, _own, server) = started(&[]);
    let value = pattern(3, 900_000);
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    for lengths in [[1, 16_384], [5_000, 1], [16_385, 70_000], [9, 16_384]] {
        raw.send(put_head("k", value.len()));
        let mut rest = &value[..];
        for length in lengths.into_iter().cycle() {
            let (piece, behind) = rest.split_at(length.min(rest.len()));
            raw.send(piece);
            rest = behind;
            if rest.is_empty() {
                break;
            }
            if rest.len().is_multiple_of(7) {
                // The server answers with new keys of its own.
                raw.look(|client| client.refresh_traffic_keys().expect("new keys"));
            }
        }
        assert!(raw.answer().status < 300);
        assert!(raw.get("k").body == value);
    }
}

#[test]
fn an_upload_can_be_dropped() {
    let (authority, _own, server) = started(&["--discard"]);
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    for _ in 0..2 {
        raw.send(put_head("k", 3 << 20));
        raw.send(pattern(1, 3 << 20));
        assert_eq!(raw.answer().status, 200);
    }
}

#[test]
fn requests_that_come_together_are_answered_in_order() {
    let (authority, _own, server) = started(&[]);
    let client = authority.client();
    let value = pattern(2, 600_000);
    let mut raw = Raw::connect_tls(server.addr, &client);
    let mut sent = Vec::new();
    for _ in 0..4 {
        sent.extend_from_slice(put_head("k", value.len()).as_bytes());
        sent.extend_from_slice(&value);
        sent.extend_from_slice(get_head("k").as_bytes());
        sent.extend_from_slice(b"HEAD /k HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    let mut writer = raw.twin();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            writer.send(&sent);
            writer.finish();
        });
        for _ in 0..4 {
            assert_eq!(raw.answer().status, 200);
            assert!(raw.answer().body == value);
            assert_eq!(raw.head().length(), value.len());
        }
        raw.assert_closed();
    });
}

/// The answer before it is longer than the kernels' buffers, so that the client leaves while it is sent.
#[test]
fn a_request_behind_an_answer_that_cannot_be_sent_is_performed() {
    let (authority, _own, server) = started(&["--threads", "1"]);
    server.dir.place("k", pattern(1, 20 << 20));
    let value = pattern(2, 100_000);
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    raw.send(
        [
            get_head("k").as_bytes(),
            put_head("behind", value.len()).as_bytes(),
        ]
        .concat(),
    );
    raw.send(&value);
    eventually("the server's kernel has it all", || raw.is_taken());
    // There are unread answers, so closing resets the connection.
    drop(raw);
    eventually("it is stored", || {
        server
            .dir
            .get("behind")
            .is_some_and(|stored| stored == value)
    });
}

#[test]
fn the_end_of_a_connection_is_announced() {
    let (authority, _own, server) = started(&[]);
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    let answer = raw.ask("GET /k HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    assert!(answer.closes());
    // An end that is not announced is an error.
    assert_eq!(raw.read_once().expect("an announced end"), 0);
}
