//! The exchange of a request and its response, which the service, the connection or the stream, and the time limits
//! share: the state of the request under way, its progress and its record.
//!
//! A stream of HTTP/2 has one exchange. A connection has one for all its requests of HTTP/1, one after the other, or
//! for the frames of HTTP/2. The service says when a request begins and ends. The sides of the socket count the bytes
//! that move, and say whether they wait for the peer. The time limits read both. An exchange stays on one reactor:
//! plain cells. It decides no time limit.

pub mod connection;
pub mod progress;
pub mod record;
pub mod request_log;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use hyper::Method;

use crate::http::exchange::connection::{Connection, Ends};
use crate::http::exchange::progress::{Flush, TransferProgress};
use crate::http::exchange::record::RequestRecord;
use crate::http::piece::{Chunk, Piece, Region};
use crate::metrics::{self, Direction, ReactorCounters, TimeLimit};

/// The phase of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between requests.
    Idle,
    /// Receiving the head of a request, or nothing yet on a new connection.
    Head,
    /// From the request's head to the last byte of its response; requests of streams are under way.
    Serving,
    /// Sending changes as they come, for as long as both sides stay: there may be nothing to send for hours.
    Watching,
}

/// What the response under way says of the end of the connection, each stronger than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    /// It stays open.
    Open,
    /// It ends with this response.
    AfterResponse,
    /// It ends with this response, which goes out although the peer may still be sending a body that is not read.
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

/// A peer that was over a time limit with a body. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exceeded {
    /// It was over none.
    #[default]
    No,
    /// It was over this limit: its client gets a response that says so, if it still reads.
    Once(TimeLimit),
    /// It still kept the server waiting then.
    Again,
}

/// The exchange of a request and its response.
#[derive(Debug)]
pub struct Exchange {
    phase: Cell<Phase>,
    /// The bytes that have moved, and the waiting for the peer.
    pub progress: TransferProgress,
    closing: Cell<Closing>,
    client: Cell<Presence>,
    exceeded: Cell<Exceeded>,
    /// Wakes the owner of the exchange.
    waker: RefCell<Option<Waker>>,
    pub(crate) flush: Flush,
    /// The region of a file that is sent in place of the next hole.
    pub region: RefCell<Option<Region>>,
    /// The client speaks HTTP/1.0, in which a body without a length ends with the connection.
    pub ends_bodies_by_close: Cell<bool>,
    /// Such a body is under way.
    pub is_unframed: Cell<bool>,
    /// A region of the response under way was sent past hyper.
    has_moved: Cell<bool>,
    /// The record of the current request.
    pub(crate) record: RequestRecord,
}

