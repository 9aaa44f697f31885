//! A client that keeps one connection alive over many requests, of a server that may die in the middle of anything: it
//! hears an answer, or knows how far that came.

use std::net::SocketAddr;

use super::{Raw, Response};

/// One connection at a time, made when needed: at first, and after the server has closed.
pub struct Client {
    addr: SocketAddr,
    connection: Option<Raw>,
}

/// What became of a request.
#[derive(Debug)]
pub enum Heard {
    Answer(Response),
    /// It was sent, or some of it, and the connection ended before the first byte of an answer.
    Nothing,
    /// An answer began and broke off. A head that was whole is given with what there was of its body.
    Part(Option<Response>),
    /// No connection could be had: nothing was asked.
    Unasked,
}

impl Client {
    pub fn new(addr: SocketAddr) -> Self {
        let connection = None;
        Self { addr, connection }
    }

    #[track_caller]
    pub fn ask(&mut self, method: &str, path: &str) -> Response {
        self.answer(method, path, &[])
    }

    #[track_caller]
    pub fn put(&mut self, path: &str, value: impl AsRef<[u8]>) -> Response {
        self.answer("PUT", path, value.as_ref())
    }

    #[track_caller]
    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> Response {
        match self.hear(method, path, "", body) {
            Heard::Answer(answer) => answer,
            other => panic!("{method} /{path}: {other:?}"),
        }
    }

    /// Asks with these header lines, each ending in CRLF.
    pub fn hear(&mut self, method: &str, path: &str, lines: &str, body: &[u8]) -> Heard {
        self.exchange(&request(method, path, lines, body))
    }

    /// Sends these bytes, which are one request, and reads one answer.
    pub fn exchange(&mut self, request: &[u8]) -> Heard {
        let connection = self.connection.take();
        let Some(mut raw) = connection.or_else(|| Raw::try_connect(self.addr).ok()) else {
            return Heard::Unasked;
        };
        // A refusal may come before all was sent: what the server will not take is no reason not to listen.
        let _ = raw.offer(request);
        let Some(mut answer) = raw.try_head() else {
            if raw.has_unread() {
                return Heard::Part(None);
            }
            return Heard::Nothing;
        };
        let is_bare = request.starts_with(b"HEAD ") || matches!(answer.status, 204 | 304);
        let length = if is_bare { 0 } else { answer.length() };
        let mut body = Vec::with_capacity(length);
        raw.stream_to(length, &mut [0; 16 << 10], |piece| {
            body.extend_from_slice(piece);
        });
        answer.body = body;
        if answer.body.len() < length {
            return Heard::Part(Some(answer));
        }
        if !answer.closes() {
            self.connection = Some(raw);
        }
        Heard::Answer(answer)
    }

    /// Sends a request on a connection of its own and hangs up at once, if there still is a server.
    pub fn cut(&self, method: &str, path: &str, lines: &str, body: &[u8]) {
        if let Ok(mut raw) = Raw::try_connect(self.addr) {
            let _ = raw.offer(request(method, path, lines, body));
        }
    }
}

fn request(method: &str, path: &str, lines: &str, body: &[u8]) -> Vec<u8> {
    let length = (method == "PUT").then(|| format!("Content-Length: {}\r\n", body.len()));
    let length = length.unwrap_or_default();
    let head = format!("{method} /{path} HTTP/1.1\r\nHost: t\r\n{length}{lines}\r\n");
    [head.as_bytes(), body].concat()
}
