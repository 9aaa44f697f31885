//! The regions of files that an answer is made of, on their way from the body to the socket.
//!
//! hyper holds a piece of body for each, which stands for it. They are sent in the order of those pieces.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::store::Descriptor;

/// Bytes of a file that the socket sends itself, in place of a piece of the body that hyper holds.
#[derive(Debug)]
pub struct Region {
    /// The file.
    pub file: Descriptor,
    /// Where the region begins.
    pub offset: u64,
    /// Its length, in bytes; never 0.
    pub len: usize,
    /// It is one of a long body, so full packets are worth waiting for.
    pub is_long: bool,
    /// Nothing of its body follows.
    pub is_last: bool,
}

/// The regions of one connection that have not been sent.
#[derive(Debug, Default)]
pub struct Regions {
    queue: RefCell<VecDeque<Region>>,
    ended: Cell<bool>,
}

impl Regions {
    /// The next piece of body that hyper holds stands for `region`.
    pub(super) fn push(&self, region: Region) {
        self.queue.borrow_mut().push_back(region);
    }

    /// Whether none waits to be sent: for the peer to take bytes, or for its turn among others.
    pub fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// Whether the last region of a body has been sent since the last call.
    pub fn take_end(&self) -> bool {
        self.ended.take()
    }

    /// Whether the region at the front is one of a long body.
    pub fn is_long(&self) -> bool {
        self.queue.borrow().front().is_some_and(|r| r.is_long)
    }

    /// Sends from the region at the front: `send` answers how many bytes it sent, and a region sent whole is gone.
    pub fn with_first<E>(
        &self,
        send: impl FnOnce(&Region) -> Result<usize, E>,
    ) -> Option<Result<usize, E>> {
        let mut queue = self.queue.borrow_mut();
        let region = queue.front_mut()?;
        let result = send(region);
        if let Ok(n) = result {
            region.offset += n as u64;
            region.len -= n;
            if region.len == 0 {
                self.ended.set(region.is_last);
                queue.pop_front();
            }
        }
        Some(result)
    }
}
