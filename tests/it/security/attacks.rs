//! Proves that hostile requests get the right answer and have no other effect, class by class. The numbers are those of
//! a list of known attacks on HTTP file servers. Other classes are in `keys` (1, 5 and 8), `planted_files`, `framing`,
//! `closing`, `ranges`, `logs` and `media`.

use crate::support::prelude::*;

const PUT_CHUNKED: &str = "PUT /here HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Class, status, and what is sent, with `|` for each line end; `C` stands for a chunked PUT up to its body.
const TABLE: &str = r#"
4 ; 400 ; GET /\0 HTTP/1.1|Host: t||
4 ; 400 ; GET /here HTTP/1.1|Host: t|X: a\0b||
4 ; 400 ; GET /here HTTP/1.1|Host: t|X\0: a||
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: 1|Transfer-Encoding: chunked||0||
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: 1|Content-Length: 1||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: 1, 1||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: +1||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: 1x||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: 1 1||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: ||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: 99999999999999999999||x
9 ; 400 ; PUT /k HTTP/1.0|Host: t|Transfer-Encoding: chunked||0||
9 ; 400 ; GET /here HTTP/1.1||
9 ; 400 ; GET /here HTTP/1.1|Host: t|Host: t||
9 ; 400 ; GET /here HTTP/1.1|Host: t, t||
9 ; 400 ; GET /here HTTP/1.1|Host: a/b||
9 ; 400 ; GET /here#here HTTP/1.1|Host: t||
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: 1|Content-Length: 2||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: -1||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length: 0x1||x
9 ; 400 ; PUT /here HTTP/1.1|Host: t|Content-Length: 3|Transfer-Encoding: chunked||3|abc|0||
9 ; 400 ; PUT /here HTTP/1.1|Host: t|Transfer-Encoding: chunked|Content-Length: 13||3|abc|0||
9 ; 400 ; PUT /here HTTP/1.1|Host: t|Content-Length: 0|Transfer-Encoding: chunked||3|abc|0||
9 ; 400 ; PUT /here HTTP/1.1|Host: t|transfer-encoding:chunked|X: y|content-length:1000||3|abc|0||
9 ; 400 ; PUT /here HTTP/1.1|Host: t|Content-Length: 13|Content-Length: 13||3|abc|0||
9 ; 400 ; PUT /here HTTP/1.1|Host: t|Content-Length: 0|X: y|content-length: 0||
9 ; 400 ; PUT /k HTTP/1.1|Content-Length: 1||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t|Host: t|Content-Length: 1||x
9 ; 400 ; PUT /k HTTP/1.1|Host: t t|Content-Length: 1||x
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked|Transfer-Encoding: chunked||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked, chunked||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: gzip, chunked||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked, identity||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: \u{b}chunked||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: "chunked"||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked;q=1||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: ||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: identity|Transfer-Encoding: chunked||0||
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: identity||x
9 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding: xchunked||0||
10 ; 400 ; GET /here HTTP/1.1\nHost: t\n\n
10 ; 400 ; GET /here HTTP/1.1|Host: t\nX: y||
10 ; 400 ; GET /here HTTP/1.1|Host: t|X: a\rb||
10 ; 400 ; GET /here HTTP/1.1|Host: t|X: y\r\r\n||
10 ; 400 ; GET /here\r HTTP/1.1|Host: t||
10 ; 400 ; \nGET /here HTTP/1.1|Host: t||
10 ; 400 ; GET /here HTTP/1.1|Host : t||
10 ; 400 ; GET /here HTTP/1.1|Host\t: t||
10 ; 400 ; PUT /k HTTP/1.1|Host: t|Content-Length : 1||x
10 ; 400 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding : chunked||0||
10 ; 400 ; GET /here HTTP/1.1|Host: t| folded||
10 ; 400 ; GET /here HTTP/1.1| Host: t||
10 ; 400 ; GET /here HTTP/1.1|Host: t|no colon||
10 ; 400 ; GET /here HTTP/1.1|Host: t|: no name||
10 ; 400 ; \u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}
10 ; 400 ; hello||
10 ; 400 ; GET /here||
10 ; 501 ; PUT /k HTTP/1.1|Host: t|Transfer-Encoding:| chunked||0||
10 ; 400 ; GET /here HTTP/3.0||
11 ; 400 ; C|
11 ; 400 ; C-1|x|0||
11 ; 400 ; C0x1|x|0||
11 ; 400 ; C+1|x|0||
11 ; 400 ; C 1|x|0||
11 ; 400 ; C1g|x|0||
11 ; 400 ; C;a=b|x|0||
11 ; 400 ; Cfffffffffffffffff|x|0||
11 ; 400 ; C10000000000000001|x|0||
11 ; 400 ; C00000000000000001|x|0||
11 ; 400 ; C1\nx|0||
11 ; 400 ; C1;a\n|x|0||
11 ; 400 ; C1;\0|x|0||
11 ; 400 ; C1|xx|0||
11 ; 400 ; C1|x0||
11 ; 400 ; C1|x\n0||
11 ; 400 ; C1|x|0\n\n
11 ; 400 ; C1|x|0|A: b\n\n||
11 ; 400 ; C1|x|0|\n
11 ; 400 ; C1|x|0|A: \0||
11 ; 400 ; C1|x|0|A: b\r|\r|
11 ; 400 ; Czz|abc|0||
11 ; 400 ; C3|abcX|0||
11 ; 400 ; C10000000000000000|abc|0||
11 ; 400 ; C1|x|0|not a trailer||
18 ; 413 ; PUT /k HTTP/1.1|Host: t|Content-Length: 1001||
18 ; 413 ; PUT /k HTTP/1.1|Host: t|Content-Length: 1001|Expect: 100-continue||
18 ; 413 ; PUT /k HTTP/1.1|Host: t|Content-Length: 9223372036854775808||
18 ; 413 ; PUT /k HTTP/1.1|Host: t|Content-Length: 18446744073709551613||
30 ; 416 ; GET /here HTTP/1.1|Host: t|Range: bytes=99999999999999999999-||
30 ; 416 ; GET /here HTTP/1.1|Host: t|Range: bytes=-0||
"#;

