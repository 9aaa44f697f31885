//! Proves that pipelined requests are answered whole and in order, in any mix, with slow readers, and during a drain; and
//! that unknown and neutral fields change no answer.

use crate::support::prelude::*;

const SIZES: [usize; 7] = [0, 1, 1000, 16 << 10, (16 << 10) + 1, 256 << 10, 1 << 20];

fn get(key: &str) -> String {
    format!("GET /{key} HTTP/1.1\r\nHost: t\r\n\r\n")
}

/// Places values, and reads them until the cache keeps them.
fn heated(server: &TestServer) -> Vec<(String, Vec<u8>)> {
    let names = ["v.txt", "v.html", "v", "v.bin", "v.json", "v.svg", "v.zip"];
    let sizes = (1..).zip(SIZES);
    let values: Vec<_> = names
        .iter()
        .zip(sizes)
        .map(|(name, (seed, size))| ((*name).to_owned(), pattern(seed, size)))
        .collect();
    let mut reader = server.connect();
    for (name, value) in &values {
        server.dir.place(name, value);
    }
    // The cache keeps a value only once it has not changed for a while.
    let placed = Instant::now();
    eventually("the values are kept", || {
        for (name, value) in &values {
            assert!(reader.ask(get(name)).body == *value, "{name}");
        }
        placed.elapsed() > Duration::from_millis(300)
    });
    values
}

/// The part of an answer that must not depend on neutral fields: everything but its date.
fn essence(mut answer: Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    answer.headers.retain(|(name, _)| name != "date");
    answer.headers.sort();
    (answer.status, answer.headers, answer.body)
}

#[test]
fn neutral_fields_change_no_answer() {
    for options in taken(&[&[], &["--compress"], &["--compat"], &["--read-only"]]) {
        let server = TestServer::start(options);
        for (name, value) in heated(&server) {
            for ends in ["", "Connection: close\r\n"] {
                let ask = |field: &str| {
                    let head = format!("GET /{name} HTTP/1.1\r\nHost: t\r\n{ends}{field}\r\n");
                    let mut raw = server.connect();
                    let answer = raw.ask(head);
                    assert_eq!(answer.body, value, "{name}");
                    if !ends.is_empty() {
                        raw.assert_closed();
                    }
                    essence(answer)
                };
                assert_eq!(ask(""), ask("X-Unknown: field\r\n"), "{name} {options:?}");
                assert_eq!(ask("Accept: */*\r\nUser-Agent: t\r\n"), ask(""), "{name}");
            }
        }
    }
}

#[test]
fn answers_leave_in_the_order_of_the_requests() {
    let server = TestServer::start(&["--threads", "1"]);
    let values = heated(&server);
    let mut raw = server.connect();
    let put = |n: usize| put_head(&format!("put-{n}"), 5) + "value";
    let gone = get("gone");
    let rounds = values.iter().enumerate().map(|(n, (name, _))| {
        let hot = get(name);
        // Twice in a row, before and after slower answers, and split at every place over the rounds.
        [&hot, &hot, &gone, &hot, &put(n), &hot]
            .map(String::as_str)
            .concat()
    });
    let all = rounds.collect::<String>();
    for step in [1, 7, 100, all.len()] {
        let mut writer = raw.twin();
        let bytes = all.clone().into_bytes();
        let sending = thread::spawn(move || {
            bytes.chunks(step).for_each(|piece| writer.send(piece));
        });
        for (name, value) in &values {
            for expected in [
                Some(value),
                Some(value),
                None,
                Some(value),
                Some(&vec![]),
                Some(value),
            ] {
                let answer = raw.answer();
                assert_eq!(answer.status, if expected.is_some() { 200 } else { 404 });
                let is_right = expected.is_none_or(|value| answer.body == *value);
                assert!(is_right, "{name} {step}");
            }
        }
        sending.join().expect("all is sent");
    }
}

#[test]
fn a_slow_reader_of_pipelined_hot_values_gets_all_of_them() {
    let server = TestServer::start(&["--threads", "1"]);
    let values = heated(&server);
    let mut raw = Raw::connect_narrow(server.addr);
    let rounds = 20;
    raw.send(
        values
            .iter()
            .map(|(name, _)| get(name))
            .collect::<String>()
            .repeat(rounds),
    );
    // Other clients are served meanwhile.
    assert_eq!(server.ask("GET", "v").status, 200);
    let mut buffer = vec![0; 5000];
    for (name, value) in std::iter::repeat_n(&values, rounds).flatten() {
        let head = raw.head();
        assert_eq!((head.status, head.length()), (200, value.len()), "{name}");
        let mut at = 0;
        raw.stream_to(value.len(), &mut buffer, |piece| {
            let is_right = piece == &value[at..at + piece.len()];
            assert!(is_right, "{name} differs behind {at}");
            at += piece.len();
        });
        assert_eq!(at, value.len(), "{name}");
    }
}

