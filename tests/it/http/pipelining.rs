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

/// The part of an answer that must not depend on neutral fields: everything but its date; of an upload, and of a value that was uploaded,
/// also everything but the version. Over HTTP/2 the client's own end says when the connection closes.
fn essence(mut answer: Response, is_version_kept: bool) -> (u16, Vec<(String, String)>, Vec<u8>) {
    answer.headers.retain(|(name, _)| match &**name {
        "date" => false,
        "etag" | "last-modified" => is_version_kept,
        name => !is_http2() || name != "connection",
    });
    answer.headers.sort();
    (answer.status, answer.headers, answer.body)
}

/// Fields that say nothing, and the ends of a request.
const NEUTRAL: [&str; 3] = [
    "",
    "X-Unknown: field\r\n",
    "Accept: */*\r\nUser-Agent: t\r\n",
];
const ENDS: [&str; 2] = ["", "Connection: close\r\n"];

#[test]
fn neutral_fields_change_no_answer_and_no_upload() {
    let options: [&[&str]; 7] = [
        &[],
        &["--compress"],
        &["--compat"],
        &["--read-only"],
        &["--discard"],
        &["--max-body", "1000"],
        &["--durability", "disk"],
    ];
    for options in taken(&options) {
        let server = TestServer::start(options);
        let exchange = |head: String, body: &[u8], ends: &str| {
            let mut raw = server.connect();
            // A refused client may not be able to send all of it.
            let _ = raw.offer([head.as_bytes(), body].concat());
            let answer = raw.answer();
            if !ends.is_empty() {
                raw.assert_closed();
            }
            answer
        };
        let values = heated(&server);
        for ((name, value), ends) in values
            .iter()
            .flat_map(|value| ENDS.map(|ends| (value, ends)))
        {
            let answers = NEUTRAL.map(|field| {
                let head = format!("GET /{name} HTTP/1.1\r\nHost: t\r\n{ends}{field}\r\n");
                essence(exchange(head, b"", ends), true)
            });
            assert!(answers[0].2 == *value, "{name} {options:?}");
            assert!(
                answers[1..].iter().all(|other| *other == answers[0]),
                "{name} {options:?}"
            );
        }
        let uploads = [
            (0, ""),
            (1, "text/css"),
            (1001, "not a type"),
            (64 << 10, "a/b"),
            (65_537, ""),
        ];
        for ((size, kind), ends) in uploads.iter().flat_map(|of| ENDS.map(|ends| (of, ends))) {
            let kind = if kind.is_empty() {
                String::new()
            } else {
                format!("Content-Type: {kind}\r\n")
            };
            let [first, others @ ..] = NEUTRAL.map(|field| {
                let lines = format!("Content-Length: {size}\r\n{kind}{ends}{field}");
                let head = format!("PUT /put HTTP/1.1\r\nHost: t\r\n{lines}\r\n");
                let put = exchange(head, &pattern(1, *size), ends);
                (essence(put, false), essence(server.get("put"), false))
            });
            assert!(
                others.iter().all(|other| *other == first),
                "{size} {options:?}: {first:?}"
            );
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
        let own = |method: &str| format!("{method} /put-{n} HTTP/1.1\r\nHost: t\r\n\r\n");
        let own = [own("GET"), own("HEAD"), own("DELETE"), own("GET")].concat();
        // Twice in a row, before and after slower answers, and split at every place over the rounds.
        [&hot, &hot, &gone, &hot, &put(n), &own, &hot]
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
            let small = b"value".to_vec();
            for expected in [
                Some(value),
                Some(value),
                None,
                Some(value),
                Some(&vec![]),
                Some(&small),
            ] {
                let answer = raw.answer();
                assert_eq!(answer.status, if expected.is_some() { 200 } else { 404 });
                let is_right = expected.is_none_or(|value| answer.body == *value);
                assert!(is_right, "{name} {step}");
            }
            assert_eq!(raw.head().length(), small.len(), "HEAD, {step}");
            let [deleted, gone, hot] = [(); 3].map(|()| raw.answer());
            assert_eq!(
                [deleted.status, gone.status],
                [200, 404],
                "DELETE and GET, {step}"
            );
            assert!(hot.body == *value, "{name} {step}");
        }
        sending.join().expect("all is sent");
    }
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
