//! Subscribers to the feed of changes: over Server-Sent Events, read byte by byte, and over a WebSocket.

use serde::Deserialize;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use super::stream::Stream;
use super::{DEADLINE, Raw, Response, TestServer, chunk};

/// One event that a subscriber got.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Told {
    /// `put`, `delete` or `resync`.
    pub op: String,
    #[serde(default)]
    pub key: String,
    pub etag: Option<String>,
    pub size: Option<u64>,
    /// The key that the value moved from.
    pub from: Option<String>,
    /// Why the server has removed it.
    pub reason: Option<String>,
    pub seq: u64,
}

impl Told {
    #[track_caller]
    fn parse(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
    }

    pub fn is_resync(&self) -> bool {
        self.op == "resync"
    }
}

/// A subscriber over either transport.
pub trait Follower: Send {
    /// The next event; `None` when the server ends the stream in order.
    fn next(&mut self) -> Option<Told>;

    /// The events up to and including a change of this key.
    #[track_caller]
    fn until(&mut self, key: &str) -> Vec<Told> {
        let mut told = Vec::new();
        loop {
            told.push(self.next().expect("more to be told"));
            if told[told.len() - 1].key == key {
                return told;
            }
        }
    }
}

/// A subscriber over Server-Sent Events.
pub struct Events {
    raw: Raw,
    text: String,
    pub head: Response,
    /// The Last-Event-ID that an `EventSource` would send.
    pub last_id: u64,
}

impl Events {
    /// Subscribes with this query (or none) and these header lines, each ending in CRLF; returns once subscribed.
    #[track_caller]
    pub fn open(server: &TestServer, query: &str, lines: &str) -> Self {
        Self::over(server.connect(), query, lines)
    }

    #[track_caller]
    pub fn over(mut raw: Raw, query: &str, lines: &str) -> Self {
        raw.begin("GET", &format!("/-/watch{query}"), lines);
        let head = raw.head();
        assert_eq!(head.status, 200, "{head:?}");
        Self {
            raw,
            text: String::new(),
            head,
            last_id: 0,
        }
    }

    /// The next block, without its empty line; `None` at the end of the body.
    #[track_caller]
    pub fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block = self.text.drain(..end + 2).collect::<String>();
                return Some(block.trim_end().to_owned());
            }
            let chunk = chunk(&mut self.raw);
            if chunk.is_empty() {
                assert_eq!(self.text, "", "the last block is whole");
                return None;
            }
            self.text += str::from_utf8(&chunk).expect("UTF-8");
        }
    }

    /// Asserts that the body and the connection have ended.
    #[track_caller]
    pub fn assert_ended(&mut self) {
        assert_eq!(self.next(), None);
        self.raw.assert_closed();
    }
}

impl Follower for Events {
    #[track_caller]
    fn next(&mut self) -> Option<Told> {
        loop {
            let (mut told, mut event) = (None, "message".to_owned());
            for line in self.block()?.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => self.last_id = id.parse().expect("a number"),
                    Some(("event", name)) => name.clone_into(&mut event),
                    Some(("data", json)) => told = Some(Told::parse(json)),
                    _ => assert!(line.starts_with(": "), "{line:?}"),
                }
            }
            if let Some(told) = told {
                assert_eq!(told.seq, self.last_id, "{told:?}");
                assert_eq!(event == "resync", told.is_resync(), "{event} {told:?}");
                return Some(told);
            }
        }
    }
}

/// A subscriber over a WebSocket, which is of HTTP/1.1.
pub struct Socket(pub WebSocket<Stream>);

impl Socket {
    /// Subscribes with this query (or none); returns once subscribed.
    #[track_caller]
    pub fn open(server: &TestServer, query: &str) -> Self {
        Self::open_with(server, query, &[])
    }

    /// With these fields, too.
    #[track_caller]
    pub fn open_with(server: &TestServer, query: &str, fields: &[(&'static str, &str)]) -> Self {
        let stream = crate::raw::tcp(server.addr).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        let address = format!("ws://{}/-/watch{query}", server.addr);
        let mut request = address.into_client_request().expect("a request");
        for (name, value) in fields {
            let value = value.parse().expect("a value");
            request.headers_mut().insert(*name, value);
        }
        let (socket, answer) = client(request, Stream::over_http1(stream)).expect("a handshake");
        assert_eq!(answer.status(), 101);
        Self(socket)
    }

    /// The code and the reason with which the server closes; events before that are ignored.
    #[track_caller]
    pub fn closed(&mut self) -> (u16, String) {
        loop {
            match self.0.read().expect("a close frame") {
                Message::Close(Some(frame)) => {
                    return (frame.code.into(), frame.reason.to_string());
                }
                Message::Text(_) | Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

impl Follower for Socket {
    #[track_caller]
    fn next(&mut self) -> Option<Told> {
        loop {
            match self.0.read().expect("a message") {
                Message::Text(text) => return Some(Told::parse(&text)),
                Message::Ping(_) => {}
                Message::Close(_) => return None,
                other => panic!("{other:?}"),
            }
        }
    }
}
