//! Proves that hostile requests get the right answer and have no other effect, class by class. The numbers are those of a
//! list of known attacks on HTTP file servers. Other classes are in `keys`, `planted_files`, `framing`, `aborted_uploads`,
//! `ranges`, `logs` and `media`.

use std::fmt::Write;

use crate::support::prelude::*;

const GET_HERE: &str = "GET /here HTTP/1.1\r\nHost: t\r\n\r\n";
const PUT_CHUNKED: &str = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Class and status, and what is sent; `C` stands for a chunked PUT up to its body.
const TABLE: &[(u8, u16, &[&str])] = &[
    (
        1,
        400,
        &[
            "GET /../outside HTTP/1.1|Host: t||",
            "GET /%2e%2e/outside HTTP/1.1|Host: t||",
            "GET /..%2foutside HTTP/1.1|Host: t||",
            "GET /.%2e HTTP/1.1|Host: t||",
            "PUT /%2e%2e%2foutside HTTP/1.1|Host: t|Content-Length: 1||x",
            "DELETE /..%2Foutside HTTP/1.1|Host: t||",
        ],
    ),
    (
        4,
        400,
        &[
            "GET /\0 HTTP/1.1|Host: t||",
            "GET /here HTTP/1.1|Host: t|X: a\0b||",
            "GET /here HTTP/1.1|Host: t|X\0: a||",
            "GET /%00 HTTP/1.1|Host: t||",
        ],
    ),
    (
        5,
        400,
        &[
            "GET /%c0%ae%c0%ae HTTP/1.1|Host: t||",
            "GET /%zz HTTP/1.1|Host: t||",
            "GET /%2 HTTP/1.1|Host: t||",
        ],
    ),
    (
        8,
        400,
        &[
            "GET /.data-server HTTP/1.1|Host: t||",
            "PUT /.data-server HTTP/1.1|Host: t|Content-Length: 1||x",
            "DELETE /.data-server%2flock HTTP/1.1|Host: t||",
            "PUT /.data-server/lock HTTP/1.1|Host: t|Content-Length: 1||x",
            "DELETE /.data-server/clock HTTP/1.1|Host: t||",
        ],
    ),
    (
        9,
        400,
        &[
            "PUT /k HTTP/1.1|Host: t|Content-Length: 1|Transfer-Encoding: chunked||0||",
            "PUT /k HTTP/1.1|Host: t|Content-Length: 1|Content-Length: 1||x",
            "PUT /k HTTP/1.1|Host: t|Content-Length: 1, 1||x",
            "PUT /k HTTP/1.1|Host: t|Content-Length: +1||x",
            "PUT /k HTTP/1.1|Host: t|Content-Length: 1x||x",
            "PUT /k HTTP/1.1|Host: t|Content-Length: 1 1||x",
            "PUT /k HTTP/1.1|Host: t|Content-Length: ||x",
            "PUT /k HTTP/1.1|Host: t|Content-Length: 99999999999999999999||x",
            "PUT /k HTTP/1.0|Host: t|Transfer-Encoding: chunked||0||",
            "GET /here HTTP/1.1||",
            "GET /here HTTP/1.1|Host: t|Host: t||",
            "GET /here HTTP/1.1|Host: t, t||",
            "GET /here HTTP/1.1|Host: a/b||",
            "GET /here#here HTTP/1.1|Host: t||",
        ],
    ),
    (
        9,
        501,
        &[
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked|Transfer-Encoding: chunked||0||",
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked, chunked||0||",
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: gzip, chunked||0||",
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked, identity||0||",
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: \u{b}chunked||0||",
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: \"chunked\"||0||",
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked;q=1||0||",
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: ||0||",
        ],
    ),
    (
        10,
        400,
        &[
            "GET /here HTTP/1.1\nHost: t\n\n",
            "GET /here HTTP/1.1|Host: t\nX: y||",
            "GET /here HTTP/1.1|Host: t|X: a\rb||",
            "GET /here HTTP/1.1|Host: t|X: y\r\r\n||",
            "GET /here\r HTTP/1.1|Host: t||",
            "\nGET /here HTTP/1.1|Host: t||",
            "GET /here HTTP/1.1|Host : t||",
            "GET /here HTTP/1.1|Host\t: t||",
            "PUT /k HTTP/1.1|Host: t|Content-Length : 1||x",
            "PUT /k HTTP/1.1|Host: t|Transfer-Encoding : chunked||0||",
            "GET /here HTTP/1.1|Host: t| folded||",
            "GET /here HTTP/1.1| Host: t||",
            "GET /here HTTP/1.1|Host: t|no colon||",
            "GET /here HTTP/1.1|Host: t|: no name||",
        ],
    ),
    (
        10,
        501,
        &["PUT /k HTTP/1.1|Host: t|Transfer-Encoding:| chunked||0||"],
    ),
    (
        11,
        400,
        &[
            "C|",
            "C-1|x|0||",
            "C0x1|x|0||",
            "C+1|x|0||",
            "C 1|x|0||",
            "C1g|x|0||",
            "C;a=b|x|0||",
            "Cfffffffffffffffff|x|0||",
            "C10000000000000001|x|0||",
            "C00000000000000001|x|0||",
            "C1\nx|0||",
            "C1;a\n|x|0||",
            "C1;\0|x|0||",
            "C1|xx|0||",
            "C1|x0||",
            "C1|x\n0||",
            "C1|x|0\n\n",
            "C1|x|0|A: b\n\n||",
            "C1|x|0|\n",
            "C1|x|0|A: \0||",
            "C1|x|0|A: b\r|\r|",
        ],
    ),
    (
        18,
        413,
        &[
            "PUT /k HTTP/1.1|Host: t|Content-Length: 1001||",
            "PUT /k HTTP/1.1|Host: t|Content-Length: 1001|Expect: 100-continue||",
            "PUT /k HTTP/1.1|Host: t|Content-Length: 9223372036854775808||",
            "PUT /k HTTP/1.1|Host: t|Content-Length: 18446744073709551613||",
        ],
    ),
    (
        30,
        416,
        &[
            "GET /here HTTP/1.1|Host: t|Range: bytes=99999999999999999999-||",
            "GET /here HTTP/1.1|Host: t|Range: bytes=-0||",
        ],
    ),
];