/// The methods that framing is ambiguous with: a body means something with the first alone.
const METHODS: [&str; 5] = ["PUT", "GET", "DELETE", "HEAD", "OPTIONS"];

/// The bytes of a cell.
fn unescaped(text: &str) -> String {
    let escapes = [
        ("|", "\r\n"),
        (r"\0", "\0"),
        (r"\n", "\n"),
        (r"\r", "\r"),
        (r"\t", "\t"),
    ];
    let controls = (1..0x20_u8).map(|byte| (format!(r"\u{{{byte:x}}}"), char::from(byte)));
    let text = controls.fold(text.to_owned(), |text, (escape, is)| {
        text.replace(&escape, &is.to_string())
    });
    escapes
        .iter()
        .fold(text, |text, (escape, is)| text.replace(escape, is))
}

/// Each gets one answer, and what follows it none: nothing is stored, nothing is removed.
#[test]
fn each_attack_is_refused_and_smuggles_nothing() {
    http1_only!("requests by their bytes");
    let server = TestServer::start(&["--max-body", "1000"]);
    let (mut faults, mut sent) = (Vec::new(), 0);
    for [class, status, text] in table(TABLE) {
        let whole = match (class, text.strip_prefix('C')) {
            ("11", Some(body)) => PUT_CHUNKED.to_owned() + &unescaped(body),
            _ => unescaped(text),
        };
        let framed = whole
            .strip_prefix("PUT ")
            .filter(|_| matches!(class, "9" | "10"));
        let requests = match framed {
            Some(rest) => METHODS.map(|method| format!("{method} {rest}")).to_vec(),
            None => vec![whole],
        };
        // A well-formed head that is refused may be followed by another request, which may be answered.
        let follows = matches!(class, "4" | "30");
        let behind = [put_head("smuggled", 1) + "x", get_head("here")];
        let smuggled = &behind[usize::from(follows)];
        for request in requests {
            server.dir.place("here", "value");
            let mut connection = server.connect();
            let _may_be_cut = connection.offer(request.clone() + smuggled);
            connection.finish();
            let told = String::from_utf8_lossy(&connection.rest()).into_owned();
            let stored = server.dir.values();
            let is_kept = stored.len() == 1 && stored[&b"here"[..]] == b"value";
            let answers = told.matches("HTTP/1.1 ").count();
            let is_first = told.starts_with(&format!("HTTP/1.1 {status} "));
            let is_last = follows || told.to_lowercase().contains("connection: close");
            if !is_first || !is_last || answers > 1 + usize::from(follows) || !is_kept {
                let request = request.escape_debug();
                faults.push(format!("class {class}, {request}: {told}, {stored:?}"));
            }
            server.dir.clear();
            sent += 1;
        }
    }
    assert_eq!(faults.len(), 0, "of {sent}:\n{}", faults.join("\n"));
    server.dir.assert_nothing_staged();
}

/// Class 12: one under, at, and one over each limit; nothing over a limit is kept.
#[test]
fn class_12_heads_are_held_to_their_limits() {
    http1_only!("how long a head is");
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("here", "value");
    let padded = |len: usize| {
        let padding = "x".repeat(len - "GET /here HTTP/1.1\r\nHost: t\r\nX: \r\n\r\n".len());
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

#[test]
fn class_31_the_server_stops_reading_from_a_client_that_never_reads() {
    let launch = Launch::new(&["--threads", "1"]).on(&DataDir::temporary());
    let server = launch.start();
    server.dir.place("here", pattern(1, 8 << 10));
    assert_eq!(server.get("here").status, 200);
    let before = server.proc().rss_kib();
    let mut greedy: Vec<Raw> = (0..8).map(|_| Raw::connect_narrow(server.addr)).collect();
    let requests = get_head("here").repeat(1000);
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
