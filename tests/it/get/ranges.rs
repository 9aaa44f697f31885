//! Proves ranges (RFC 9110, section 14) over the socket, for values in memory and for values sent from their files: the
//! bytes and their framing, and at most as many bytes as the value has.

use std::ops::Range;

use crate::support::prelude::*;

fn get(raw: &mut Raw, key: &str, range: &str) -> Response {
    let lines = format!("Range: {range}\r\n");
    ask(raw, "GET", &format!("/{key}"), &lines, b"")
}

/// A part: its place in the value, and its bytes.
type Part = (Range<usize>, Vec<u8>);

/// The parts of a 206, each with its place and its bytes, parsed by the framing alone.
fn parts(got: &Response, len: usize) -> Result<Vec<Part>, String> {
    let kind = got.must("content-type");
    let Some(boundary) = kind.strip_prefix("multipart/byteranges; boundary=") else {
        let range = place(got.must("content-range"), len)?;
        return Ok(vec![(range, got.body.clone())]);
    };
    if got.header("content-range").is_some() {
        return Err("15.3.7.2: Content-Range beside parts".into());
    }
    let mut rest = &got.body[..];
    let mut parts = Vec::new();
    let delimiter = format!("\r\n--{boundary}");
    loop {
        let behind = rest.strip_prefix(delimiter.as_bytes());
        rest = behind.ok_or("no delimiter")?;
        if rest == b"--\r\n" {
            return Ok(parts);
        }
        rest = rest.strip_prefix(b"\r\n").ok_or("no line end")?;
        let end = rest.windows(4).position(|w| w == b"\r\n\r\n");
        let end = end.ok_or("no head")?;
        let head = String::from_utf8_lossy(&rest[..end]).to_lowercase();
        let field = |name: &str| {
            let mut lines = head.lines();
            let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.ok_or_else(|| format!("no {name} in a part"))
        };
        let range = place(field("content-range")?, len)?;
        if field("content-type")? != "application/octet-stream" {
            return Err("a part of another type".into());
        }
        let (bytes, behind) = rest[end + 4..].split_at(range.len());
        parts.push((range, bytes.to_vec()));
        rest = behind;
    }
}

fn place(field: &str, len: usize) -> Result<Range<usize>, String> {
    let parse = || {
        let (range, of) = field.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let range: Range<usize> = first.parse().ok()?..last.parse::<usize>().ok()? + 1;
        (of.parse() == Ok(len) && range.start < range.end && range.end <= len).then_some(range)
    };
    parse().ok_or_else(|| format!("Content-Range: {field}"))
}

/// Whether `got` answers these ranges of `value`, which are in order and far apart.
fn check(got: &Response, value: &[u8], expected: &[Range<usize>]) -> Result<(), String> {
    if got.status != 206 {
        return Err(format!("status {}", got.status));
    }
    let parts = parts(got, value.len())?;
    let places: Vec<_> = parts.iter().map(|(range, _)| range.clone()).collect();
    if places != expected {
        return Err(format!("{places:?}, not {expected:?}"));
    }
    let mut wrong = parts.iter();
    let wrong = wrong.find(|(range, bytes)| value[range.clone()] != bytes[..]);
    wrong.map_or(Ok(()), |(range, _)| {
        Err(format!("other bytes at {range:?}"))
    })
}

