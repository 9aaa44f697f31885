//! Recorded requests and their answers, without the parts that differ from run to run.

use crate::support::prelude::*;

/// Requests of one connection, in order.
pub(super) struct Exchange {
    pub(super) name: String,
    requests: Vec<Request>,
    /// Whether the client closes its side after the last byte, in the middle of a request.
    breaks_off: bool,
}

struct Request {
    /// The request line and the fields, each with its line end.
    head: String,
    body: Vec<u8>,
    /// Whether the client waits for `100 Continue` before it sends the body.
    waits: bool,
}

/// The answer to one request, with sorted fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Exchange {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            requests: Vec::new(),
            breaks_off: false,
        }
    }

    /// One more request; `lines` are the request line without its version, and the fields, divided by `|`.
    pub(super) fn then(mut self, lines: &str, body: impl Into<Vec<u8>>) -> Self {
        let (first, fields) = lines.split_once('|').unwrap_or((lines, ""));
        let has_version = first.contains(" HTTP/");
        let version = if has_version { "" } else { " HTTP/1.1" };
        let fields = fields.split('|').filter(|line| !line.is_empty());
        let fields: String = fields.flat_map(|line| [line, "\r\n"]).collect();
        self.requests.push(Request {
            head: format!("{first}{version}\r\nHost: t\r\n{fields}\r\n"),
            body: body.into(),
            waits: false,
        });
        self
    }

    /// The body of the last request is sent only once the server asks for it.
    pub(super) fn waiting(mut self) -> Self {
        self.requests.last_mut().expect("a request").waits = true;
        self
    }

    pub(super) fn breaking_off(mut self) -> Self {
        self.breaks_off = true;
        self
    }

    /// The answers of `server`, up to the one that ends the connection.
    #[track_caller]
    pub(super) fn with(&self, server: &TestServer) -> Vec<Answer> {
        let mut raw = server.connect();
        if self.requests.iter().any(|request| request.waits) {
            return self.in_turns(&mut raw);
        }
        let mut writer = raw.twin();
        let bytes = self.requests.iter();
        let bytes = bytes.flat_map(|request| [request.head.as_bytes(), &request.body]);
        let bytes = bytes.collect::<Vec<_>>().concat();
        thread::scope(|scope| {
            scope.spawn(move || {
                // A server that refuses need not read all of it.
                let is_sent = writer.offer(bytes).is_ok();
                if self.breaks_off && is_sent {
                    writer.finish();
                }
            });
            self.read(&mut raw)
        })
    }

    fn read(&self, raw: &mut Raw) -> Vec<Answer> {
        let mut answers = Vec::new();
        for request in &self.requests {
            let Some(mut response) = raw.try_head() else {
                break;
            };
            // A server need not send 100 Continue for a body that it has.
            while response.status == 100 {
                response = raw.head();
            }
            answers.push(Answer::read(raw, request, &response));
        }
        self.end(raw, &answers);
        answers
    }

    /// Sends the head of each request, and its body once `100 Continue` arrives, which counts as an answer.
    fn in_turns(&self, raw: &mut Raw) -> Vec<Answer> {
        let mut answers = Vec::new();
        for request in &self.requests {
            raw.send(&request.head);
            let mut response = raw.head();
            if response.status == 100 {
                answers.push(Answer::of(request, &response));
                raw.send(&request.body);
                response = raw.head();
            }
            answers.push(Answer::read(raw, request, &response));
            if answers.last().is_some_and(Answer::closes) {
                break;
            }
        }
        self.end(raw, &answers);
        answers
    }

    /// Nothing follows the last answer. The server closes first if it announced that, otherwise after its client.
    fn end(&self, raw: &mut Raw, answers: &[Answer]) {
        let closes = answers.last().is_none_or(Answer::closes);
        if !closes && !self.breaks_off {
            raw.finish();
        }
        raw.assert_closed();
    }
}

impl Answer {
    fn read(raw: &mut Raw, request: &Request, head: &Response) -> Self {
        let mut answer = Self::of(request, head);
        if request.head.starts_with("HEAD ") || matches!(answer.status, 204 | 304) {
            return answer;
        }
        answer.body = match head.header("transfer-encoding") {
            Some(_) => chunks(raw),
            None => raw.take(head.length()),
        };
        let boundary = head.header("content-type");
        let boundary = boundary.and_then(|kind| kind.split_once("boundary="));
        if let Some((_, boundary)) = boundary {
            answer.body = replaced(&answer.body, boundary.as_bytes());
        }
        answer
    }

    fn of(request: &Request, response: &Response) -> Self {
        let fields = response.headers.iter();
        let mut fields: Vec<_> = fields
            .map(|(name, value)| (name.clone(), settled(request, name, value)))
            .collect();
        fields.sort();
        Self {
            status: response.status,
            fields,
            body: Vec::new(),
        }
    }

    fn closes(&self) -> bool {
        let close = ("connection".to_owned(), "close".to_owned());
        self.fields.contains(&close)
    }
}

/// A field's value without the parts that differ between answers: times, ids, and the versions of values that were
/// stored over the wire.
fn settled(request: &Request, name: &str, value: &str) -> String {
    let is_stored = request.head.contains(" /put-");
    let is_given = request.head.contains(value);
    match name {
        "date" => "a date".to_owned(),
        "etag" if is_stored => value.replace(|c: char| c.is_ascii_hexdigit(), ""),
        "last-modified" if is_stored => "a date".to_owned(),
        "server-timing" => value.replace(|c: char| c.is_ascii_digit(), ""),
        "x-request-id" if !is_given => "an id".to_owned(),
        "content-type" => match value.split_once("boundary=") {
            Some((kind, _)) => format!("{kind}boundary="),
            None => value.to_owned(),
        },
        _ => value.to_owned(),
    }
}

/// `body` without this boundary.
fn replaced(body: &[u8], boundary: &[u8]) -> Vec<u8> {
    let mut rest = body;
    let mut kept = Vec::with_capacity(body.len());
    while let Some(at) = memchr::memmem::find(rest, boundary) {
        kept.extend_from_slice(&rest[..at]);
        rest = &rest[at + boundary.len()..];
    }
    kept.extend_from_slice(rest);
    kept
}

/// Panics with the first difference between the answers of two servers to `exchange`.
#[track_caller]
pub(super) fn assert_same(exchange: &Exchange, on: &[Answer], off: &[Answer]) {
    let name = &exchange.name;
    for (n, (on, off)) in on.iter().zip(off).enumerate() {
        assert_eq!(on.status, off.status, "{name}, answer {n}: {on:?} {off:?}");
        assert_eq!(on.fields, off.fields, "{name}, answer {n}");
        let lengths = (on.body.len(), off.body.len());
        let is_right = on.body == off.body;
        assert!(is_right, "{name}, answer {n}: bodies {lengths:?}");
    }
    assert_eq!(on.len(), off.len(), "{name}: answers");
}
