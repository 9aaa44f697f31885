//! The measurements of a connection's requests, one after the other.
//!
//! A request takes two readings of the clock: when the head of its request has arrived, and when the last byte of its
//! response has been handed to the socket. A third is taken only when the first byte of the response goes before the last.
//! All counters belong to the connection's reactor.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::http::exchange::request_log::{Audit, LogEntry, RequestIds};
use crate::metrics::{Method, ReactorCounters};

/// The status that refused heads count as, for 400, 408, 414 and 431.
const REFUSED: u16 = 400;

/// The stage of the current request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    None,
    /// The head of the request has arrived.
    Received,
    /// The response is known.
    Answered,
    /// The response has been handed to hyper whole, and perhaps not yet to the socket.
    Ended,
}

/// The log context of a request. Few requests have one: it is boxed, so that the others cost nothing for it.
#[derive(Debug)]
pub struct LogContext {
    pub ids: RequestIds,
    /// `None` where no log has an entry.
    pub entry: Option<LogEntry>,
    pub timing: Option<Timing>,
}

/// The time until the response, by what it was spent on.
#[derive(Debug, Default)]
pub struct Timing {
    /// Waiting for the client's body.
    pub waited: Duration,
    /// The time at which the store was asked.
    pub asked: Option<Instant>,
}

/// Measures the requests of one connection.
#[derive(Debug)]
pub struct RequestMetrics {
    counters: Arc<ReactorCounters>,
    stage: Cell<Stage>,
    began: Cell<Instant>,
    first: Cell<Option<Instant>>,
    method: Cell<Method>,
    status: Cell<u16>,
    is_watch: Cell<bool>,
    notes: RefCell<Option<Box<LogContext>>>,
}

impl RequestMetrics {
    pub fn new(counters: Arc<ReactorCounters>) -> Self {
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
    pub fn begin(&self, method: &hyper::Method) {
        // A pipelined request may come before the response to the one before it has left.
        self.settle();
        self.stage.set(Stage::Received);
        self.began.set(Instant::now());
        self.first.set(None);
        self.status.set(0);
        self.is_watch.set(false);
        self.method.set(match *method {
            hyper::Method::GET => Method::Get,
            hyper::Method::HEAD => Method::Head,
            hyper::Method::PUT => Method::Put,
            hyper::Method::POST => Method::Post,
            hyper::Method::PATCH => Method::Patch,
            hyper::Method::DELETE => Method::Delete,
            hyper::Method::OPTIONS => Method::Options,
            _ => Method::Other,
        });
    }

    /// Keeps the log context of the current request.
    pub fn note(&self, notes: LogContext) {
        *self.notes.borrow_mut() = Some(Box::new(notes));
    }

    /// Gives the log context of the current request to `use_it`, if it has one.
    pub fn with_notes<T>(&self, use_it: impl FnOnce(&mut LogContext) -> T) -> Option<T> {
        self.notes.borrow_mut().as_deref_mut().map(use_it)
    }

    /// Gives the current request's entry of the logs to `change`, if it has one.
    pub fn with_entry(&self, change: impl FnOnce(&mut LogEntry)) {
        if let Some(notes) = &mut *self.notes.borrow_mut()
            && let Some(entry) = &mut notes.entry
        {
            change(entry);
        }
    }

    /// Gives the current request's part of the audit log to `change`, if it has one.
    pub fn with_audit(&self, change: impl FnOnce(&mut Audit)) {
        self.with_entry(|entry| {
            if let Some(audit) = &mut entry.audit {
                change(audit);
            }
        });
    }

    /// The time since the head of the current request.
    pub fn elapsed(&self) -> Duration {
        self.began.get().elapsed()
    }

    /// Begins to wait for the client's body; the time is returned where Server-Timing needs it.
    pub fn start_waiting(&self) -> Option<Instant> {
        self.with_notes(|notes| notes.timing.is_some().then(Instant::now))?
    }

    /// Ends to wait for the client's body.
    pub fn stop_waiting(&self, since: Option<Instant>) {
        let Some(since) = since else { return };
        self.with_notes(|notes| {
            if let Some(timing) = &mut notes.timing {
                timing.waited += since.elapsed();
            }
        });
    }

    /// Keeps the request out of the latencies: it lasts as long as both sides stay.
    pub fn watches(&self) {
        self.is_watch.set(true);
    }

    /// The response is known, and has this status.
    pub fn answered(&self, status: u16) {
        self.stage.set(Stage::Answered);
        self.status.set(status);
    }

    /// Counts `bytes` of the response's body that were handed to hyper.
    pub fn handed(&self, bytes: usize) {
        self.with_entry(|entry| entry.bytes += bytes as u64);
    }

    /// The response has been handed to hyper whole, or given up.
    pub fn ended(&self) {
        let answered = self.stage.replace(Stage::Ended) == Stage::Answered;
        if !answered {
            self.settle();
        }
    }

    /// A head was refused that no request began with: it was no HTTP, or too large, or came too late.
    pub fn refused(&self) {
        self.counters.answered(Method::Other, REFUSED);
    }

    /// The socket took `bytes`; `more` of what hyper has wait for it.
    pub fn sent(&self, bytes: usize, more: bool) {
        self.counters.sent_bytes.add(bytes as u64);
        let is_last = self.stage.get() == Stage::Ended && !more;
        let is_interim = self.stage.get() == Stage::Received;
        // All of a response in one go needs no reading of its own: the end is taken at once.
        if self.first.get().is_none() && !is_last && !is_interim {
            self.first.set(Some(Instant::now()));
        }
    }

    /// The socket gave `bytes`.
    pub fn received(&self, bytes: usize) {
        self.counters.received_bytes.add(bytes as u64);
    }

    /// Everything that hyper had has been handed to the socket.
    pub fn flushed(&self) {
        if self.stage.get() == Stage::Ended {
            self.settle();
        }
    }

    /// True while the response to a GET or HEAD is being made: it changes nothing.
    pub fn is_reading(&self) -> bool {
        let only_reads = matches!(self.method.get(), Method::Get | Method::Head);
        only_reads && self.stage.get() == Stage::Received
    }

    /// Counts the request that has ended, if there is one.
    fn settle(&self) {
        if self.stage.replace(Stage::None) == Stage::None {
            return;
        }
        let (began, now, status) = (self.began.get(), Instant::now(), self.status.get());
        let duration = now.duration_since(began);
        self.counters.answered(self.method.get(), status);
        if !self.is_watch.get() {
            self.counters.latency.request.observe_duration(duration);
        }
        if status != 0 {
            let first = self.first.get().unwrap_or(now);
            let delay = first.duration_since(began);
            self.counters.latency.first_byte.observe_duration(delay);
        }
        if let Some(notes) = self.notes.take() {
            let LogContext { ids, entry, .. } = *notes;
            if let Some(entry) = entry {
                entry.write(status, duration, &ids);
            }
        }
    }

    pub fn shared_counters(&self) -> &Arc<ReactorCounters> {
        &self.counters
    }

    pub fn counters(&self) -> &ReactorCounters {
        &self.counters
    }
}

impl Drop for RequestMetrics {
    /// The connection is gone before its last response was.
    fn drop(&mut self) {
        self.settle();
    }
}
