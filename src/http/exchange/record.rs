//! The record of a request: from its head to the last byte of its response, or to the panic that ended it.
//!
//! An exchange has one [`RequestRecord`], which its requests fill one after the other. The metrics, the access log and
//! the audit log read the record when the response has left. A request takes two readings of the clock: when its head
//! has arrived, and when the last byte of its response has been handed to the socket. A third is taken only when the
//! first byte of the response goes before the last.
//!
//! A [`RequestGuard`](super::RequestGuard) lives in the service first, and in the body of the response then, so that
//! the end of the request is known however it ends: sent, given up, or cut off.
//!
//! A panic is caught where the request can still be answered. Its remains are dropped and never read again, so no
//! request sees a half-done change: state that requests share (the store's cache and publisher, counters) is changed in
//! steps that a panic does not divide. The panic hook of `log` has logged the cause.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use hyper::header::HeaderMap;

use crate::http::audit::AuditEvent;
use crate::http::exchange::connection::Connection;
use crate::http::exchange::request_log::{LogEntry, SERVER_TIMING, Timing};
use crate::http::head::client::Peer;
use crate::http::head::names::REQUEST_ID;
use crate::http::head::syntax::put;
use crate::metrics::Method;

/// The stage of the current request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    None,
    /// The head of the request has arrived.
    Received,
    /// What it does may end with its client, though it changes something.
    Abandonable,
    /// The response is known.
    Answered,
    /// The response has been handed to hyper whole, and perhaps not yet to the socket.
    Ended,
}

/// The record of the current request of an exchange.
#[derive(Debug)]
pub struct RequestRecord {
    /// The connection, in whose counters the requests count.
    pub connection: Rc<Connection>,
    stage: Cell<Stage>,
    began: Cell<Instant>,
    first: Cell<Option<Instant>>,
    method: Cell<Method>,
    status: Cell<u16>,
    is_watch: Cell<bool>,
    /// Few requests have an entry in a log. It is boxed, so that the others cost nothing for it.
    entry: RefCell<Option<Box<LogEntry>>>,
    /// The peer that was logged last, as text: behind a proxy the requests of a connection may be of several.
    logged: RefCell<Option<(Peer, String)>>,
}

impl RequestRecord {
    pub fn new(connection: &Rc<Connection>) -> Self {
        Self {
            connection: Rc::clone(connection),
            stage: Cell::new(Stage::None),
            began: Cell::new(Instant::now()),
            first: Cell::new(None),
            method: Cell::new(Method::Other),
            status: Cell::new(0),
            is_watch: Cell::new(false),
            entry: RefCell::default(),
            logged: RefCell::default(),
        }
    }

