//! The bytes of bodies that move on one connection or stream, and who waits for whom.
//!
//! Owns cells: the side of the socket or of a body that waits writes them, and the time limits read them. It decides no
//! time limit.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// The progress of one connection or stream.
#[derive(Debug, Default)]
pub struct TransferProgress {
    /// Bytes of bodies so far, both ways.
    pub moved: Cell<u64>,
    /// Bytes of the body of this request so far.
    pub received: Cell<u64>,
    /// Bytes are wanted that the peer has not sent.
    pub reading: Cell<bool>,
    /// Bytes wait for the peer to take them.
    pub writing: Cell<bool>,
    /// The bytes that wait are to be tried once more.
    pub nudged: Cell<bool>,
    /// The rest of the body of the request is not waited for.
    pub given_up: Cell<bool>,
}

impl TransferProgress {
    /// Counts bytes of a body, received or sent.
    pub fn count(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes as u64);
    }

    /// Has bytes that wait for the peer tried once more; true where there are some.
    pub fn nudge(&self) -> bool {
        self.nudged.set(self.writing.get());
        self.writing.get()
    }

    /// Begins the body of the next request, of which no byte is wanted yet.
    pub fn begin(&self) {
        self.received.set(0);
        self.reading.set(false);
    }

    /// Counts bytes of the body of a request.
    pub fn count_received(&self, bytes: usize) {
        self.count(bytes);
        self.received.set(self.received.get() + bytes as u64);
    }
}

/// The wake-up of a body that is made as fast as the peer takes it: its last piece has gone to the socket.
#[derive(Debug, Default)]
pub struct Flush {
    holds_piece: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Flush {
    /// Records that hyper was given a piece of such a body.
    pub fn hold_piece(&self) {
        self.holds_piece.set(true);
    }

    /// Waits until hyper has no piece any more. After a flush hyper does not always ask for more: it relies on being
    /// woken.
    pub fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.holds_piece.get() {
            return Poll::Ready(());
        }
        *self.waiting.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    pub fn flushed(&self) {
        if self.holds_piece.take()
            && let Some(waker) = self.waiting.take()
        {
            waker.wake();
        }
    }
}