/// Each gets one answer, and what follows it none: nothing is stored, nothing is removed.
#[test]
fn each_attack_is_refused_and_smuggles_nothing() {
    http1_only!("requests by their bytes");
    let server = TestServer::start(&["--max-body", "1000"]);
    std::fs::write(server.dir.outside("outside"), "secret").expect("a file outside");
    let mut faults = Vec::new();
    let rows = TABLE
        .iter()
        .flat_map(|&(class, status, texts)| texts.iter().map(move |text| (class, status, text)));
    for (class, status, text) in rows.clone() {
        server.dir.place("here", "value");
        let sent = text.strip_prefix('C').filter(|_| class == 11).map_or_else(
            || text.replace('|', "\r\n"),
            |body| PUT_CHUNKED.to_owned() + &body.replace('|', "\r\n"),
        );
        // A well-formed head that is refused may be followed by another request, which may be answered.
        let follows = matches!(class, 1 | 4 | 5 | 8 | 30);
        let smuggled = if follows {
            GET_HERE
        } else {
            "PUT /smuggled HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nx"
        };
        let mut connection = server.connect();
        let _may_be_cut = connection.offer(sent.clone() + smuggled);
        connection.finish();
        let rest = connection.rest();
        let told = String::from_utf8_lossy(&rest);
        let mut stored = server.dir.names();
        stored.retain(|name| name != b"here");
        let answers = told.matches("HTTP/1.1 ").count();
        let is_first = told.starts_with(&format!("HTTP/1.1 {status} "));
        if !is_first || answers > 1 + usize::from(follows) || !stored.is_empty() {
            let text = text.escape_debug();
            faults.push(format!("class {class}, {text}: {told}, {stored:?}"));
        }
        assert!(!told.contains("secret"), "{text}");
        server.dir.clear();
    }
    let (found, all) = (faults.len(), rows.count());
    assert_eq!(found, 0, "of {all}:\n{}", faults.join("\n"));
    server.dir.assert_nothing_staged();
    let outside = std::fs::read(server.dir.outside("outside"));
    assert_eq!(outside.expect("the file outside"), b"secret");
}

/// Class 1: every way to write `..` and `/`, mixed at random, on one connection.
#[test]
fn class_1_no_encoding_leads_out_of_the_directory() {
    let dots = words(".. %2e%2e .%2E %2e. %252e%252e %c0%ae%c0%ae %u002e. .");
    let slashes = words(r"/ %2f %2F %252f %5c \ // /./");
    let server = TestServer::start(&[]);
    std::fs::write(server.dir.outside("outside"), "secret").expect("a file outside");
    let mut choices = pattern(1, 10_000 * 16).into_iter().map(usize::from);
    let mut pick = move |of: usize| choices.next().unwrap_or(0) % of;
    let mut connection = server.connect();
    for _ in 0..100 {
        let mut batch = String::new();
        for _ in 0..100 {
            let mut path = String::new();
            for _ in 0..=pick(4) {
                path += dots[pick(8)];
                path += slashes[pick(8)];
            }
            write!(batch, "GET /{path}outside HTTP/1.1\r\nHost: t\r\n\r\n").expect("text");
        }
        connection.send(&batch);
        for _ in 0..100 {
            let answer = connection.answer();
            assert!(matches!(answer.status, 400 | 404), "{answer:?}");
        }
    }
}

