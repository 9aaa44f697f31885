//! The state of a connection, which its protocol and its loop share; below it, the record of the request under way.
//!
//! The service says when a request begins and ends, and how the connection is to end. The sides of the socket count the
//! bytes that move, and say whether they wait for the peer. The time limits read both. The state stays on one reactor:
//! plain cells. It decides no time limit.

pub mod progress;
pub mod record;
pub mod request_log;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use hyper::Method;

use crate::http::auth::credentials::AuthCache;
use crate::http::exchange::progress::{Flush, Progress};
use crate::http::exchange::record::RequestRecord;
use crate::http::piece::{Chunk, Piece, Region};
use crate::metrics::{self, Direction, ReactorCounters};

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between requests.
    Idle,
    /// Receiving the head of a request, or nothing yet on a new connection.
    Head,
    /// From the request's head to the last byte of its response.
    Serving,
    /// Sending changes as they come, for as long as both sides stay: there may be nothing to send for hours.
    Watching,
    /// Serving the requests of several streams, of which each has a state of its own.
    Multiplexing,
}

/// The way in which a connection ends, each stronger than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    /// It stays open after the next response.
    Open,
    /// With the next response.
    AfterResponse,
    /// With the next response, which goes out although the peer may still be sending a body that is not read.
    Unread,
}

/// The presence of the client, which never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    Present,
    /// It has closed its side, and may have gone.
    HalfClosed,
    /// It accepts no more bytes.
    Gone,
}

/// The state of one connection.
#[derive(Debug)]
pub struct ConnectionState {
    phase: Cell<Phase>,
    /// Requests that have arrived so far.
    pub requests: Cell<u64>,
    /// The bytes that have moved, and the waiting for the peer.
    pub progress: Progress,
    closing: Cell<Closing>,
    client: Cell<Presence>,
    draining: Cell<bool>,
    pub(crate) flush: Flush,
    /// The region of a file that is sent in place of the next hole.
    pub region: RefCell<Option<Region>>,
    /// The client speaks HTTP/1.0, in which a body without a length ends with the connection.
    pub ends_bodies_by_close: Cell<bool>,
    /// Such a body is under way.
    pub is_unframed: Cell<bool>,
    /// A region of the response under way was sent past hyper.
    has_moved: Cell<bool>,
    /// What the client of the connection has proved.
    pub proven: Rc<AuthCache>,
    /// The record of the current request.
    pub(crate) record: RequestRecord,
}

impl ConnectionState {
    /// The state of a new connection, whose requests are counted in `counters`.
    pub fn new(counters: Arc<ReactorCounters>) -> Self {
        Self::with(counters, Rc::default())
    }

    /// The state of a new stream of this connection: the client authenticates once for all streams.
    #[must_use]
    pub fn of_stream(&self) -> Self {
        Self::with(Arc::clone(&self.record.counters), Rc::clone(&self.proven))
    }