#[test]
fn a_drain_sends_a_hot_answer_that_waits_for_its_reader() {
    let mut server = TestServer::start(&["--threads", "1"]);
    let values = heated(&server);
    let (name, value) = &values[6];
    let mut raw = Raw::connect_narrow(server.addr);
    raw.send(get(name));
    let head = raw.head();
    assert_eq!(head.length(), value.len());
    server.signal(Signal::TERM);
    assert!(raw.take(value.len()) == *value);
    raw.assert_closed();
    assert_eq!(server.exit(), Some(0));
}

#[test]
fn a_client_that_leaves_during_a_hot_answer_leaks_nothing() {
    let server = TestServer::start(&["--threads", "1"]);
    let values = heated(&server);
    for (name, _) in values.iter().cycle().take(50) {
        let mut raw = Raw::connect_narrow(server.addr);
        raw.send([get(name), get("v.zip")].concat());
        raw.head();
    }
    eventually("the connections are gone", || server.connections() == 0);
    assert_eq!(server.ask("GET", "v").status, 200);
}

/// The same for the answer to an upload: everything but its date and its version.
fn essence_of_upload(answer: Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let (status, mut headers, body) = essence(answer);
    let kept = |name: &str| !["etag", "last-modified"].contains(&name);
    headers.retain(|(name, _)| kept(name));
    (status, headers, body)
}

#[test]
fn neutral_fields_change_no_upload() {
    let options: [&[&str]; 6] = [
        &[],
        &["--compat"],
        &["--read-only"],
        &["--discard"],
        &["--max-body", "1000"],
        &["--durability", "disk"],
    ];
    for options in taken(&options) {
        let server = TestServer::start(options);
        for (size, kind) in [
            (0, ""),
            (1, "text/css"),
            (1001, "not a type"),
            (64 << 10, "a/b"),
            (65_537, ""),
        ] {
            for ends in ["", "Connection: close\r\n"] {
                let value = pattern(1, size);
                let put = |key: &str, field: &str| {
                    let kind = if kind.is_empty() {
                        String::new()
                    } else {
                        format!("Content-Type: {kind}\r\n")
                    };
                    let head = format!(
                        "PUT /{key} HTTP/1.1\r\nHost: t\r\nContent-Length: {size}\r\n{kind}{ends}{field}\r\n"
                    );
                    let mut raw = server.connect();
                    // A refused client may not be able to send all of it.
                    let _ = raw.offer([head.as_bytes(), &value].concat());
                    let answer = raw.answer();
                    if !ends.is_empty() {
                        raw.assert_closed();
                    }
                    let mut essence = essence_of_upload(answer);
                    // Over HTTP/2 the client's own end says when the connection closes.
                    essence
                        .1
                        .retain(|(name, _)| !is_http2() || name != "connection");
                    essence
                };
                let expected = put("long", "X-Unknown: field\r\n");
                assert_eq!(put("short", ""), expected, "{size} {options:?}");
                let (short, long) = (server.get("short"), server.get("long"));
                let found = essence_of_upload(short);
                assert_eq!(found, essence_of_upload(long), "{size} {options:?}");
            }
        }
    }
}

#[test]
fn a_small_upload_is_stored_however_it_arrives() {
    let server = TestServer::start(&["--threads", "1"]);
    let mut raw = server.connect();
    for (seed, size) in (1..).zip([1, 100, 8 << 10, 20_000]) {
        let value = pattern(seed, size);
        let all = [put_head("k", size).into_bytes(), value.clone()].concat();
        for step in [1 + size / 50, 1000, 8 << 10, all.len() - 1, all.len()] {
            // On one connection, and each after another of a different length.
            all.chunks(step).for_each(|piece| raw.send(piece));
            assert_eq!(raw.answer().status, 200, "{size} in pieces of {step}");
            let is_right = raw.ask(get("k")).body == value;
            assert!(is_right, "{size} in pieces of {step}");
        }
    }
}

#[test]
fn a_small_upload_that_breaks_off_leaves_the_old_value() {
    let server = TestServer::start(&["--threads", "1"]);
    server.store("k", "old");
    for sent in [0, 1, 99] {
        let mut raw = server.connect();
        raw.send([put_head("k", 100).as_bytes(), &pattern(1, sent)].concat());
        raw.break_off();
        raw.rest();
        let mut raw = server.connect();
        raw.send([put_head("k", 100).as_bytes(), &pattern(1, sent)].concat());
        drop(raw);
        assert_eq!(server.get("k").body, b"old");
    }
    eventually("nothing is staged", || server.receiving() == 0);
}

#[test]
fn a_drain_answers_a_small_upload_under_way() {
    let mut server = TestServer::start(&["--threads", "1"]);
    let mut raw = server.connect();
    // A connection whose handshake was under way would end with the drain.
    assert_eq!(raw.ask(get("k")).status, 404);
    raw.send(put_head("k", 10) + "half ");
    let mut other = server.connect();
    assert_eq!(other.ask(get("k")).status, 404);
    server.signal(Signal::TERM);
    other.assert_closed();
    raw.send("value");
    let answer = raw.answer();
    assert_eq!(answer.status, 200);
    raw.assert_closed();
    assert_eq!(server.exit(), Some(0));
    assert_eq!(server.dir.read("k"), b"half value");
}
