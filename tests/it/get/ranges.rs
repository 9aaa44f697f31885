//! Proves ranges (RFC 9110, section 14) over the socket, for values in memory and for values sent from their files: the
//! bytes and their framing, and at most as many bytes as the value has.

use std::cell::RefCell;
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

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
        rest = rest
            .strip_prefix(delimiter.as_bytes())
            .ok_or("no delimiter")?;
        if rest == b"--\r\n" {
            return Ok(parts);
        }
        rest = rest.strip_prefix(b"\r\n").ok_or("no line end")?;
        let end = rest.windows(4).position(|w| w == b"\r\n\r\n");
        let end = end.ok_or("no head")?;
        let head = String::from_utf8_lossy(&rest[..end]).to_lowercase();
        let field = |name: &str| {
            let line = head
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
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

#[test]
fn one_range_of_values_of_every_size() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            let n = value.len();
            let cases = [
                ("bytes=0-0".to_owned(), 0..1),
                ("bytes=0-".to_owned(), 0..n),
                ("bytes=1-".to_owned(), 1..n),
                ("bytes=100-1099".to_owned(), 100..1100),
                (format!("bytes={}-", n - 1), n - 1..n),
                (format!("bytes={}-{}", n / 2, n - 2), n / 2..n - 1),
                (format!("bytes=10-{n}"), 10..n),
                ("bytes=10-99999999999999999999999".to_owned(), 10..n),
                ("bytes=-1".to_owned(), n - 1..n),
                ("bytes=-1000".to_owned(), n - 1000..n),
                (format!("bytes=-{}", n + 1), 0..n),
                ("BYTES=5-9".to_owned(), 5..10),
                (format!("bytes=5-9,{n}-"), 5..10),
                // 14.2: close ranges may be joined.
                ("bytes=5-9,20-29".to_owned(), 5..30),
                ("bytes=20-29, 5-25".to_owned(), 5..30),
                (" bytes=5-9 ".to_owned(), 5..10),
            ];
            for (range, expected) in cases {
                let got = get(&mut raw, key, &range);
                let checked = check(&got, value, std::slice::from_ref(&expected));
                checked.unwrap_or_else(|why| panic!("/{key} {range}: {why}"));
                assert_eq!(got.length(), expected.len(), "/{key} {range}");
                for name in ["etag", "last-modified", "accept-ranges", "date"] {
                    got.must(name); // 15.3.7
                }
            }
        }
    });
}

#[test]
fn several_ranges_in_request_order_at_every_size() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            let n = value.len();
            let cases: [(String, Vec<Range<usize>>); 6] = [
                // 15.3.7.2: a gap shorter than the head of a part is sent along.
                (
                    "bytes=0-9,90-99".to_owned(),
                    std::iter::once(0..100).collect(),
                ),
                ("bytes=0-9,91-99".to_owned(), vec![0..10, 91..100]),
                ("bytes=0-9,1000-1009".to_owned(), vec![0..10, 1000..1010]),
                (format!("bytes=-10,0-9,{n}-"), vec![n - 10..n, 0..10]),
                (
                    format!("bytes=3000-3999, ,{}-,0-0", n - 500),
                    vec![3000..4000, n - 500..n, 0..1],
                ),
                (
                    joined((0..16).map(|i| format!("{}-{}", i * 300, i * 300 + 9))),
                    (0..16).map(|i| i * 300..i * 300 + 10).collect(),
                ),
            ];
            for (range, expected) in cases {
                let is_whole = range.starts_with("bytes");
                let range = if is_whole {
                    range
                } else {
                    format!("bytes={range}")
                };
                let got = get(&mut raw, key, &range);
                let checked = check(&got, value, &expected);
                checked.unwrap_or_else(|why| panic!("/{key} {range}: {why}"));
            }
        }
    });
}

#[test]
fn a_value_is_patched_with_hundreds_of_ranges_in_one_request() {
    let server = TestServer::start(&[]);
    let value = pattern(3, 400_000);
    server.store("v", &value);
    let mut raw = server.connect();
    let most = by_engine(256, 16);
    for (count, status) in [(most, 206), (most + 1, 200)] {
        let ranges = (0..count).map(|at| at * 1500..at * 1500 + 700);
        let ranges: Vec<Range<usize>> = ranges.collect();
        let field = joined(
            ranges
                .iter()
                .map(|it| format!("{}-{}", it.start, it.end - 1)),
        );
        let got = get(&mut raw, "v", &format!("bytes={field}"));
        assert_eq!(got.status, status, "{count}");
        if status == 206 {
            check(&got, &value, &ranges).unwrap_or_else(|why| panic!("{why}"));
        }
    }
}

