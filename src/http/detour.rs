//! The way of a large body past hyper: to hyper its request has no body, and the service takes the bytes from the socket.
//!
//! While that goes on, whatever the socket receives is the body's, and hyper must not read. Promises that it reads again
//! as soon as all of the body has been taken. All of it stays on one reactor: plain cells.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

use crate::store::Inflow;

/// The detour of one connection, on which one body at a time is.
#[derive(Debug, Default)]
pub struct Detour {
    body: RefCell<Option<(u64, Box<dyn Inflow>)>>,
    is_on: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

impl Detour {
    /// The body of this request of the connection, counted from 1, takes it.
    pub fn begin(&self, request: u64, body: Box<dyn Inflow>) {
        *self.body.borrow_mut() = Some((request, body));
        self.is_on.set(true);
    }

    /// Whether a body is on it.
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Ready when the socket's bytes are hyper's.
    pub fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_on.get() {
            *self.reader.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// The body of this request, if it is here.
    pub(super) fn take(&self, request: u64) -> Option<Box<dyn Inflow>> {
        let its = |(of, _): &mut (u64, _)| *of == request;
        self.body.borrow_mut().take_if(its).map(|(_, body)| body)
    }

    /// All of the body has been taken.
    pub(super) fn end(&self) {
        self.is_on.set(false);
        // Woken although the connection's task is the one that runs: hyper would wait for the socket otherwise.
        let reader = self.reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}
