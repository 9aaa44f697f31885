//! Frames of an HTTP/2 connection on their way: read for so long as it is this connection's turn, gathered and sent
//! together.
//!
//! Frames of a few bytes may cost much more than those bytes, so a client that sends without end has its turn like all
//! others. A connection rests only between two frames, and not in the head of a request: half a frame has the time of a
//! head. A response is a few small frames, and many responses leave at once: one call of the kernel takes them all. A
//! stream reads on in its value only while less than [`MOST_BYTES`] wait, so a client that takes nothing costs so much
//! memory, and not that of all its streams. Promises that no stream waits for a connection that has ended. Knows no
//! request: the h2 crate reads and makes the frames.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::socket::Socket;
use crate::net::socket_reader::SocketReader;
use crate::net::socket_writer::Follows;

/// The beginning of a connection (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

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

/// The most that is gathered before it is sent, in bytes.
const MOST_GATHERED: usize = 64 << 10;

/// The bytes of a connection's responses that may wait for its socket; one piece of each stream may exceed it.
const MOST_BYTES: usize = 256 << 10;

/// The position of a client in its frames.
#[derive(Debug)]
struct FramePosition {
    /// How much is to come of the preface, or of the payload of a frame.
    rest: usize,
    head: [u8; HEAD],
    /// How much has come of it.
    head_len: usize,
    /// The preface or a block of fields goes on with the next frame.
    goes_on: bool,
}

impl FramePosition {
    /// The position before the preface, which ends with SETTINGS.
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

/// The output of a connection, and what its streams share.
#[derive(Debug)]
pub(super) struct Output {
    /// No frame and no block of fields of the client is incomplete.
    pub(super) is_between_frames: Cell<bool>,
    socket: Rc<Socket>,
    gathered: RefCell<BytesMut>,
    /// Bytes that streams have handed over, and the protocol has not passed on.
    queued: Cell<usize>,
    /// Streams that wait for room.
    waiting: RefCell<Vec<Waker>>,
    is_closed: Cell<bool>,
    /// The place of the connection; the stream that watches has it too, or one of them.
    place: Rc<()>,
}

impl Output {
    /// Sends by `socket`.
    pub(super) fn new(socket: &Rc<Socket>) -> Self {
        Self {
            is_between_frames: Cell::new(false),
            socket: Rc::clone(socket),
            gathered: RefCell::default(),
            queued: Cell::new(0),
            waiting: RefCell::default(),
            is_closed: Cell::new(false),
            place: Rc::default(),
        }
    }

    /// True where a stream may hand over more, or nothing leaves any more.
    pub(super) fn has_room(&self) -> bool {
        self.queued.get() < MOST_BYTES || self.is_closed.get()
    }

    /// Waits until a stream may hand over more; false when nothing leaves any more.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<bool> {
        if self.has_room() {
            return Poll::Ready(!self.is_closed.get());
        }
        self.waiting.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// A stream has handed over this number of bytes.
    pub(super) fn queue(&self, bytes: usize) {
        self.queued.set(self.queued.get() + bytes);
    }

    /// A stream follows changes: there may be nothing to send or receive for hours but what shows that the client is
    /// there. Returns the place that the connection has taken of those that may be open, unless another such stream has
    /// it.
    pub(super) fn watches(&self) -> Option<Rc<()>> {
        self.socket.raw.expect_acknowledgments();
        (Rc::strong_count(&self.place) == 1).then(|| Rc::clone(&self.place))
    }

    /// The connection has ended.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.pass_on(usize::MAX);
    }

    /// The socket took this number of bytes of frames.
    fn pass_on(&self, bytes: usize) {
        self.queued.set(self.queued.get().saturating_sub(bytes));
        if self.has_room() {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Takes `bufs`, and sends them when there is enough.
    fn poll_write(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.gathered.borrow().len() >= MOST_GATHERED {
            ready!(self.poll_send_gathered(cx, Follows::More))?;
        }
        let mut gathered = self.gathered.borrow_mut();
        let before = gathered.len();
        for buf in bufs {
            gathered.extend_from_slice(buf);
        }
        let taken = gathered.len() - before;
        self.pass_on(taken);
        Poll::Ready(Ok(taken))
    }

    fn poll_send_gathered(&self, cx: &mut Context<'_>, follows: Follows) -> Poll<io::Result<()>> {
        let mut gathered = self.gathered.borrow_mut();
        ready!(self.socket.poll_send_whole(cx, &mut *gathered, follows))?;
        // Its memory goes with it: most connections wait most of the time.
        *gathered = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    /// Sends all that was taken.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_gathered(cx, Follows::Nothing))?;
        self.socket.poll_flush(cx)
    }
}

/// Both sides, for the protocol.
#[derive(Debug)]
pub(super) struct FrameIo {
    reader: SocketReader,
    frames: FramePosition,
    /// Read since the connection last waited for anything.
    burst: usize,
    output: Rc<Output>,
}

impl FrameIo {
    /// Reads by `reader`, where a connection begins.
    pub(super) fn new(reader: SocketReader, output: &Rc<Output>) -> Self {
        Self {
            reader,
            frames: FramePosition::start(),
            burst: 0,
            output: Rc::clone(output),
        }
    }
}

impl AsyncRead for FrameIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.burst >= BURST {
            self.burst = 0;
            // Registers the wake-up, to come after the driver has been polled.
            return pin!(tokio::task::yield_now()).poll(cx).map(Ok);
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.reader).poll_read(cx, buf);
        if polled.is_pending() {
            self.burst = 0;
        }
        ready!(polled)?;
        let read = &buf.filled()[before..];
        self.burst += read.len() + self.frames.feed(read) * EACH_FRAME;
        self.output
            .is_between_frames
            .set(self.frames.is_between_frames());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FrameIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.output.poll_write(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.output.poll_write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The protocol has no more frames. They are sent when the connection has looked at all its streams.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.pass_on(usize::MAX);
        Poll::Ready(Ok(()))
    }

    /// Sends what is left; the end of the connection is the connection's.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_flush(cx)
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
            let mut client = FramePosition::start();
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