#[test]
fn malformed_and_excessive_ranges_get_the_whole_value_by_14_2() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            let many = |count: usize, apart: usize| {
                let ranges = (0..count).map(|i| format!("{}-{0}", i * apart));
                format!("bytes={}", joined(ranges))
            };
            let ignored = [
                "bytes=",
                "bytes=-",
                "bytes=a-b",
                "bytes=5-2",
                "bytes=1-2-3",
                "bytes=+1-2",
                "bytes 0-1",
                "lines=0-1",
                "bytes=0-1;2-3",
                "bytes=0-1\r\nRange: bytes=2-3",
                // As parts they would be longer than the value, or are too many.
                &many(257, 100),
                &many(3000, 1),
                &format!("bytes={}", "0-,".repeat(6000)),
            ];
            for range in ignored {
                let got = get(&mut raw, key, range);
                let shown = &range[..range.len().min(60)];
                let seen = (got.status, got.header("content-range"));
                assert_eq!(seen, (200, None), "/{key} {shown}");
                assert!(got.body == *value, "/{key} {shown}");
            }
        }
    });
}

#[test]
fn overlapping_ranges_never_make_more_bytes_than_the_value_has() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            for range in [
                format!("bytes={}0-", "0-,".repeat(1000)),
                format!("bytes=0-,{}", joined((0..40).map(|i| format!("{i}-")))),
                format!("bytes={}-1", "-1000000000,".repeat(300)),
            ] {
                let got = get(&mut raw, key, &range);
                assert!(got.body.len() <= value.len(), "/{key} {}...", &range[..40]);
                assert!(got.body == *value || got.status == 206, "/{key}");
            }
        }
    });
}

#[test]
fn unsatisfiable_ranges_are_416_with_the_length_by_15_5_17() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            let n = value.len();
            for range in [
                format!("bytes={n}-"),
                format!("bytes={n}-{}", n + 5),
                "bytes=-0".to_owned(),
                "bytes=99999999999999999999999-".to_owned(),
                format!("bytes={n}-,-0,{}-", n + 1),
            ] {
                let got = get(&mut raw, key, &range);
                assert_eq!(got.status, 416, "/{key} {range}");
                assert_eq!(got.must("content-range"), format!("bytes */{n}"));
                assert!(!got.closes() && got.body.len() < 200);
            }
        }
    });
}

#[test]
fn an_empty_value_has_no_range_but_can_be_read() {
    let server = TestServer::start(&[]);
    server.store("empty", "");
    let mut raw = server.connect();
    for (range, status) in [
        // Players ask so for all of a value.
        ("bytes=0-", 200),
        ("bytes=0-0", 200),
        ("bytes=-0", 416),
        ("bytes=1-", 416),
        // 14.1.2: a suffix longer than the value selects all of it; of an empty value there is no Content-Range.
        ("bytes=-1", 200),
        ("bytes=0-,-5", 200),
    ] {
        let got = get(&mut raw, "empty", range);
        let found = (got.status, got.body.is_empty());
        assert_eq!(found, (status, status == 200), "{range}");
        if status == 416 {
            assert_eq!(got.must("content-range"), "bytes */0", "{range}");
        }
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
                let got = ask(&mut raw, "GET", &path, &lines, b"");
                let found = got.status;
                assert_eq!(found, if holds { 416 } else { 200 }, "{path} {condition}");
                let lines = format!("If-Range: {condition}\r\n");
                let found = ask(&mut raw, "GET", &path, &lines, b"").status;
                assert_eq!(found, 200, "{path}");
            }
            assert!(!modified.is_empty());
        }
    });
}

/// 8.8.2.2: two values can have had the date of one second, and a download would be joined of both.
#[test]
fn if_range_takes_no_date_by_8_8_2_2() {
    directory_only!("hands in the directory");
    let server = TestServer::start(&[]);
    server.dir.place("old", "0123456789");
    let then = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
    server.dir.date("old", then);
    let got = server.get("old");
    let lines = format!(
        "Range: bytes=0-1\r\nIf-Range: {}\r\n",
        got.must("last-modified")
    );
    assert_eq!(server.request("GET", "/old", &lines, b"").status, 200);
}

#[test]
fn head_and_writes_have_no_ranges_by_14_2() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            for range in ["bytes=0-1", "bytes=99999999999-", "bytes=0-0,900-999"] {
                let lines = format!("Range: {range}\r\n");
                let got = ask(&mut raw, "HEAD", &format!("/{key}"), &lines, b"");
                let seen = (got.status, got.length());
                assert_eq!(seen, (200, value.len()), "/{key} {range}");
                assert_eq!(got.header("content-range"), None);
            }
        }
        let got = ask(&mut raw, "PUT", "/p", "Range: bytes=0-1\r\n", b"all of it");
        assert_eq!(got.status, 200);
        assert_eq!(classes.server.dir.read("p"), b"all of it");
    });
}

