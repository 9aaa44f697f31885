//! A client of a server that may die in the middle of anything: it hears an answer, or knows how far it came.

use std::net::SocketAddr;

use crate::support::{Raw, Response};

/// What became of a request.
pub(crate) enum Heard {
    Answer(Response),
    /// It was sent, or some of it, and the connection ended before the first byte of an answer.
    Nothing,
    /// An answer began and broke off. A head that was whole is given with what there was of its body.
    Part(Option<Response>),
    /// No connection could be had: nothing was asked.
    Unasked,
}

/// One connection at a time, made when needed.
pub(crate) struct Session {
    addr: SocketAddr,
    raw: Option<Raw>,
}

impl Session {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        Self { addr, raw: None }
    }

    /// Asks with these header lines, each ending in CRLF.
    pub(crate) fn ask(&mut self, method: &str, key: &str, lines: &str, body: &[u8]) -> Heard {
        let Some(mut raw) = self.raw.take().or_else(|| Raw::try_connect(self.addr).ok()) else {
            return Heard::Unasked;
        };
        // A refusal may come before all was sent: what the server will not take is no reason not to listen.
        let _ = raw.offer(request(method, key, lines, body));
        let Some(mut answer) = raw.try_head() else {
            let heard = if raw.has_unread() {
                Heard::Part(None)
            } else {
                Heard::Nothing
            };
            return heard;
        };
        let length = answer.length();
        let mut got = Vec::with_capacity(length);
        raw.stream_to(length, &mut [0; 16 << 10], |piece| {
            got.extend_from_slice(piece);
        });
        answer.body = got;
        if answer.body.len() < length {
            return Heard::Part(Some(answer));
        }
        if !answer.closes() {
            self.raw = Some(raw);
        }
        Heard::Answer(answer)
    }

    /// Sends a request on a connection of its own and hangs up at once, if there still is a server.
    pub(crate) fn cut(&self, method: &str, key: &str, lines: &str, body: &[u8]) {
        if let Ok(mut raw) = Raw::try_connect(self.addr) {
            let _ = raw.offer(request(method, key, lines, body));
        }
    }
}

fn request(method: &str, key: &str, lines: &str, body: &[u8]) -> Vec<u8> {
    let length = if method == "PUT" {
        format!("Content-Length: {}\r\n", body.len())
    } else {
        String::new()
    };
    let head = format!("{method} /{key} HTTP/1.1\r\nHost: t\r\n{length}{lines}\r\n");
    [head.as_bytes(), body].concat()
}
