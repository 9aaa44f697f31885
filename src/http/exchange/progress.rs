//! The progress of a connection or a stream: the bytes that have moved, and whether one of its sides waits for the peer.
//!
//! Both sides write it, and the time limits read it. Judges nothing.

use std::cell::Cell;

/// The progress of one connection or stream.
#[derive(Debug, Default)]
pub struct Progress {
    moved: Cell<u64>,
    received: Cell<u64>,
    reading: Cell<bool>,
    given_up: Cell<bool>,
    writing: Cell<bool>,
}

impl Progress {
    /// Body bytes moved so far, both ways.
    pub fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// Counts body bytes that were received or sent.
    pub fn count(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes as u64);
    }

    /// Counts bytes of the body of a request.
    pub fn receive(&self, bytes: usize) {
        self.count(bytes);
        self.received.set(self.received.get() + bytes as u64);
    }

    /// Bytes of the body of this request so far. The next one begins anew.
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// A request begins.
    pub fn begin(&self) {
        self.received.set(0);
    }

    /// Bytes are wanted of the socket, and it has none at the moment; or no longer so.
    pub fn set_reading(&self, waits: bool) {
        self.reading.set(waits);
    }

    /// Whether bytes are wanted that the peer has not sent.
    pub fn is_reading(&self) -> bool {
        self.reading.get()
    }

    /// Stops waiting for the rest of the body.
    pub fn give_up(&self) {
        self.given_up.set(true);
    }

    /// Whether the rest of the body is not waited for.
    pub fn is_given_up(&self) -> bool {
        self.given_up.get()
    }

    /// Bytes wait to be sent, and the socket takes none at the moment; or no longer so.
    pub fn set_writing(&self, waits: bool) {
        self.writing.set(waits);
    }

    /// Whether bytes wait for the peer to take them.
    pub fn is_writing(&self) -> bool {
        self.writing.get()
    }
}
