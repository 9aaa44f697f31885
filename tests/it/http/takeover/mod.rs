//! Proves that it changes no answer who moves a long body. A server that takes the socket over for it and one that
//! leaves it to hyper, which tests can have, give the same statuses, fields and bodies to the same requests, and store,
//! log and count the same.

mod exchange;

use std::fs::FileTimes;

use self::exchange::{Answer, Exchange, assert_same};
use crate::support::prelude::*;

/// The limits at which the path of a body changes.
const LIMITS: [usize; 3] = [8 << 10, 256 << 10, 1 << 20];

/// Lengths around each limit.
fn all() -> Vec<usize> {
    let around = LIMITS
        .iter()
        .flat_map(|limit| [limit - 1, *limit, limit + 1]);
    [0, 1].into_iter().chain(around).collect()
}

/// One length around each limit, and both sides of it.
const AROUND: [usize; 8] = [
    0,
    1,
    LIMITS[0] - 1,
    LIMITS[0],
    LIMITS[1] - 1,
    LIMITS[1],
    LIMITS[2] - 1,
    LIMITS[2] + 1,
];

/// One length for each path.
const SOME: [usize; 4] = [1, LIMITS[0] + 1, LIMITS[1], LIMITS[2] + 1];

/// The `ETag` of a value of this length with the modification time [`changed`].
fn etag(length: usize) -> String {
    format!("\"17979cfe362a0000-{length:x}\"")
}

fn changed() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// Two servers over equal values, one in each setting.
struct Pair {
    on: TestServer,
    off: TestServer,
    options: Vec<String>,
}

impl Pair {
    fn start(options: &[&str], lengths: &[usize]) -> Self {
        let start = |setting| {
            let server = Launch::new(options)
                .env("DATA_SERVER_TAKEOVER", setting)
                .start();
            for (seed, &length) in (1..).zip(lengths) {
                let key = key(length);
                server.dir.place(&key, pattern(seed, length));
                let file = File::options().write(true).open(server.dir.file(&key));
                let times = FileTimes::new().set_modified(changed());
                file.and_then(|file| file.set_times(times)).expect("a time");
            }
            server
        };
        Self {
            on: start("on"),
            off: start("off"),
            options: options.iter().map(|&option| option.to_owned()).collect(),
        }
    }

    /// The answers of both, which must be the same.
    #[track_caller]
    fn same(&self, mut exchange: Exchange) -> Vec<Answer> {
        exchange.name = format!("{:?} {}", self.options, exchange.name);
        let (on, off) = (exchange.with(&self.on), exchange.with(&self.off));
        assert_same(&exchange, &on, &off);
        on
    }

    /// Checks that both store, log and count the same, and stops them.
    #[track_caller]
    fn assert_same_traces(mut self) {
        let (on, off) = (self.on.dir.values(), self.off.dir.values());
        let found = on.keys().collect::<Vec<_>>();
        assert_eq!(found, off.keys().collect::<Vec<_>>());
        assert!(on == off, "{:?}: the values differ", self.options);
        let counts = |server| counts(&Scrape::of(server));
        assert_eq!(counts(self.on.addr), counts(self.off.addr));
        self.on.stop();
        self.off.stop();
        let (on, off) = (access_log(&self.on), access_log(&self.off));
        for (n, (on, off)) in on.iter().zip(&off).enumerate() {
            assert_eq!(on, off, "{:?}, line {n} of the access log", self.options);
        }
        assert_eq!(on.len(), off.len(), "{:?}: lines logged", self.options);
    }
}

