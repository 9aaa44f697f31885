//! What is measured of a connection's exchanges, one after the other.
//!
//! An exchange takes two readings of the clock: when the head of its request has arrived, and when the last byte of its
//! answer has been handed to the socket. A third is taken only when the first byte of the answer goes before the last.
//! All counters belong to the connection's reactor.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::access_log::Line;
use super::identity::Identity;
use crate::metrics::{Method, ReactorCounters};

/// What heads are refused with that no exchange begins with: one of 400, 408, 414 and 431.
const REFUSED: u16 = 400;

/// Where the current exchange stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    None,
    /// The head of the request has arrived.
    Begun,
    /// The answer is known.
    Answered,
    /// The answer has been handed to hyper whole, and perhaps not yet to the socket.
    Ended,
}

/// What few exchanges have: kept aside, so that the others cost nothing for it.
#[derive(Debug)]
pub(super) struct Notes {
    pub(super) identity: Identity,
    pub(super) line: Option<Line>,
    pub(super) timing: Option<Timing>,
}

impl Notes {
    /// The identity alone.
    pub(super) fn of(identity: Identity) -> Self {
        Self {
            identity,
            line: None,
            timing: None,
        }
    }
}

/// How the time until the answer was spent.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// Waiting for the client's body.
    pub(super) waited: Duration,
    /// When the store was asked.
    pub(super) asked: Option<Instant>,
}

/// Measures the exchanges of one connection.
#[derive(Debug)]
pub(super) struct Meter {
    counters: Arc<ReactorCounters>,
    stage: Cell<Stage>,
    began: Cell<Instant>,
    first: Cell<Option<Instant>>,
    method: Cell<Method>,
    status: Cell<u16>,
    is_watch: Cell<bool>,
    notes: RefCell<Option<Box<Notes>>>,
}

impl Meter {
    pub(super) fn new(counters: Arc<ReactorCounters>) -> Self {
        Self {
            counters,
            stage: Cell::new(Stage::None),
            began: Cell::new(Instant::now()),
            first: Cell::new(None),
            method: Cell::new(Method::Other),
            status: Cell::new(0),
            is_watch: Cell::new(false),
            notes: RefCell::default(),
        }
    }

    /// The head of a request has arrived.
    pub(super) fn begin(&self, method: &hyper::Method) {
        // A pipelined request may come before the answer to the one before it has left.
        self.settle();
        self.stage.set(Stage::Begun);
        self.began.set(Instant::now());
        self.first.set(None);
        self.status.set(0);
        self.is_watch.set(false);
        self.method.set(match *method {
            hyper::Method::GET => Method::Get,
            hyper::Method::HEAD => Method::Head,
            hyper::Method::PUT => Method::Put,
            hyper::Method::DELETE => Method::Delete,
            hyper::Method::OPTIONS => Method::Options,
            _ => Method::Other,
        });
    }

    /// Remembers `notes` of the current exchange.
    pub(super) fn note(&self, notes: Notes) {
        *self.notes.borrow_mut() = Some(Box::new(notes));
    }

    /// Shows the notes of the current exchange, if there are any.
    pub(super) fn with_notes<T>(&self, show: impl FnOnce(&mut Notes) -> T) -> Option<T> {
        self.notes.borrow_mut().as_deref_mut().map(show)
    }

    /// How long the current exchange has been going on.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.get().elapsed()
    }

    /// The client's body is waited for: the time, if it is wanted.
    pub(super) fn waits(&self) -> Option<Instant> {
        self.with_notes(|notes| notes.timing.is_some().then(Instant::now))?
    }

    /// It is no longer waited for.
    pub(super) fn waited(&self, since: Option<Instant>) {
        let Some(since) = since else { return };
        self.with_notes(|notes| {
            if let Some(timing) = &mut notes.timing {
                timing.waited += since.elapsed();
            }
        });
    }

    /// It lasts as long as both sides stay, which says nothing of how fast the server is.
    pub(super) fn watches(&self) {
        self.is_watch.set(true);
    }

    /// The answer is known, and has this status.
    pub(super) fn answered(&self, status: u16) {
        self.stage.set(Stage::Answered);
        self.status.set(status);
    }

    /// So many bytes of the answer's body were handed to hyper.
    pub(super) fn handed(&self, bytes: usize) {
        if let Some(notes) = &mut *self.notes.borrow_mut()
            && let Some(line) = &mut notes.line
        {
            line.bytes += bytes as u64;
        }
    }

    /// The answer has been handed to hyper whole, or given up.
    pub(super) fn ended(&self) {
        let answered = self.stage.replace(Stage::Ended) == Stage::Answered;
        if !answered {
            self.settle();
        }
    }

    /// A head was refused that no exchange began with: it was no HTTP, or too large, or came too late.
    pub(super) fn refused(&self) {
        self.counters.answered(Method::Other, REFUSED);
    }

    /// The socket took `bytes`; `more` of what hyper has wait for it.
    pub(super) fn sent(&self, bytes: usize, more: bool) {
        self.counters.sent.add(bytes as u64);
        let is_last = self.stage.get() == Stage::Ended && !more;
        let is_interim = self.stage.get() == Stage::Begun;
        // All of an answer in one go needs no reading of its own: the end is taken at once.
        if self.first.get().is_none() && !is_last && !is_interim {
            self.first.set(Some(Instant::now()));
        }
    }

    /// The socket gave `bytes`.
    pub(super) fn received(&self, bytes: usize) {
        self.counters.received.add(bytes as u64);
    }

    /// Everything that hyper had has been handed to the socket.
    pub(super) fn flushed(&self) {
        if self.stage.get() == Stage::Ended {
            self.settle();
        }
    }

    /// Whether all of the last answer has been handed to the socket.
    pub(super) fn is_settled(&self) -> bool {
        self.stage.get() == Stage::None
    }

    /// Counts the exchange that has ended, if there is one.
    fn settle(&self) {
        if self.stage.replace(Stage::None) == Stage::None {
            return;
        }
        let (began, now, status) = (self.began.get(), Instant::now(), self.status.get());
        let duration = now.duration_since(began);
        self.counters.answered(self.method.get(), status);
        if !self.is_watch.get() {
            self.counters.duration.observe_duration(duration);
        }
        if status != 0 {
            let first = self.first.get().unwrap_or(now);
            let delay = first.duration_since(began);
            self.counters.first_byte.observe_duration(delay);
        }
        if let Some(notes) = self.notes.take() {
            let Notes { identity, line, .. } = *notes;
            if let Some(line) = line {
                line.write(status, duration, &identity);
            }
        }
    }

    pub(super) fn counters(&self) -> &ReactorCounters {
        &self.counters
    }
}

impl Drop for Meter {
    /// The connection is gone before its last answer was.
    fn drop(&mut self) {
        self.settle();
    }
}