    fn with(counters: Arc<ReactorCounters>, proven: Rc<AuthCache>) -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            requests: Cell::new(0),
            progress: Progress::default(),
            closing: Cell::new(Closing::Open),
            client: Cell::new(Presence::Present),
            draining: Cell::new(false),
            flush: Flush::default(),
            region: RefCell::default(),
            ends_bodies_by_close: Cell::new(false),
            is_unframed: Cell::new(false),
            has_moved: Cell::new(false),
            proven,
            record: RequestRecord::new(counters),
        }
    }

    pub(crate) fn counters(&self) -> &ReactorCounters {
        &self.record.counters
    }

    /// The phase of the connection.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Begins a request, whose head has arrived.
    pub fn begin(&self, method: &Method) {
        self.phase.set(Phase::Serving);
        self.requests.set(self.requests.get() + 1);
        self.has_moved.set(false);
        self.progress.begin();
        self.record.begin(method);
    }

    /// No request is under way any more: each response has been handed over whole, or given up.
    pub fn end(&self) {
        self.phase.set(Phase::Idle);
    }

    /// Begins a head, whose first bytes are there.
    pub fn begin_head(&self) {
        if self.phase.get() == Phase::Idle {
            self.phase.set(Phase::Head);
        }
    }

    /// Begins a response that has no end of its own.
    pub fn begin_watching(&self) {
        self.phase.set(Phase::Watching);
        self.record.begin_watching();
    }

    /// Has the requests come by streams from now on. What was to close after its next response drains: that response is
    /// a stream's, and others may follow on the way.
    pub fn multiplex(&self) {
        if self.closing.replace(Closing::Open) != Closing::Open {
            self.drain();
        }
    }

    /// Begins a request of a stream.
    pub fn begin_stream(&self) {
        self.phase.set(Phase::Multiplexing);
        self.requests.set(self.requests.get() + 1);
    }

    /// True while a response is being made or sent.
    pub fn is_serving(&self) -> bool {
        matches!(self.phase.get(), Phase::Serving | Phase::Watching)
    }

    /// Has the connection close after the response under way, which ends soon if it has no end of its own.
    pub fn drain(&self) {
        self.draining.set(true);
    }

    /// True once the connection was asked to end.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Has the connection close after the next response.
    pub fn close_after_response(&self) {
        self.closing
            .set(self.closing.get().max(Closing::AfterResponse));
    }

    /// Has the next response go out although the request's body is not read to its end, and the connection close after
    /// it.
    pub fn leave_unread(&self) {
        self.closing.set(Closing::Unread);
    }

    /// True where the peer may still be sending a body that is not read.
    pub fn left_unread(&self) -> bool {
        self.closing.get() == Closing::Unread
    }

    /// True where the response that is made now is the connection's last.
    pub fn is_last(&self) -> bool {
        self.closing.get() != Closing::Open || self.draining.get()
    }

    /// True where the connection ends with the bytes that are being sent.
    pub fn is_ending(&self) -> bool {
        self.closing.get() != Closing::Open && !self.is_serving()
    }

    /// True where the request may end with its client: it reads, watches, or makes many changes, each for itself.
    pub fn is_for_client_alone(&self) -> bool {
        self.phase.get() == Phase::Watching || self.is_abandonable()
    }

    /// True while a response is being made that no client needs who has gone.
    fn is_abandonable(&self) -> bool {
        self.phase.get() == Phase::Serving && self.record.is_abandonable()
    }

    /// Notes that the client has closed its side, and may have gone.
    pub fn half_close(&self) {
        self.client.set(self.client.get().max(Presence::HalfClosed));
    }

    /// True while a response is being made for a client that may have gone.
    pub fn may_be_alone(&self) -> bool {
        self.client.get() != Presence::Present && self.is_abandonable()
    }

    /// Notes that the client accepts no more bytes.
    pub fn lose_client(&self) {
        self.client.set(Presence::Gone);
    }

    /// True if the client accepts no more bytes: they are discarded, and its request is still performed.
    pub fn has_lost_client(&self) -> bool {
        self.client.get() == Presence::Gone
    }

    /// Counts `bytes` that the socket gave.
    pub fn received(&self, bytes: usize) {
        self.counters().received_bytes.add(bytes as u64);
    }

    /// Counts a head that was refused before it became a request, with 400, 408, 414 or 431.
    pub fn refused_head(&self) {
        self.counters().answered(metrics::Method::Other, 400);
    }

    /// Notes that the socket has all bytes that were to be sent.
    pub fn flushed(&self) {
        self.record.flushed();
        self.flush.flushed();
    }

    /// Counts `bytes` of the response's body that were handed to hyper, unless they are thrown away.
    pub fn handed(&self, bytes: usize) {
        if !self.has_lost_client() {
            self.record.with_entry(|entry| entry.sent += bytes as u64);
        }
    }

    /// The chunk that hyper gets for `piece`: its bytes, or a hole that the connection fills. Then the next piece waits
    /// until this one has been sent.
    pub fn chunk_of(&self, piece: Piece) -> Chunk {
        let region = match piece {
            Piece::Bytes(bytes) => return Chunk::Bytes(bytes),
            Piece::Region(region) => region,
        };
        if !self.has_moved.replace(true) {
            self.counters().takeovers[Direction::Send as usize].add(1);
        }
        let hole = Chunk::Hole(region.len);
        *self.region.borrow_mut() = Some(region);
        self.flush.hold_piece();
        hole
    }

    /// Stops waiting for the body of the request, so that the client gets a 408, and the connection ends: also with the
    /// response to a body whose end comes in this turn. False if it is too late for that: the response has begun, or
    /// this was called before.
    pub fn give_up_body(&self) -> bool {
        self.drain();
        let progress = &self.progress;
        let can_be_told = self.waits_for_peer() && !progress.writing.get();
        can_be_told && !progress.given_up.replace(true)
    }

    /// True where the peer holds up a body: it sends no bytes of the request, or takes none of the response.
    pub fn waits_for_peer(&self) -> bool {
        let progress = &self.progress;
        progress.writing.get() || (progress.reading.get() && self.phase.get() == Phase::Serving)
    }
}

/// A request under way on its connection, or on its stream. The request ends when the guard is dropped.
#[derive(Debug)]
pub struct RequestGuard {
    pub connection: Rc<ConnectionState>,
}

impl RequestGuard {
    pub fn new(connection: &Rc<ConnectionState>, method: &Method) -> Self {
        connection.begin(method);
        Self {
            connection: Rc::clone(connection),
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let received = self.connection.progress.received.get();
        self.connection.end();
        self.connection.record.ended(received);
    }
}

#[cfg(test)]
impl ConnectionState {
    /// The state of a connection whose client has sent the head of a request, and is to send its body.
    pub fn receiving(method: &Method) -> Self {
        let connection = Self::new(Arc::default());
        connection.begin(method);
        connection.progress.reading.set(true);
        connection
    }

    /// The state of a connection whose client sent a request, and then closed its side.
    pub fn left_by_its_client(method: &Method) -> Self {
        let connection = Self::new(Arc::default());
        connection.begin(method);
        connection.half_close();
        connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a body may come in the turn in which it is given up: its response was the last that the connection
    /// could give, and the next upload on it was a 408.
    #[test]
    fn a_connection_whose_body_was_given_up_ends_with_its_response() {
        let connection = ConnectionState::receiving(&Method::PUT);
        assert!(!connection.is_last());
        assert!(connection.give_up_body());
        assert!(connection.is_last());
        assert!(!connection.give_up_body(), "it was told before");
    }

    /// The kernel waited 200 ms with each packet of such a connection for the bytes that were to end it, and its client
    /// heard of no end.
    #[test]
    fn a_connection_that_begins_streams_in_a_drain_drains_and_does_not_end_with_its_next_bytes() {
        let connection = ConnectionState::new(Arc::default());
        connection.close_after_response();
        connection.multiplex();
        assert!(connection.is_draining());
        assert!(!connection.is_ending());
        connection.begin_stream();
        connection.end();
        assert!(!connection.is_ending());
    }

    /// A connection had waited for its next request, and the time of its long response counted as its client's.
    #[test]
    fn a_request_that_begins_does_not_wait_for_its_client() {
        let connection = ConnectionState::receiving(&Method::GET);
        connection.end();
        connection.begin(&Method::GET);
        assert!(!connection.waits_for_peer());
    }
}