/// How often each method was answered in each class of status.
fn counts(scrape: &Scrape) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for sample in scrape.all("data_server_requests_total", &[]) {
        let [method, status] = ["method", "status"].map(|name: &str| sample.labels[name].clone());
        let count = scrape.count(&sample.name, &[("method", &method), ("status", &status)]);
        counts.insert((method, status), count);
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// The parts of each line of the access log that do not differ from run to run, without the line of the scrape.
fn access_log(server: &TestServer) -> Vec<[String; 4]> {
    let events = server.logged("access").into_iter();
    events
        .map(|event| ["method", "key", "status", "bytes"].map(|name| event.field(name)))
        .filter(|[_, key, ..]| key != "/-/metrics")
        .collect()
}

/// The name of the value of this length: compressible types among them.
fn key(length: usize) -> String {
    let kind = ["txt", "bin", "json"][length % 3];
    format!("v{length}.{kind}")
}

/// Every way to read a value.
fn reads(length: usize) -> Vec<Exchange> {
    let key = key(length);
    let (middle, etag) = (length / 2, etag(length));
    let fields = [
        String::new(),
        "X-Unknown: field".to_owned(),
        "Connection: close".to_owned(),
        "Origin: https://a.example|X-Request-Id: mine".to_owned(),
        "Accept-Encoding: gzip".to_owned(),
        "Want-Repr-Digest: sha-256=1".to_owned(),
        "Range: bytes=0-0".to_owned(),
        "Range: bytes=-1000".to_owned(),
        format!("Range: bytes={middle}-"),
        format!("Range: bytes=1-{middle}"),
        format!("Range: bytes=0-9,{middle}-"),
        "Range: bytes=0-99,200-20000,30000-300000".to_owned(),
        format!("Range: bytes={length}-"),
        "Range: bytes=1-|If-Range: \"other\"".to_owned(),
        format!("Range: bytes=1-|If-Range: {etag}"),
        format!("If-None-Match: {etag}"),
        "If-None-Match: \"other\"".to_owned(),
        format!("If-Match: {etag}"),
        "If-Match: \"other\"".to_owned(),
        "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT".to_owned(),
        "If-Unmodified-Since: Mon, 13 Nov 2023 22:13:20 GMT".to_owned(),
        "Content-Length: 3".to_owned(),
    ];
    let all = fields.iter().flat_map(|fields| {
        let is_sized = fields.starts_with("Content-Length");
        let body = if is_sized { "abc" } else { "" };
        ["GET", "HEAD"].map(|method| {
            let lines = format!("{method} /{key}|{fields}");
            Exchange::new(&lines).then(&lines, body)
        })
    });
    let old = ["", "|Connection: keep-alive", "|Range: bytes=0-99,200-"].map(|fields| {
        let lines = format!("GET /{key} HTTP/1.0{fields}");
        Exchange::new(&lines).then(&lines, "")
    });
    all.chain(old).collect()
}

/// Every way to store a value of `length` bytes, each followed by a GET of it on the same connection.
fn writes(length: usize) -> Vec<Exchange> {
    let value = pattern(length as u64, length);
    let chunks = [chunked(value.chunks(50_000)), b"0\r\n\r\n".to_vec()].concat();
    let sized = format!("Content-Length: {length}");
    let put = |name: &str, target: &str, fields: &str, body: &[u8]| {
        let lines = format!("PUT /{target}|{fields}");
        // A listing would contain the times of all stored values.
        let key = match target.trim_end_matches(" HTTP/1.0") {
            "" => "gone",
            key => key,
        };
        Exchange::new(format!("PUT {name} of {length}"))
            .then(&lines, body)
            .then(&format!("GET /{key}"), "")
    };
    let key = |name: &str| format!("put-{name}-{length}.txt");
    let good = sha256(&value);
    let bad = sha256(b"other");
    let with =
        |name: &str, fields: &str| put(name, &key(name), &format!("{sized}|{fields}"), &value);
    let framed = |name: &str, fields: &str| {
        let fields = format!("Transfer-Encoding: chunked|{fields}");
        put(name, &key(name), &fields, &chunks)
    };
    let trailed = |name: &str, digest: &str| {
        let body = [
            chunked(value.chunks(70_000)),
            format!("0\r\nRepr-Digest: {digest}\r\n\r\n").into_bytes(),
        ];
        let fields = "Transfer-Encoding: chunked|Trailer: Repr-Digest";
        put(name, &key(name), fields, &body.concat())
    };
    let expecting = |name: &str, fields: &str, body: &[u8]| {
        let lines = format!("PUT /{}|Expect: 100-continue|{fields}", key(name));
        Exchange::new(format!("PUT {name} of {length}")).then(&lines, body)
    };
    let unread = |name: &str, target: &str, fields: &str| {
        let lines = format!("PUT /{target}|Expect: 100-continue|{sized}|{fields}");
        Exchange::new(format!("PUT {name} of {length}"))
            .then(&lines, &*value)
            .waiting()
    };
    let both_digests = format!("Content-Digest: {good}|Repr-Digest: {good}");
    let described = "Content-Encoding: gzip|Content-Language: de|Content-Disposition: attachment|\
                     Cache-Control: max-age=1";
    let short = format!("PUT /put-short|Content-Length: {}", length + 1);
    let in_chunks = "PUT /put-short|Transfer-Encoding: chunked";
    let mut all = vec![
        with("sized", ""),
        with("typed", "Content-Type: text/css"),
        with("mistyped", "Content-Type: not a type"),
        with("last", "Connection: close"),
        with("origin", "Origin: https://a.example|X-Request-Id: mine"),
        with("foreign", "Origin: https://b.example"),
        with("digest", &both_digests),
        with("broken-digest", "Content-Digest: sha-256=x"),
        with("described", described),
        with("bad-field", "Content-Language: not a tag"),
        with("framed", "Content-Encoding: aws-chunked"),
        with("unnamed-version", "If-Match: \"other\""),
        with("new", "If-None-Match: *"),
        with("partial", "Content-Range: bytes 0-9/10"),
        framed("chunked", ""),
        framed("chunked-digest", &format!("Repr-Digest: {good}")),
        trailed("trailer", &good),
        put("old", &format!("{} HTTP/1.0", key("old")), &sized, &value),
        put("bad-key", "put-a%2Fb", &sized, &value),
        put("no-key", "", &sized, &value),
        put("own-name", ".data-server", &sized, &value),
        expecting("expect", &sized, &value).waiting(),
        expecting("expect-chunked", "Transfer-Encoding: chunked", &chunks).waiting(),
        expecting("expect-at-once", &sized, &value),
        unread("expect-refused", "put-unread%2F", ""),
        unread("expect-unmet", "put-unread", "If-Match: \"other\""),
        unread(
            "expect-framed",
            "put-unread",
            "Content-Encoding: aws-chunked",
        ),
        Exchange::new(format!("PUT without its last byte of {length}"))
            .then(&short, &*value)
            .breaking_off(),
        Exchange::new(format!("PUT without its last chunk of {length}"))
            .then(in_chunks, chunked([&*value]))
            .breaking_off(),
    ];
    if length > 0 {
        all.push(with("false-digest", &format!("Content-Digest: {bad}")));
        all.push(trailed("false-trailer", &bad));
    }
    all
}

/// Requests that are refused or find no value, on a connection each.
fn others() -> Vec<Exchange> {
    let alone = r#"
        GET /
        HEAD /
        GET /?limit=2
        OPTIONS /v1.bin|Origin: https://a.example|Access-Control-Request-Method: PUT
        OPTIONS *
        GET /gone
        DELETE /gone
        DELETE /v1.bin|If-Match: "other"
        POST /v1.bin
        BREW /v1.bin
        GET /%2e%2e
        GET /a/b
        GET /v1.bin|Content-Length: 1|Content-Length: 1
        GET /v1.bin|Transfer-Encoding: gzip
        GET /v1.bin| folded: line
        GET /v1.bin HTTP/2.0
        GET /-/live
        PUT /put-any
        PUT /put-any HTTP/1.0
        PUT /put-any|Content-Length: 1|Transfer-Encoding: chunked"#;
    let alone = table(alone).map(|[lines]| Exchange::new(lines).then(lines, ""));
    alone.collect()
}

/// Long and short uploads and downloads, one after the other on one connection.
fn mixed(lengths: &[usize]) -> Exchange {
    let mut mixed = Exchange::new("pipelined");
    for &length in lengths {
        let (key, value) = (key(length), pattern(7, length));
        let put = format!("PUT /put-mixed-{length}|Content-Length: {length}");
        let chunks = [chunked(value.chunks(9_000)), b"0\r\n\r\n".to_vec()].concat();
        mixed = mixed
            .then(&format!("GET /{key}"), "")
            .then(&format!("HEAD /{key}"), "")
            .then(&put, value)
            .then(&format!("GET /put-mixed-{length}"), "")
            .then("GET /gone", "")
            .then("PUT /put-mixed|Transfer-Encoding: chunked", chunks)
            .then(&format!("GET /{key}|Range: bytes=-20000"), "")
            .then("DELETE /put-mixed", "");
    }
    mixed.then("GET /gone|Connection: close", "")
}

/// Runs everything against a pair of servers with these options and values of these lengths.
#[track_caller]
fn assert_equal_answers(options: &[&str], lengths: &[usize]) {
    let pair = Pair::start(&[options, &["--threads", "1"]].concat(), lengths);
    for exchange in others() {
        pair.same(exchange);
    }
    let reads = lengths.iter().flat_map(|&length| reads(length));
    let writes = lengths.iter().flat_map(|&length| writes(length));
    for exchange in reads.chain(writes) {
        pair.same(exchange);
    }
    pair.same(mixed(lengths));
    pair.assert_same_traces();
}

#[test]
fn answers_are_equal() {
    http1_only!("no socket is taken over");
    directory_only!("bodies between sockets and files");
    let all = all();
    let (plain, some) = (scaled(&AROUND[..], &all), scaled(&SOME[..], &all));
    let logged = "--access-log --server-timing --cors-origin https://a.example";
    for (options, lengths) in [
        ("", plain),
        ("--cache 0", &SOME),
        ("--compress", &SOME),
        (logged, some),
        ("--discard", &SOME),
        ("--read-only", &SOME),
        ("--compat --max-body 300000", some),
    ] {
        println!("with {options:?}");
        assert_equal_answers(&words(options), lengths);
    }
}

/// Shows that the comparison itself can fail.
#[test]
fn a_difference_in_any_part_of_an_answer_is_found() {
    http1_only!("no socket is taken over");
    directory_only!("bodies between sockets and files");
    let pair = Pair::start(&[], &[0, 1]);
    let exchange = || Exchange::new("GET").then(&format!("GET /{}", key(1)), "");
    let answers = pair.same(exchange());
    assert_eq!(answers[0].status, 200);
    let etag = etag(1);
    let is_right = answers[0].fields.iter().any(|(_, value)| *value == etag);
    assert!(is_right, "{answers:?}");
    let changes: [fn(&mut Vec<Answer>); 6] = [
        |answers| answers[0].status = 206,
        |answers| drop(answers[0].fields.remove(0)),
        |answers| answers[0].fields[0].1.push('x'),
        |answers| answers[0].fields.push(("x".to_owned(), "y".to_owned())),
        |answers| answers[0].body[0] ^= 1,
        |answers| answers.clear(),
    ];
    for change in changes {
        let mut other = answers.clone();
        change(&mut other);
        let exchange = exchange();
        let compared = std::panic::catch_unwind(|| assert_same(&exchange, &answers, &other));
        assert!(compared.is_err(), "not found: {other:?}");
    }
}