/// Ranges of a value of `n` bytes, and the parts that answer them, in the order of the request.
/// src/http/values/range.rs has the grammar.
fn satisfiable(n: usize) -> Vec<(String, Vec<Range<usize>>)> {
    let one = [
        ("bytes=0-".to_owned(), 0..n),
        ("bytes=100-1099".to_owned(), 100..1100),
        (format!("bytes={}-", n - 1), n - 1..n),
        (format!("bytes={}-{}", n / 2, n - 2), n / 2..n - 1),
        ("bytes=-1000".to_owned(), n - 1000..n),
        // 14.2: close ranges may be joined.
        ("bytes=5-9,20-29".to_owned(), 5..30),
        // 15.3.7.2: a gap shorter than the head of a part is sent along.
        ("bytes=0-9,90-99".to_owned(), 0..100),
    ];
    let [far, sixteen] = [n - 500, 300];
    let many = (0..16).map(|at| at * sixteen..at * sixteen + 10);
    let several = [
        ("bytes=0-9,1000-1009".to_owned(), vec![0..10, 1000..1010]),
        (format!("bytes=-10,0-9,{n}-"), vec![n - 10..n, 0..10]),
        (
            format!("bytes=3000-3999, ,{far}-,0-0"),
            vec![3000..4000, far..n, 0..1],
        ),
        (asked(&many.clone().collect::<Vec<_>>()), many.collect()),
    ];
    let one = one.into_iter().map(|(range, part)| (range, vec![part]));
    one.chain(several).collect()
}

/// The Range that asks for these.
fn asked(ranges: &[Range<usize>]) -> String {
    let specs = ranges
        .iter()
        .map(|it| format!("{}-{}", it.start, it.end - 1));
    format!("bytes={}", joined(specs))
}

#[test]
fn ranges_of_values_of_every_size_are_answered_in_the_order_of_the_request() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            for (range, expected) in satisfiable(value.len()) {
                let got = get(&mut raw, key, &range);
                check(&got, value, &expected).unwrap_or_else(|why| panic!("/{key} {range}: {why}"));
                if let [one] = &expected[..] {
                    assert_eq!(got.length(), one.len(), "/{key} {range}");
                }
                for name in ["etag", "last-modified", "accept-ranges", "date"] {
                    got.must(name); // 15.3.7
                }
            }
        }
    });
}

#[test]
fn a_value_is_patched_with_hundreds_of_ranges_in_one_request() {
    let server = TestServer::start(&[]);
    let value = pattern(3, 800_000);
    server.store("v", &value);
    let mut raw = server.connect();
    let most = by_engine(512, 16);
    // electron-updater was seen to ask for 455.
    for (count, status) in [(by_engine(455, 15), 206), (most, 206), (most + 1, 200)] {
        let ranges = (0..count).map(|at| at * 1500..at * 1500 + 700);
        let ranges: Vec<Range<usize>> = ranges.collect();
        let got = get(&mut raw, "v", &asked(&ranges));
        assert_eq!(got.status, status, "{count}");
        if status == 206 {
            check(&got, &value, &ranges).unwrap_or_else(|why| panic!("{why}"));
        }
    }
}

/// Ranges that are malformed, too many, unsatisfiable or not for this method, and those that would be more bytes than
/// the value has.
#[test]
fn other_ranges_get_the_whole_value_or_416_by_14_2_and_15_5_17() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            let n = value.len();
            let many = |count: usize, apart: usize| {
                let ranges = (0..count).map(|i| format!("{}-{0}", i * apart));
                format!("bytes={}", joined(ranges))
            };
            // src/http/values/range.rs has the others.
            let malformed = "bytes=5-2|lines=0-1|bytes=0-1\r\nRange: bytes=2-3";
            // As parts they would be longer than the value, or are too many.
            let excessive = [
                many(513, 100),
                many(3000, 1),
                format!("bytes={}", "0-,".repeat(6000)),
            ];
            let excessive = excessive.iter().map(String::as_str);
            for range in malformed.split('|').chain(excessive) {
                let got = get(&mut raw, key, range);
                let shown = &range[..range.len().min(60)];
                let seen = (got.status, got.header("content-range"));
                assert_eq!(seen, (200, None), "/{key} {shown}");
                assert!(got.body == *value, "/{key} {shown}");
            }
            for range in [
                format!("bytes={}0-", "0-,".repeat(1000)),
                format!("bytes=0-,{}", joined((0..40).map(|i| format!("{i}-")))),
                format!("bytes={}-1", "-1000000000,".repeat(300)),
            ] {
                let got = get(&mut raw, key, &range);
                assert!(got.body.len() <= n, "/{key} {}...", &range[..40]);
                assert!(got.body == *value || got.status == 206, "/{key}");
            }
            for range in [format!("bytes={n}-"), format!("bytes={n}-,-0,{}-", n + 1)] {
                let got = get(&mut raw, key, &range);
                assert_eq!(got.status, 416, "/{key} {range}");
                assert_eq!(got.must("content-range"), format!("bytes */{n}"));
                assert!(!got.closes() && got.body.len() < 200);
            }
            for range in ["bytes=0-1", "bytes=99999999999-", "bytes=0-0,900-999"] {
                let lines = format!("Range: {range}\r\n");
                let got = ask(&mut raw, "HEAD", &format!("/{key}"), &lines, b"");
                let seen = (got.status, got.length(), got.header("content-range"));
                assert_eq!(seen, (200, n, None), "HEAD /{key} {range}");
            }
        }
        let got = ask(&mut raw, "PUT", "/p", "Range: bytes=0-1\r\n", b"all of it");
        assert_eq!(got.status, 200);
        assert_eq!(classes.server.dir.read("p"), b"all of it");
    });
}

