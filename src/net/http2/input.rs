//! The input of an HTTP/2 connection: read for so long as it is this connection's turn, and followed by frames.
//!
//! Frames of a few bytes may cost much more than those bytes, so a client that sends without end has its turn like all
//! others. A connection rests only between two frames, and not in the head of a request: half a frame has the time of a
//! head.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::net::socket_reader::SocketReader;

/// The beginning of a connection (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The most that is read before other connections have their turn, in bytes.
const BURST: usize = 64 << 10;

/// The cost of a frame besides its bytes: the shortest are held in more memory, and take longer, than they are long.
const EACH_FRAME: usize = 100;

/// The length of a frame's head, in bytes (RFC 9113, section 4.1).
const HEAD: usize = 9;

/// The types of frames with a block of fields, and the flag of the last of them.
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The receiving side.
#[derive(Debug)]
pub(super) struct Input {
    reader: RefCell<SocketReader>,
    frames: RefCell<Frames>,
    /// Read since the connection last waited for anything.
    burst: Cell<usize>,
}

impl Input {
    /// Reads by `reader`, where a connection begins.
    pub(super) fn new(reader: SocketReader) -> Self {
        Self {
            reader: RefCell::new(reader),
            frames: RefCell::new(Frames::start()),
            burst: Cell::new(0),
        }
    }

    /// Whether all that was begun has come.
    pub(super) fn is_between_frames(&self) -> bool {
        self.frames.borrow().is_between_frames()
    }

    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.burst.get() >= BURST {
            self.burst.set(0);
            // Registers the wake-up, to come after the driver has been polled.
            return pin!(tokio::task::yield_now()).poll(cx).map(Ok);
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut *self.reader.borrow_mut()).poll_read(cx, buf);
        if polled.is_pending() {
            self.burst.set(0);
        }
        ready!(polled)?;
        let read = &buf.filled()[before..];
        let frames = self.frames.borrow_mut().feed(read);
        let cost = read.len() + frames * EACH_FRAME;
        self.burst.set(self.burst.get() + cost);
        Poll::Ready(Ok(()))
    }
}

/// Where in its frames a client is.
#[derive(Debug)]
struct Frames {
    /// How much is to come of the preface, or of the payload of a frame.
    rest: usize,
    head: [u8; HEAD],
    /// How much has come of it.
    head_len: usize,
    /// The preface or a block of fields goes on with the next frame.
    goes_on: bool,
}

impl Frames {
    /// Before the preface, of which SETTINGS are the end.
    fn start() -> Self {
        Self {
            rest: PREFACE.len(),
            head: [0; HEAD],
            head_len: 0,
            goes_on: true,
        }
    }

    fn is_between_frames(&self) -> bool {
        self.rest == 0 && self.head_len == 0 && !self.goes_on
    }

    /// Goes on by `bytes`; how many frames begin in them.
    fn feed(&mut self, mut bytes: &[u8]) -> usize {
        let mut frames = 0;
        while !bytes.is_empty() {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = &bytes[skipped..];
            let len = bytes.len().min(HEAD - self.head_len);
            self.head[self.head_len..][..len].copy_from_slice(&bytes[..len]);
            self.head_len += len;
            bytes = &bytes[len..];
            if self.head_len == HEAD {
                self.begin_frame();
                frames += 1;
            }
        }
        frames
    }

    fn begin_frame(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        self.rest = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.head_len = 0;
        let has_fields = matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION);
        self.goes_on = has_fields && flags & END_HEADERS == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, len: u8) -> Vec<u8> {
        [
            &[0, 0, len, kind, flags, 0, 0, 0, 1][..],
            &vec![0; len.into()],
        ]
        .concat()
    }

    /// The place is the same, whatever pieces the bytes come in.
    #[test]
    fn a_connection_is_between_frames_where_all_that_was_begun_has_come() {
        const SETTINGS: u8 = 4;
        let parts = [
            (PREFACE.to_vec(), false),
            (frame(SETTINGS, 0, 6), true),
            (frame(0, 0, 0), true),
            (frame(HEADERS, 0, 100), false),
            (frame(CONTINUATION, 0, 1), false),
            (frame(CONTINUATION, END_HEADERS, 0), true),
            (frame(HEADERS, END_HEADERS, 255), true),
        ];
        let all: Vec<u8> = parts.iter().flat_map(|(part, _)| part.clone()).collect();
        let mut ends = vec![false; all.len() + 1];
        let mut at = 0;
        for (part, is_end) in &parts {
            at += part.len();
            ends[at] = *is_end;
        }
        for step in [1, 2, 3, 7, 8, 9, 10, 100, all.len()] {
            let mut client = Frames::start();
            let (mut at, mut frames) = (0, 0);
            for piece in all.chunks(step) {
                frames += client.feed(piece);
                at += piece.len();
                assert_eq!(client.is_between_frames(), ends[at], "{at} by {step}");
            }
            assert_eq!(frames, parts.len() - 1, "by {step}");
        }
    }
}