#[test]
fn a_partial_put_is_refused_before_it_is_read_by_14_5() {
    let server = TestServer::start(&[]);
    server.store("k", "old");
    let fields = "bytes 0-4/10|bytes 0-4/*|bytes */5|items 0-1/2|nonsense";
    for field in fields.split('|') {
        for key in ["k", "new"] {
            let lines = format!("\r\nContent-Range: {field}\r\nExpect: 100-continue\r\n\r\n");
            let answer = server
                .connect()
                .ask(put_head(key, 5).replace("\r\n\r\n", &lines));
            assert_eq!(answer.status, 400, "{field}");
            server.dir.assert_holds(&["k"]);
        }
    }
    assert_eq!(server.dir.read("k"), b"old");
}

fn joined(ranges: impl Iterator<Item = String>) -> String {
    ranges.collect::<Vec<_>>().join(",")
}

/// A requested range.
#[derive(Clone, Copy, Debug)]
enum Spec {
    Between(usize, usize),
    From(usize),
    Last(usize),
}

impl Spec {
    fn text(self) -> String {
        match self {
            Self::Between(first, last) => format!("{first}-{last}"),
            Self::From(first) => format!("{first}-"),
            Self::Last(count) => format!("-{count}"),
        }
    }

    fn holds(self, at: usize, len: usize) -> bool {
        at < len
            && match self {
                Self::Between(first, last) => (first..=last).contains(&at),
                Self::From(first) => at >= first,
                Self::Last(count) => at + count >= len,
            }
    }
}

/// The rules of any answer, checked byte by byte: exactly the requested bytes, and those in gaps shorter than the head of a
/// part; each once; in the order of the first request for each.
fn model(specs: &[Spec], value: &[u8], got: &Response) -> Result<(), String> {
    let len = value.len();
    let asked = (0..len).map(|at| specs.iter().any(|s| s.holds(at, len)));
    let asked: Vec<bool> = asked.collect();
    let any = asked.contains(&true);
    let mut malformed = specs.iter();
    let malformed = malformed.any(|s| matches!(s, Spec::Between(a, b) if a > b));
    let is_whole = got.status == 200 && got.body == value;
    let whole = is_whole.then_some(()).ok_or("not whole".into());
    if malformed {
        return whole;
    }
    if !any {
        let field = format!("bytes */{len}");
        let right = got.status == 416 && got.header("content-range") == Some(&field);
        let right = right.then_some(());
        return right.ok_or(format!("{}, not 416", got.status));
    }
    // Runs of requested bytes, joined across gaps of up to 80 bytes.
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in (0..len).filter(|&at| asked[at]) {
        match runs.last_mut() {
            Some(run) if at <= run.end + 80 => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    // A head of a part has about 130 bytes.
    let asked = runs.iter().map(ExactSizeIterator::len).sum::<usize>();
    let is_dense = asked + 160 * runs.len() > len;
    if runs.len() > by_engine(256, 16) || (runs.len() > 1 && is_dense && is_whole) {
        return whole;
    }
    if got.body.len() > len {
        return Err(format!("{} bytes of {len}", got.body.len()));
    }
    let is_in = |run: &Range<usize>, spec: &Spec| run.clone().any(|at| spec.holds(at, len));
    runs.sort_by_key(|run| specs.iter().position(|spec| is_in(run, spec)));
    check(got, value, &runs)
}

#[test]
fn any_ranges_of_any_value_match_a_slow_model() {
    let server = TestServer::start(&[]);
    let lengths = [1, 79, 500, 5_000, 12_000, 70_000];
    for (seed, len) in (1..).zip(lengths) {
        server.store(&format!("m{len}"), crate::support::pattern(seed, len));
    }
    let raw = RefCell::new(server.connect());
    let spec = |len: usize| {
        let at = prop_oneof![4 => 0..len + 3, 2 => 0..len.min(600) + 1, 1 => Just(len - 1), 1 => any::<u32>().prop_map(|n| n as usize)];
        let run = prop_oneof![0..200_usize, 0..len + 1];
        prop_oneof![
            6 => (at.clone(), run.clone()).prop_map(|(first, run)| Spec::Between(first, first + run)),
            1 => at.clone().prop_map(Spec::From),
            1 => run.prop_map(Spec::Last),
            1 => (at.clone(), at).prop_map(|(first, last)| Spec::Between(first, last)),
        ]
    };
    let cases = (0..lengths.len()).prop_flat_map(move |which| {
        let len = lengths[which];
        (
            Just(len),
            prop_oneof![3 => vec(spec(len), 1..5), 1 => vec(spec(len), 1..30)],
        )
    });
    let mut runner = TestRunner::new(Config {
        cases: scaled(200, 1000),
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&cases, |(len, specs)| {
        let field: Vec<String> = specs.iter().map(|s| s.text()).collect();
        let field = format!("bytes={}", field.join(","));
        let key = format!("m{len}");
        let got = get(&mut raw.borrow_mut(), &key, &field);
        let value = server.dir.read(&key);
        model(&specs, &value, &got).map_err(|why| TestCaseError::fail(format!("{field}: {why}")))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
