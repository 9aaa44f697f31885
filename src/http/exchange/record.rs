//! The record of a request: from its head to the last byte of its response.
//!
//! A [`RequestRecord`] lives in the service first, and in the body of the response then, so that its end is known however it
//! ends: sent, given up, or cut off. It adds to the response what was noted of the request.

use std::fmt::Write as _;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::http::body::content::{Chunk, Piece};
use crate::http::exchange::audit_log::{Audit, AuditOutcome};
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::request_metrics::{LogContext, Timing};
use crate::http::head::identity::REQUEST_ID;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The record of a request under way.
#[derive(Debug)]
pub struct RequestRecord {
    connection: Rc<ConnectionState>,
}

impl RequestRecord {
    pub fn begin(connection: &Rc<ConnectionState>, method: &hyper::Method) -> Self {
        connection.begin();
        connection.metrics().begin(method);
        Self {
            connection: Rc::clone(connection),
        }
    }

    /// Keeps `notes` until it ends.
    pub fn note(&self, notes: LogContext) {
        self.connection.metrics().note(notes);
    }

    /// The request's id, for the log; of `notes`, which are kept until it ends, when nothing was noted of it yet.
    pub fn request_id(&self, notes: impl FnOnce() -> LogContext) -> String {
        let metrics = self.connection.metrics();
        let id = |notes: &mut LogContext| notes.identity.request.to_str().map(str::to_owned);
        if metrics.with_notes(|_| ()).is_none() {
            metrics.note(notes());
        }
        metrics
            .with_notes(id)
            .and_then(Result::ok)
            .unwrap_or_default()
    }

    /// It goes about a change.
    pub fn changes(&self) {
        self.audit(Audit::begin);
    }

    /// It came to what is `told`.
    pub fn set_audit(&self, told: AuditOutcome) {
        self.audit(|audit| audit.end(told));
    }

    fn audit(&self, note: impl FnOnce(&mut Audit)) {
        self.connection.metrics().with_notes(|notes| {
            let line = notes.line.as_mut();
            line.and_then(|line| line.audit.as_mut()).map(note)
        });
    }

    /// It has become one without an end of its own.
    pub fn watches(&self) {
        self.connection.begin_watching();
        self.connection.metrics().watches();
    }

    /// The store is asked now.
    pub fn asks(&self) {
        self.connection.metrics().with_notes(|notes| {
            if let Some(timing) = &mut notes.timing {
                timing.asked = Some(Instant::now());
            }
        });
    }

    /// The answer is known: gives it the headers that the notes ask for.
    pub fn answered(&self, status: u16, headers: &mut HeaderMap) {
        let metrics = self.connection.metrics();
        metrics.answered(status);
        metrics.with_notes(|notes| {
            headers.insert(REQUEST_ID, notes.identity.request.clone());
            if let Some(timing) = &notes.timing {
                let field = server_timing(timing, metrics.elapsed());
                if let Ok(field) = HeaderValue::try_from(field) {
                    headers.insert(SERVER_TIMING, field);
                }
            }
        });
    }

    /// `bytes` of the answer were handed to hyper.
    pub fn sent(&self, bytes: usize) {
        if !self.is_lost() {
            self.connection.metrics().handed(bytes);
        }
    }

    /// Gives hyper `piece`, or a hole in its place: then the next piece waits for this one to be sent.
    pub fn hand(&self, piece: Piece) -> Chunk {
        match piece {
            Piece::Bytes(bytes) => Chunk::Bytes(bytes),
            piece => {
                let hole = Chunk::Hole(piece.len());
                self.connection.move_next(piece);
                self.hold();
                hole
            }
        }
    }

    /// The next piece of the body waits until hyper has nothing of it any more.
    pub fn hold(&self) {
        self.connection.flush().hold_piece();
    }

    /// Waits for that.
    pub fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        self.connection.flush().poll_taken(cx)
    }

    /// Whether the body of the request did not arrive in time.
    pub fn is_late(&self) -> bool {
        self.connection.progress().is_given_up()
    }

    /// Whether the client takes no response any more.
    pub fn is_lost(&self) -> bool {
        self.connection.has_lost_client()
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let received = self.connection.progress().received();
        self.connection.metrics().with_notes(|notes| {
            if let Some(line) = &mut notes.line {
                line.received = received;
            }
        });
        self.connection.end();
        self.connection.metrics().ended();
    }
}

/// The field `Server-Timing` (W3C), in milliseconds: the store's part, and all until now.
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
