//! Frames of HTTP/2, sound or not, and a client that sends and reads them.

use crate::prelude::*;
pub(super) use crate::support::frames::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The identifier of the setting that is the window of each stream.
pub(super) const INITIAL_WINDOW: u16 = 4;

pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const CANCEL: u32 = 8;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// SETTINGS with these identifiers and values.
pub(super) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let pair = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let payload: Vec<u8> = values.iter().flat_map(pair).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// What a connection begins with.
pub(super) fn opening(values: &[(u16, u32)]) -> Vec<u8> {
    [PREFACE, &settings(values)].concat()
}

pub(super) fn window_update(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

pub(super) fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

pub(super) fn ping(data: [u8; 8]) -> Vec<u8> {
    frame(PING, 0, 0, &data)
}

/// A text as HPACK has it without Huffman's code (RFC 7541, section 5.2).
fn text(text: &str) -> Vec<u8> {
    let len = u8::try_from(text.len()).expect("a short text");
    assert!(len < 127, "a short text");
    [&[len], text.as_bytes()].concat()
}

/// A field that no table gets (RFC 7541, section 6.2.2).
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0], &text(name)[..], &text(value)].concat()
}

/// The fields that each request has.
pub(super) fn request_fields(method: &str, path: &str) -> Vec<u8> {
    // `:scheme: http` is number 6 of the static table, and `:method`, `:path`, `:authority` are names in it.
    let named = |name: u8, value: &str| [&[name], &text(value)[..]].concat();
    [named(2, method), vec![0x86], named(4, path), named(1, "t")].concat()
}

/// The head of a request; the whole of it, when it `ends`.
pub(super) fn request(stream: u32, method: &str, path: &str, ends: bool) -> Vec<u8> {
    let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
    frame(HEADERS, flags, stream, &request_fields(method, path))
}

/// The identifier of the `n`th stream that a client begins.
pub(super) fn id(n: u32) -> u32 {
    2 * n + 1
}

/// A client, in the clear.
pub(super) struct Peer(pub(super) Raw);

impl Peer {
    /// A connection that has begun, with these settings of the client.
    pub(super) fn open(addr: SocketAddr, values: &[(u16, u32)]) -> Self {
        let mut peer = Self(Raw::connect_clear(addr));
        peer.send(opening(values));
        peer
    }

    #[track_caller]
    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.send(bytes);
    }

    /// The next frame; `None` at the end of the connection. Panics when it is silent.
    #[track_caller]
    pub(super) fn next(&mut self) -> Option<Frame> {
        let head = self.0.try_take(9)?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: number(5),
            payload: self.0.try_take((number(0) >> 8) as usize)?,
        })
    }

    /// Frames up to one that `is_wanted`, which is returned; `None` when the connection ends before it.
    #[track_caller]
    pub(super) fn until(&mut self, mut is_wanted: impl FnMut(&Frame) -> bool) -> Option<Frame> {
        loop {
            let frame = self.next()?;
            if is_wanted(&frame) {
                return Some(frame);
            }
        }
    }
}