#[test]
fn an_empty_value_has_no_range_but_can_be_read() {
    let server = TestServer::start(&[]);
    server.store("empty", "");
    // Players ask with `bytes=0-` for all of a value. 14.1.2: a suffix longer than the value selects all of it; of an
    // empty value there is no Content-Range.
    for [range, status] in table(
        "
        bytes=0- ; 200
        bytes=0-0 ; 200
        bytes=-0 ; 416
        bytes=1- ; 416
        bytes=5-9 ; 416
        bytes=-1 ; 200
        bytes=-99999 ; 200
        bytes=0-,-5 ; 200",
    ) {
        let got = get(&mut server.connect(), "empty", range);
        let place = (status == "416").then_some("bytes */0");
        let found = (got.status.to_string(), got.header("content-range"));
        assert_eq!(found, (status.to_owned(), place), "{range}");
        assert_eq!(got.body.is_empty(), status == "200", "{range}");
    }
}

#[test]
fn if_range_chooses_the_part_or_the_whole_by_13_1_5() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            let path = format!("/{key}");
            let plain = ask(&mut raw, "GET", &path, "", b"");
            let (tag, modified) = (plain.must("etag"), plain.must("last-modified"));
            for (condition, holds) in [
                (tag, true),
                (&*format!("W/{tag}"), false), // 13.1.5: a weak one never holds
                ("\"x\"", false),
                ("Sun, 06 Nov 1994 08:49:37 GMT", false),
                (modified, false), // 8.8.2.2: of two values of one second a download would be joined
                ("nonsense", false),
                (&*format!("{tag}, \"x\""), false), // one tag, no list
            ] {
                let lines = format!("Range: bytes=5-9\r\nIf-Range: {condition}\r\n");
                let got = ask(&mut raw, "GET", &path, &lines, b"");
                let expected = if holds { &value[5..10] } else { value };
                let found = got.status;
                assert_eq!(found, if holds { 206 } else { 200 }, "{path} {condition}");
                assert!(got.body == expected, "{path} {condition}");
                // An If-Range that fails never causes a 416, and has no effect without a Range.
                let lines = format!("Range: bytes=9999999999-\r\nIf-Range: {condition}\r\n");
                let found = ask(&mut raw, "GET", &path, &lines, b"").status;
                assert_eq!(found, if holds { 416 } else { 200 }, "{path} {condition}");
                let lines = format!("If-Range: {condition}\r\n");
                let found = ask(&mut raw, "GET", &path, &lines, b"").status;
                assert_eq!(found, 200, "{path}");
            }
        }
    });
}

fn joined(ranges: impl Iterator<Item = String>) -> String {
    ranges.collect::<Vec<_>>().join(",")
}
