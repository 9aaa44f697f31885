//! What the streams of one connection have under way together: how many there are, and how much of their responses the
//! socket has not been given.
//!
//! A stream reads on in its value only while less than [`MOST_BYTES`] wait, so a client that takes nothing costs so much
//! memory, and not that of all its streams.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// So many bytes of a connection's responses wait for its socket; one piece of each stream may pass it.
const MOST_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    streams: Cell<usize>,
    bytes: Cell<usize>,
    /// The connection, which hears of each stream that ends.
    connection: RefCell<Option<Waker>>,
    /// Streams that wait for room.
    waiting: RefCell<Vec<Waker>>,
}

impl Outstanding {
    /// Counts a stream, as long as the guard lives.
    pub(super) fn begin(self: &Rc<Self>) -> UnderWay {
        self.streams.set(self.streams.get() + 1);
        UnderWay(Rc::clone(self))
    }

    /// Streams under way.
    pub(super) fn streams(&self) -> usize {
        self.streams.get()
    }

    /// The same, and has `cx` woken when one of them ends.
    pub(super) fn watch(&self, cx: &Context<'_>) -> usize {
        let mut connection = self.connection.borrow_mut();
        if !connection.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *connection = Some(cx.waker().clone());
        }
        self.streams()
    }

    /// Ready when no stream is under way.
    pub(super) fn poll_ended(&self, cx: &Context<'_>) -> Poll<()> {
        match self.watch(cx) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Waits until a stream may read on.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.bytes.get() < MOST_BYTES {
            return Poll::Ready(());
        }
        self.waiting.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// A stream has handed over so many bytes.
    pub(super) fn queued(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// So many bytes of those, and of the frames around them, have left.
    pub(super) fn left(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
        if self.bytes.get() < MOST_BYTES {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// All of those have left.
    pub(super) fn all_left(&self) {
        self.left(usize::MAX);
    }
}

/// A stream that is under way.
#[derive(Debug)]
pub(super) struct UnderWay(Rc<Outstanding>);

impl UnderWay {
    pub(super) fn outstanding(&self) -> &Outstanding {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
        if let Some(connection) = &*self.0.connection.borrow() {
            connection.wake_by_ref();
        }
    }
}