/// Class 12: one under, at, and one over each limit; nothing over a limit is kept.
#[test]
fn class_12_heads_are_held_to_their_limits() {
    http1_only!("how long a head is");
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("here", "value");
    let padded = |len: usize| {
        let empty = "GET /here HTTP/1.1\r\nHost: t\r\nX: \r\n\r\n".len();
        let padding = "x".repeat(len - empty);
        format!("GET /here HTTP/1.1\r\nHost: t\r\nX: {padding}\r\n\r\n")
    };
    let many = |fields: usize| {
        let fields = "X: y\r\n".repeat(fields - 1);
        format!("GET /here HTTP/1.1\r\nHost: t\r\n{fields}\r\n")
    };
    let long = |len: usize| format!("GET /here?{} HTTP/1.1\r\nHost: t\r\n\r\n", "q".repeat(len));
    let ask = |request: String| {
        let mut connection = server.connect();
        let _may_be_cut = connection.offer(request);
        connection.try_head().map_or(0, |head| head.status)
    };
    for (request, status) in [
        (padded((64 << 10) - 1), 200),
        (padded(64 << 10), 200),
        (padded((64 << 10) + 1), 431),
        (many(99), 200),
        (many(100), 200),
        (many(101), 431),
        (long(60_000), 200),
        (long(70_000), 431),
    ] {
        let len = request.len();
        assert_eq!(ask(request), status, "a head of {len} bytes");
    }
    let over = padded((64 << 10) + 100);
    (0..50).for_each(|_| assert_eq!(ask(over.clone()), 431));
    let heads = scaled(150, 1000);
    let before = server.proc().rss_kib();
    (0..heads).for_each(|_| assert_eq!(ask(over.clone()), 431));
    let growth = server.proc().rss_kib().saturating_sub(before);
    let is_right = growth < 1024;
    assert!(is_right, "{growth} KiB more after {heads} heads too large");
}

/// Class 28: no byte of a stored media type can end its line in a response.
#[test]
fn class_28_no_byte_of_a_stored_type_injects_a_header() {
    let server = TestServer::start(&[]);
    for byte in 0..=255_u8 {
        let head =
            b"PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Type: text/plain;a=\"";
        let request = [&head[..], &[byte], b"Injected: yes\"\r\n\r\nx"].concat();
        let stored = server.connect().ask(request).status;
        assert!(matches!(stored, 200 | 400), "{byte:#x}: {stored}");
        let got = server.get("k");
        assert_eq!(got.header("injected"), None, "{byte:#x}: {got:?}");
        server.dir.clear();
    }
}

/// Class 31: requests in one piece are answered in order, and the server stops reading from a client that reads nothing.
#[test]
fn class_31_ten_thousand_requests_in_one_piece() {
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("here", pattern(1, 1024));
    let mut connection = server.connect();
    let requests = GET_HERE.repeat(10_000);
    std::thread::scope(|scope| {
        let mut writer = connection.twin();
        scope.spawn(move || writer.send(requests));
        for _ in 0..10_000 {
            assert_eq!(connection.answer().body.len(), 1024);
        }
    });
}

#[test]
fn class_31_the_server_stops_reading_from_a_client_that_never_reads() {
    let launch = Launch::new(&["--threads", "1"]).on(&DataDir::temporary());
    let server = launch.start();
    server.dir.place("here", pattern(1, 8 << 10));
    assert_eq!(server.get("here").status, 200);
    let before = server.proc().rss_kib();
    let mut greedy: Vec<Raw> = (0..8).map(|_| Raw::connect_narrow(server.addr)).collect();
    let requests = GET_HERE.repeat(1000);
    for connection in &mut greedy {
        connection.give_up_after(Duration::from_millis(300));
        let mut sent = 0;
        while connection.offer(&requests).is_ok() {
            sent += requests.len();
            assert!(sent < 64 << 20, "64 MiB of requests were taken");
        }
    }
    let growth = server.proc().rss_kib().saturating_sub(before);
    let is_right = growth < 16 << 10;
    assert!(is_right, "{growth} KiB more for 8 clients that do not read");
    assert_eq!(server.get("here").status, 200, "others are served");
    drop(greedy);
    let comes = || server.proc().rss_kib() < before + (16 << 10);
    eventually("they are forgotten", comes);
}