    /// The head of a request has arrived.
    pub fn begin(&self, method: &hyper::Method) {
        // A pipelined request may come before the response to the one before it has left.
        self.finish();
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
            _ => match method.as_str() {
                "MOVE" => Method::Move,
                "COPY" => Method::Copy,
                "MKCOL" => Method::Mkcol,
                _ => Method::Other,
            },
        });
    }

    /// Sets the entry of the request in the logs.
    pub fn set_entry(&self, entry: LogEntry) {
        *self.entry.borrow_mut() = Some(Box::new(entry));
    }

    /// Gives the request's entry in the logs to `use_it`, if there is one.
    pub fn with_entry<T>(&self, use_it: impl FnOnce(&mut LogEntry) -> T) -> Option<T> {
        self.entry.borrow_mut().as_deref_mut().map(use_it)
    }

    fn with_timing(&self, change: impl FnOnce(&mut Timing)) {
        self.with_entry(|entry| entry.timing.as_mut().map(change));
    }

    /// The request's id, for the log. A request without an entry gets the one that `make` returns.
    pub fn request_id(&self, make: impl FnOnce() -> LogEntry) -> String {
        let mut entry = self.entry.borrow_mut();
        let entry = entry.get_or_insert_with(|| Box::new(make()));
        entry.request_id().to_owned()
    }

    /// A change of the store begins, whose result the audit log has even if it never becomes known.
    pub fn begin_change(&self) {
        self.with_entry(|entry| entry.audit.as_mut().map(|audit| audit.is_open = true));
    }

    /// The result of the change is known.
    pub fn end_change(&self) {
        self.with_entry(|entry| entry.audit.as_mut().map(|audit| audit.is_open = false));
    }

    /// Adds an event for the audit log.
    pub fn audit(&self, event: AuditEvent) {
        self.with_entry(|entry| entry.audit.as_mut().map(|audit| audit.events.push(event)));
    }

    /// Writes an event to the audit log while the request goes on, so that the events of a long one take no memory.
    pub fn audit_now(&self, event: AuditEvent) {
        self.with_entry(|entry| entry.audit_now(event));
    }

    /// The store is asked from now on.
    pub fn begin_store(&self) {
        self.with_timing(|timing| timing.asked = Some(Instant::now()));
    }

    /// Begins to wait for the client's body; the time is returned where Server-Timing needs it.
    pub fn start_waiting(&self) -> Option<Instant> {
        self.with_entry(|entry| entry.timing.is_some().then(Instant::now))?
    }

    /// Ends to wait for the client's body.
    pub fn stop_waiting(&self, since: Option<Instant>) {
        if let Some(since) = since {
            self.with_timing(|timing| timing.waited += since.elapsed());
        }
    }

    /// Keeps the request out of the latencies: it lasts as long as both sides stay.
    pub fn begin_watching(&self) {
        self.is_watch.set(true);
    }

    /// The response is known, and has this status. Adds the `headers` that the entry in the logs asks for.
    pub fn answered(&self, status: u16, headers: &mut HeaderMap) {
        self.stage.set(Stage::Answered);
        self.status.set(status);
        self.with_entry(|entry| {
            headers.insert(REQUEST_ID, entry.ids.request.clone());
            if let Some(timing) = &entry.timing {
                put(
                    headers,
                    SERVER_TIMING,
                    timing.field(self.began.get().elapsed()),
                );
            }
        });
    }

    /// The response has been handed to hyper whole, or given up. The body of the request had `received` bytes.
    pub fn ended(&self, received: u64) {
        self.with_entry(|entry| entry.received = received);
        let is_answered = self.stage.replace(Stage::Ended) == Stage::Answered;
        if !is_answered {
            self.finish();
        }
    }

    /// The socket took `bytes`; `more` of what hyper has wait for it.
    pub fn sent(&self, bytes: usize, more: bool) {
        self.connection.counters.sent_bytes.add(bytes as u64);
        let is_last = self.stage.get() == Stage::Ended && !more;
        let is_interim = self.stage.get() == Stage::Received;
        // All of a response in one go needs no reading of its own: the end is taken at once.
        if self.first.get().is_none() && !is_last && !is_interim {
            self.first.set(Some(Instant::now()));
        }
    }

    /// Everything that hyper had has been handed to the socket.
    pub fn flushed(&self) {
        if self.stage.get() == Stage::Ended {
            self.finish();
        }
    }

    /// Has the request end with its client: what it has changed by then is changed.
    pub fn end_with_client(&self) {
        self.stage.set(Stage::Abandonable);
    }

    /// True while the response to a GET or HEAD is being made, which changes nothing, or to what may end with its
    /// client all the same.
    pub fn is_abandonable(&self) -> bool {
        let only_reads = matches!(self.method.get(), Method::Get | Method::Head);
        match self.stage.get() {
            Stage::Received => only_reads,
            stage => stage == Stage::Abandonable,
        }
    }

    /// When the current request, or the last one, began.
    pub fn began(&self) -> Instant {
        self.began.get()
    }

    /// Counts and logs the request that has ended, if there is one.
    fn finish(&self) {
        if self.stage.replace(Stage::None) == Stage::None {
            return;
        }
        let (began, now, status) = (self.began.get(), Instant::now(), self.status.get());
        let duration = now.duration_since(began);
        let counters = &self.connection.counters;
        counters.answered(self.method.get(), status);
        if !self.is_watch.get() {
            counters.duration.observe_duration(duration);
        }
        if status != 0 {
            let first = self.first.get();
            let delay = first.map_or(duration, |first| first.duration_since(began));
            counters.first_byte.observe_duration(delay);
        }
        if let Some(entry) = self.entry.take() {
            let peer = entry.client.peer;
            let logged = self.logged.take().filter(|(of, _)| *of == peer);
            let logged = logged.unwrap_or_else(|| (peer, peer.to_string()));
            entry.write(&logged.1, status, duration);
            self.logged.replace(Some(logged));
        }
    }
}

impl Drop for RequestRecord {
    /// The connection is gone before its last response was.
    fn drop(&mut self) {
        self.finish();
    }
}

/// The work panicked.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

/// The result of `work`, unless it panics.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

/// The output of `work`, unless it panics. `work` is pinned by the caller: moved in here, it would take its memory
/// twice.
pub async fn catch_panic_in<F: Future>(mut work: Pin<&mut F>) -> Result<F::Output, Panicked> {
    poll_fn(|cx| match catch_panic(|| work.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use crate::http::exchange::record::*;
    use std::pin::pin;

    #[tokio::test]
    async fn a_panic_is_caught_at_once_and_after_waiting() {
        assert!(matches!(catch_panic(|| 1), Ok(1)));
        assert!(catch_panic(|| panic!("by order")).is_err());
        let waits = |panics: bool| async move {
            tokio::task::yield_now().await;
            assert!(!panics, "by order");
            2
        };
        assert!(matches!(catch_panic_in(pin!(waits(false))).await, Ok(2)));
        assert!(catch_panic_in(pin!(waits(true))).await.is_err());
    }
}
