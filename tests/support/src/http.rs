//! Requests with given headers, answers in any framing, and one value of each size class.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::{DataDir, Launch, Raw, Response, TestServer, by_engine, eventually, pattern};

/// One length for each path of a value to the socket: from memory; from a file that may be kept open; from a file, in
/// one window; from a file, in several.
pub const LENGTHS: [usize; 4] = [5_000, 30_000, 200_000, 1_200_000];

/// The rows of a table that is written as text: one a line, the cells parted by ` ;`, and none behind the last one that
/// says something.
pub fn table<const CELLS: usize>(text: &str) -> impl Iterator<Item = [&str; CELLS]> {
    let rows = text.lines().filter(|row| !row.trim().is_empty());
    rows.map(|row| {
        let mut cells = row.split(" ;").map(str::trim);
        let row = [(); CELLS].map(|()| cells.next().unwrap_or_default());
        assert_eq!(cells.next(), None, "{row:?}");
        row
    })
}

/// Sends a request with these header lines (each ending in CRLF) and reads the whole answer, with its chunks decoded.
#[track_caller]
pub fn ask(raw: &mut Raw, method: &str, target: &str, lines: &str, body: &[u8]) -> Response {
    let may_have_body = matches!(method, "POST" | "LOCK" | "UNLOCK") && !body.is_empty();
    let has_length = matches!(method, "PUT" | "PATCH") || may_have_body;
    let given = lines.to_ascii_lowercase();
    let length = if has_length
        && !given.contains("transfer-encoding")
        && !given.contains("content-length")
    {
        format!("Content-Length: {}\r\n", body.len())
    } else {
        String::new()
    };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: t\r\n{length}{lines}\r\n");
    // A refusal may come before all was sent.
    let _ = raw.offer([head.as_bytes(), body].concat());
    let mut response = raw.head();
    while matches!(response.status, 100..=199) {
        response = raw.head();
    }
    if method == "HEAD" || matches!(response.status, 204 | 304) {
        return response;
    }
    response.body = match response.header("transfer-encoding") {
        Some("chunked") => chunks(raw),
        None => raw.take(response.length()),
        Some(coding) => panic!("{coding} is no coding of transfers"),
    };
    response
}

/// Reads a chunked body.
#[track_caller]
pub fn chunks(raw: &mut Raw) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let chunk = chunk(raw);
        if chunk.is_empty() {
            return body;
        }
        body.extend(chunk);
    }
}

/// Reads one chunk of a body; the last is empty.
#[track_caller]
pub fn chunk(raw: &mut Raw) -> Vec<u8> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(raw.take(1));
    }
    let digits = String::from_utf8_lossy(&line);
    let size = usize::from_str_radix(digits.trim_end(), 16).expect("the size of a chunk");
    let chunk = raw.take(size);
    assert_eq!(raw.take(2), b"\r\n", "the end of a chunk");
    chunk
}

/// The SHA-256 of a value, as the fields of RFC 9530 have it.
pub fn sha256(value: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(value)))
}

/// A server with a value of each size class, with or without a cache.
pub struct Classes {
    pub server: TestServer,
    /// Key and value.
    pub values: Vec<(String, Vec<u8>)>,
}

impl Classes {
    /// Runs `test` with cached values, and with `--cache 0`; once, where the engine has no cache.
    pub fn each(args: &[&str], extension: &str, test: impl Fn(&Self)) {
        let caches: [&[&str]; 2] = [&["--cache", "64MiB"], &["--cache", "0"]];
        for cache in by_engine(&caches[..], &[&[]]) {
            let args = [args, cache].concat();
            let classes = Self::start(Launch::new(&args).on(&DataDir::temporary()), extension);
            if cache.contains(&"64MiB") {
                classes.warm();
            }
            test(&classes);
        }
    }

    fn start(launch: Launch, extension: &str) -> Self {
        let server = launch.start();
        let mut values = Vec::new();
        for (seed, length) in (1..).zip(LENGTHS) {
            let (key, value) = (format!("v{length}{extension}"), pattern(seed, length));
            server.store(&key, &value);
            values.push((key, value));
        }
        Self { server, values }
    }

    /// Reads the values that may be cached until they are.
    fn warm(&self) {
        let mut raw = self.server.connect();
        let may_be_cached = |(_, value): &&(_, Vec<u8>)| value.len() < 64 << 10;
        for (key, value) in self.values.iter().filter(may_be_cached) {
            eventually("a value is kept", || {
                let got = ask(&mut raw, "GET", &format!("/{key}"), "", b"");
                assert!(got.body == *value, "GET /{key}");
                self.server.proc().has_open(&self.server.dir.file(key))
            });
        }
    }
}

impl Response {
    /// The body, which is text.
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a body of text")
    }

    /// Asserts this status, and a body that has this text.
    #[track_caller]
    pub fn says(&self, status: u16, text: &str) {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{body}");
        assert!(body.contains(text), "{text}: {body}");
    }

    /// The body, which is JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    /// A header that must be present.
    #[track_caller]
    pub fn must(&self, name: &str) -> &str {
        let value = self.header(name);
        value.unwrap_or_else(|| panic!("no {name} in {} {:?}", self.status, self.headers))
    }

    /// Every line of a header, joined by commas.
    pub fn all(&self, name: &str) -> String {
        let lines = self.headers.iter().filter(|(n, _)| n == name);
        let lines: Vec<&str> = lines.map(|(_, value)| value.as_str()).collect();
        lines.join(", ")
    }
}