impl Exchange {
    /// An exchange of a new `connection`, or of a stream of it.
    pub fn new(connection: &Rc<Connection>) -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            progress: TransferProgress::default(),
            closing: Cell::new(Closing::Open),
            client: Cell::new(Presence::Present),
            exceeded: Cell::default(),
            waker: RefCell::default(),
            flush: Flush::default(),
            region: RefCell::default(),
            ends_bodies_by_close: Cell::new(false),
            is_unframed: Cell::new(false),
            has_moved: Cell::new(false),
            record: RequestRecord::new(connection),
        }
    }

    /// Its connection.
    pub fn connection(&self) -> &Rc<Connection> {
        &self.record.connection
    }

    pub(crate) fn counters(&self) -> &ReactorCounters {
        &self.connection().counters
    }

    /// Has `cx` woken when something is asked of the exchange.
    pub fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Wakes the owner of the exchange.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// The phase of the exchange.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Begins a request, whose head has arrived.
    pub fn begin(&self, method: &Method) {
        self.phase.set(Phase::Serving);
        let requests = &self.connection().requests;
        requests.set(requests.get() + 1);
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

    /// Requests of streams are under way, of which each has an exchange of its own.
    pub fn begin_streams(&self) {
        self.phase.set(Phase::Serving);
    }

    /// True while a response is being made or sent.
    pub fn is_serving(&self) -> bool {
        matches!(self.phase.get(), Phase::Serving | Phase::Watching)
    }

    /// Has the connection close after the response under way.
    pub fn close_after_response(&self) {
        self.closing
            .set(self.closing.get().max(Closing::AfterResponse));
    }

    /// Has the response go out although the request's body is not read to its end, and the connection close after it.
    pub fn leave_unread(&self) {
        self.closing.set(Closing::Unread);
    }

    /// True where the peer may still be sending a body that is not read.
    pub fn left_unread(&self) -> bool {
        self.closing.get() == Closing::Unread
    }

    /// True where the response that is made now is the connection's last.
    pub fn is_last(&self) -> bool {
        self.closing.get() != Closing::Open || self.connection().ends() != Ends::Open
    }

    /// True where the connection ends with the bytes that are being sent.
    pub fn is_ending(&self) -> bool {
        self.closing.get() != Closing::Open && !self.is_serving()
    }

    /// True where the request may end with its client: it reads, watches, or makes many changes, each for itself.
    pub fn is_for_client_alone(&self) -> bool {
        self.phase.get() == Phase::Watching || self.is_abandonable()
    }

    /// True while a response is being made that is of no use once its client has gone.
    fn is_abandonable(&self) -> bool {
        self.phase.get() == Phase::Serving && self.record.is_abandonable()
    }

    /// Records that the client has closed its side, and may have gone.
    pub fn half_close(&self) {
        self.client.set(self.client.get().max(Presence::HalfClosed));
    }

    /// True while a response is being made for a client that may have gone.
    pub fn may_be_alone(&self) -> bool {
        self.client.get() != Presence::Present && self.is_abandonable()
    }

    /// Records that the client accepts no more bytes.
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

    /// Records that the socket has all bytes that were to be sent.
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

    /// The peer is over this `limit` with a body. True where that was not known.
    pub fn exceed(&self, limit: TimeLimit) -> bool {
        let next = match self.exceeded.get() {
            Exceeded::No => Exceeded::Once(limit),
            _ => Exceeded::Again,
        };
        self.exceeded.replace(next) != next
    }

    /// How far the peer was over a limit with a body.
    pub fn exceeded(&self) -> Exceeded {
        self.exceeded.get()
    }

    /// Stops waiting for the body of the request, so that the client gets a 408, and the connection ends: also with the
    /// response to a body whose end comes in this turn. False if it is too late for that: the response has begun.
    pub fn give_up_body(&self) -> bool {
        self.close_after_response();
        let can_be_told = self.waits_for_peer() && !self.progress.writing.get();
        self.progress.given_up.set(can_be_told);
        can_be_told
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
    pub exchange: Rc<Exchange>,
}

impl RequestGuard {
    pub fn new(exchange: &Rc<Exchange>, method: &Method) -> Self {
        exchange.begin(method);
        Self {
            exchange: Rc::clone(exchange),
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let received = self.exchange.progress.received.get();
        self.exchange.end();
        self.exchange.record.ended(received);
    }
}

#[cfg(test)]
impl Exchange {
    /// The exchange of a new connection.
    pub fn of_new_connection() -> Rc<Self> {
        Rc::new(Self::new(&Rc::new(Connection::new(
            std::sync::Arc::default(),
        ))))
    }

    /// The exchange of a client that has sent the head of a request, and is to send its body.
    pub fn receiving(method: &Method) -> Rc<Self> {
        let exchange = Self::of_new_connection();
        exchange.begin(method);
        exchange.progress.reading.set(true);
        exchange
    }

    /// The exchange of a client that sent a request, and then closed its side.
    pub fn left_by_its_client(method: &Method) -> Rc<Self> {
        let exchange = Self::of_new_connection();
        exchange.begin(method);
        exchange.half_close();
        exchange
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a body may come in the turn in which it is given up: its response was the last that the connection
    /// could give, and the next upload on it was a 408.
    #[test]
    fn a_connection_whose_body_was_given_up_ends_with_its_response() {
        let exchange = Exchange::receiving(&Method::PUT);
        assert!(!exchange.is_last());
        assert!(exchange.give_up_body());
        assert!(exchange.is_last());
    }

    #[test]
    fn what_is_asked_of_a_connection_only_grows() {
        let exchange = Exchange::of_new_connection();
        let connection = exchange.connection();
        assert!(connection.end(Ends::Finish));
        assert!(!connection.end(Ends::Last));
        assert_eq!(connection.ends(), Ends::Finish);
        assert!(exchange.exceed(TimeLimit::Rate));
        assert!(exchange.exceed(TimeLimit::Body), "it goes on");
        assert!(!exchange.exceed(TimeLimit::Rate));
        assert_eq!(exchange.exceeded(), Exceeded::Again);
    }

    /// It concerned whichever head or request came next, and was put back by hand for the next owner of the socket.
    #[test]
    fn a_head_is_late_and_a_connection_quiet_until_the_next_request() {
        let exchange = Exchange::of_new_connection();
        let connection = exchange.connection();
        assert!(!connection.is_late() && !connection.is_quiet());
        assert!(connection.expire_head() && !connection.expire_head());
        assert!(connection.rest() && !connection.rest());
        assert!(connection.is_late() && connection.is_quiet());
        exchange.begin(&Method::GET);
        assert!(!connection.is_late() && !connection.is_quiet());
    }

    /// The kernel waited 200 ms with each packet of such a connection for the bytes that were to end it.
    #[test]
    fn only_a_response_that_says_so_ends_its_connection_with_its_last_bytes() {
        let exchange = Exchange::of_new_connection();
        exchange.begin(&Method::GET);
        exchange.end();
        exchange.connection().end(Ends::Last);
        assert!(exchange.is_last() && !exchange.is_ending());
        exchange.begin(&Method::GET);
        exchange.close_after_response();
        assert!(!exchange.is_ending());
        exchange.end();
        assert!(exchange.is_ending());
    }

    /// A connection had waited for its next request, and the time of its long response counted as its client's.
    #[test]
    fn a_request_that_begins_does_not_wait_for_its_client() {
        let exchange = Exchange::receiving(&Method::GET);
        exchange.end();
        exchange.begin(&Method::GET);
        assert!(!exchange.waits_for_peer());
    }
}
