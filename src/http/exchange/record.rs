//! The record of a request: from its head to the last byte of its response, or to the panic that ended it.
//!
//! A [`RequestRecord`] lives in the service first, and in the body of the response then, so that its end is known however it
//! ends: sent, given up, or cut off. It adds to the response the headers that its log context asks for.
//!
//! A panic is caught where the request can still be answered. Its remains are dropped and never read again, so no request sees a
//! half-done change: state that requests share (the store's cache and publisher, counters) is changed in steps that a panic does
//! not divide. The panic hook of `log` has logged the cause.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;

use crate::http::body::{Chunk, Piece};
use crate::http::client::Peer;
use crate::http::exchange::ConnectionState;
use crate::http::exchange::request_log::{AuditOutcome, REQUEST_ID};
use crate::http::exchange::request_metrics::{LogContext, Timing};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The record of a request under way.
#[derive(Debug)]
pub struct RequestRecord {
    connection: Rc<ConnectionState>,
}

impl RequestRecord {
    pub fn begin(connection: &Rc<ConnectionState>, method: &Method) -> Self {
        connection.begin();
        connection.metrics().begin(method);
        Self {
            connection: Rc::clone(connection),
        }
    }

    /// Keeps `context` until the request ends.
    pub fn note(&self, context: LogContext) {
        self.connection.metrics().note(context);
    }

    /// The request's id, for the log. Where the request has no log context yet, it keeps the one that `context` makes.
    pub fn request_id(&self, context: impl FnOnce() -> LogContext) -> String {
        let metrics = self.connection.metrics();
        if metrics.with_notes(|_| ()).is_none() {
            metrics.note(context());
        }
        let id = metrics.with_notes(|notes| notes.ids.request.to_str().map(str::to_owned));
        id.and_then(Result::ok).unwrap_or_default()
    }

    /// A change of the store begins.
    pub fn begin_change(&self) {
        self.connection
            .metrics()
            .with_audit(|audit| audit.is_open = true);
    }

    /// Keeps the events of `outcome` for the audit log.
    pub fn set_audit(&self, outcome: AuditOutcome) {
        self.connection.metrics().with_audit(|audit| {
            audit.events = outcome.events;
            audit.is_open &= !outcome.is_complete;
        });
    }

    /// The response has no end of its own.
    pub fn watches(&self) {
        self.connection.begin_watching();
        self.connection.metrics().watches();
    }

    /// The store is asked from now on.
    pub fn asks(&self) {
        self.connection.metrics().with_notes(|notes| {
            if let Some(timing) = &mut notes.timing {
                timing.asked = Some(Instant::now());
            }
        });
    }

    /// The response is known: gives it the headers that the log context asks for.
    pub fn answered(&self, status: u16, headers: &mut HeaderMap) {
        let metrics = self.connection.metrics();
        metrics.answered(status);
        metrics.with_notes(|notes| {
            headers.insert(REQUEST_ID, notes.ids.request.clone());
            if let Some(timing) = &notes.timing {
                let field = server_timing(timing, metrics.elapsed());
                if let Ok(field) = HeaderValue::try_from(field) {
                    headers.insert(SERVER_TIMING, field);
                }
            }
        });
    }

    /// `bytes` of the response were handed to hyper.
    pub fn sent(&self, bytes: usize) {
        if !self.is_lost() {
            self.connection.metrics().handed(bytes);
        }
    }

    /// The chunk that hyper gets for `piece`: its bytes, or a hole that the connection fills, and then the next piece waits for this
    /// one to be sent.
    pub fn hand(&self, piece: Piece) -> Chunk {
        match piece {
            Piece::Bytes(bytes) => Chunk::Bytes(bytes),
            Piece::Region(region) => {
                let hole = Chunk::Hole(region.len);
                self.connection.move_next(region);
                self.hold();
                hole
            }
        }
    }

    /// Has the next piece of the body wait until hyper holds none.
    pub fn hold(&self) {
        self.connection.flush().hold_piece();
    }

    /// Waits until hyper holds no piece of the body.
    pub fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        self.connection.flush().poll_taken(cx)
    }

    /// True where the body of the request did not arrive in time.
    pub fn is_late(&self) -> bool {
        self.connection.progress().is_given_up()
    }

    /// True where the client takes no response any more.
    pub fn is_lost(&self) -> bool {
        self.connection.has_lost_client()
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let received = self.connection.progress().received();
        self.connection
            .metrics()
            .with_entry(|entry| entry.received = received);
        self.connection.end();
        self.connection.metrics().ended();
    }
}

/// The field `Server-Timing` (W3C), in milliseconds: the part of the store, and the total until now.
fn server_timing(timing: &Timing, total: Duration) -> String {
    let mut field = String::new();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    if let Some(asked) = timing.asked {
        let store = asked.elapsed().saturating_sub(timing.waited);
        let _ = write!(field, "store;dur={:.3}, ", ms(store));
    }
    let _ = write!(field, "total;dur={:.3}", ms(total));
    field
}

/// The work panicked.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

/// The result of `work`, unless it panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

/// The output of `work`, unless it panics. `work` is pinned by the caller: moved in here, it would take its memory twice.
pub async fn caught_in<F: Future>(mut work: Pin<&mut F>) -> Result<F::Output, Panicked> {
    poll_fn(|cx| match caught(|| work.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// The client, the method and the path of a request. It holds no part of the head, which would keep all of its buffer.
pub struct RequestInfo {
    pub peer: Peer,
    method: Method,
    pub path: Box<str>,
    /// The length of the body in bytes, where the head tells.
    pub size: Option<u64>,
}

impl RequestInfo {
    pub fn new(head: &Parts, peer: Peer) -> Self {
        Self {
            peer,
            method: head.method.clone(),
            path: head.uri.path().into(),
            size: head
                .headers
                .get(CONTENT_LENGTH)
                .and_then(|size| size.to_str().ok()?.parse().ok()),
        }
    }

    /// True where the response is a head alone.
    pub fn wants_head_alone(&self) -> bool {
        self.method == Method::HEAD
    }

    /// Logs and counts the panic. The connection ends with it: how much of the request was read is not known.
    pub fn panicked(&self, _: Panicked, request_id: &str, connection: &ConnectionState) {
        let Self {
            peer, method, path, ..
        } = self;
        tracing::error!(request_id, %peer, %method, key = &**path, "a request panicked");
        connection.metrics().counters().panics.add(1);
        connection.leave_unread();
    }
}

#[cfg(test)]
mod tests {
    use crate::http::exchange::record::*;
    use std::pin::pin;

    #[tokio::test]
    async fn a_panic_is_caught_at_once_and_after_waiting() {
        assert!(matches!(caught(|| 1), Ok(1)));
        assert!(caught(|| panic!("by order")).is_err());
        let waits = |panics: bool| async move {
            tokio::task::yield_now().await;
            assert!(!panics, "by order");
            2
        };
        assert!(matches!(caught_in(pin!(waits(false))).await, Ok(2)));
        assert!(caught_in(pin!(waits(true))).await.is_err());
    }
}
