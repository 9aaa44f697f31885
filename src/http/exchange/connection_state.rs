//! The state of a connection, which its protocol and its loop share.
//!
//! The service says when a request begins and ends, and how the connection is to end; the sides of the socket say what
//! moved and whether they wait for the peer. The time limits read both. All of it stays on one reactor: plain cells.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::http::auth::credentials::AuthCache;
use crate::http::body::content::Piece;
use crate::http::exchange::progress::Progress;
use crate::http::exchange::request_metrics::RequestMetrics;
use crate::metrics::{Direction, ReactorCounters};

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

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    /// Not with the next response.
    Open,
    /// With the next response.
    AfterResponse,
    /// With the next response, which goes out although the peer may still be sending a body that is not read.
    Unread,
}

/// The presence of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Present,
    /// It has closed its side, and may have gone.
    HalfClosed,
    /// It takes nothing any more.
    Gone,
}

/// The state of one connection.
#[derive(Debug)]
pub struct ConnectionState {
    phase: Cell<Phase>,
    requests: Cell<u64>,
    /// How often its reactor has turned to it.
    turns: Cell<u64>,
    progress: Progress,
    closing: Cell<Closing>,
    client: Cell<Client>,
    draining: Cell<bool>,
    flush: Flush,
    /// The piece that is sent in place of the next hole.
    piece: RefCell<Option<Piece>>,
    /// A piece of the response under way was moved.
    has_moved: Cell<bool>,
    proven: Rc<AuthCache>,
    metrics: RequestMetrics,
}

impl ConnectionState {
    /// The state of a new connection, whose requests are counted in `counters`.
    pub fn new(counters: Arc<ReactorCounters>) -> Self {
        Self::with(counters, Rc::default())
    }

    /// That of a new stream of this connection: what the client proved on one holds for all.
    #[must_use]
    pub fn of_stream(&self) -> Self {
        Self::with(
            Arc::clone(self.metrics.shared_counters()),
            Rc::clone(&self.proven),
        )
    }

    fn with(counters: Arc<ReactorCounters>, proven: Rc<AuthCache>) -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            requests: Cell::new(0),
            turns: Cell::new(0),
            progress: Progress::default(),
            closing: Cell::new(Closing::Open),
            client: Cell::new(Client::Present),
            draining: Cell::new(false),
            flush: Flush::default(),
            piece: RefCell::default(),
            has_moved: Cell::new(false),
            proven,
            metrics: RequestMetrics::new(counters),
        }
    }

    /// Its reactor turns to it.
    pub fn begin_turn(&self) {
        self.turns.set(self.turns.get().wrapping_add(1));
    }

    /// The number of this turn.
    pub fn turn(&self) -> u64 {
        self.turns.get()
    }

    pub(crate) fn metrics(&self) -> &RequestMetrics {
        &self.metrics
    }

    /// The proofs of its client.
    pub fn proven(&self) -> &Rc<AuthCache> {
        &self.proven
    }

    /// The bytes that have moved, and who is waited for.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The phase of the connection.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Requests that have arrived so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// A request's head has arrived.
    pub fn begin(&self) {
        self.phase.set(Phase::Serving);
        self.requests.set(self.requests.get() + 1);
        self.has_moved.set(false);
        self.progress.begin();
    }

    /// The response has been handed over whole, or given up.
    pub fn end(&self) {
        self.phase.set(Phase::Idle);
    }

    /// The first bytes of a request's head are there.
    pub fn begin_head(&self) {
        if self.phase.get() == Phase::Idle {
            self.phase.set(Phase::Head);
        }
    }

    /// The response has become one without an end of its own.
    pub fn begin_watching(&self) {
        self.phase.set(Phase::Watching);
    }

    /// A stream has begun a request.
    pub fn begin_stream(&self) {
        self.phase.set(Phase::Multiplexing);
        self.requests.set(self.requests.get() + 1);
    }

    /// The last stream under way has ended.
    pub fn end_streams(&self) {
        self.phase.set(Phase::Idle);
    }

    /// Whether a request is being answered.
    pub fn is_serving(&self) -> bool {
        matches!(self.phase.get(), Phase::Serving | Phase::Watching)
    }

    /// The connection closes after the response under way, and what has no end of its own ends.
    pub fn drain(&self) {
        self.draining.set(true);
    }

    /// Whether the connection was asked to end.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// The connection closes after the next response.
    pub fn close_after_response(&self) {
        if self.closing.get() == Closing::Open {
            self.closing.set(Closing::AfterResponse);
        }
    }

    /// The response goes out although the request's body has not all been read.
    pub fn leave_unread(&self) {
        self.closing.set(Closing::Unread);
    }

    /// Whether the peer may still be sending a body that is not read.
    pub fn left_unread(&self) -> bool {
        self.closing.get() == Closing::Unread
    }

    /// Whether the response that is made now is the connection's last.
    pub fn is_last(&self) -> bool {
        self.closing.get() != Closing::Open || self.draining.get()
    }

    /// Whether the connection ends with the bytes that are being sent.
    pub fn is_ending(&self) -> bool {
        self.closing.get() != Closing::Open && !self.is_serving()
    }

    /// Whether what is done now ends with its client: it reads or watches, and changes nothing.
    pub fn is_for_client_alone(&self) -> bool {
        self.phase.get() == Phase::Watching || self.is_reading()
    }

    /// Whether a response is being made that nothing but its reader needs.
    fn is_reading(&self) -> bool {
        self.phase.get() == Phase::Serving && self.metrics.is_reading()
    }

    /// The client has closed its side, and may have gone.
    pub fn half_close(&self) {
        if self.client.get() == Client::Present {
            self.client.set(Client::HalfClosed);
        }
    }

    /// Whether a response is being made that a client may have gone without.
    pub fn may_be_alone(&self) -> bool {
        self.client.get() != Client::Present && self.is_reading()
    }

    /// The client takes nothing any more.
    pub fn lose_client(&self) {
        self.client.set(Client::Gone);
    }

    /// Whether the client takes nothing any more: what is sent is thrown away, and what it asked for is still done.
    pub fn has_lost_client(&self) -> bool {
        self.client.get() == Client::Gone
    }

    /// The socket took `bytes`; with `more`, others wait for it.
    pub fn sent(&self, bytes: usize, more: bool) {
        self.metrics.sent(bytes, more);
    }

    /// The socket gave `bytes`.
    pub fn received(&self, bytes: usize) {
        self.metrics.received(bytes);
    }

    /// A head was refused before it became a request.
    pub fn refused_head(&self) {
        self.metrics.refused();
    }

    /// Everything that was to be sent has been given to the socket.
    pub fn flushed(&self) {
        self.metrics.flushed();
        self.flush.flushed();
    }

    /// The connection moves `piece` itself, in the place of the next hole.
    pub fn move_next(&self, piece: Piece) {
        if !self.has_moved.replace(true) {
            self.metrics.counters().takes_over(Direction::Send);
        }
        *self.piece.borrow_mut() = Some(piece);
    }

    /// The piece that is sent in place of the next hole.
    pub fn piece(&self) -> &RefCell<Option<Piece>> {
        &self.piece
    }

    pub(crate) fn flush(&self) -> &Flush {
        &self.flush
    }

    /// Stops waiting for the body of the request, so that the client gets a 408. False if it is too late for one: the response has
    /// begun, or this was called before.
    pub fn give_up_body(&self) -> bool {
        let progress = &self.progress;
        let can_be_told = self.waits_for_peer() && !progress.is_writing();
        let is_first = can_be_told && !progress.is_given_up();
        if is_first {
            progress.give_up();
        }
        is_first
    }

    /// Whether it is the peer that holds up a body: it sends nothing of one, or takes nothing.
    pub fn waits_for_peer(&self) -> bool {
        let progress = &self.progress;
        progress.is_writing() || (progress.is_reading() && self.phase.get() == Phase::Serving)
    }
}

/// Tells a body that is made as fast as the peer takes it when its last piece has gone to the socket.
#[derive(Debug, Default)]
pub struct Flush {
    holds_piece: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Flush {
    /// hyper was given a piece of such a body.
    pub fn hold_piece(&self) {
        self.holds_piece.set(true);
    }

    /// Waits until that piece is not with hyper any more. hyper does not always ask for more when it has flushed: it
    /// relies on being woken.
    pub fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.holds_piece.get() {
            return Poll::Ready(());
        }
        *self.waiting.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    fn flushed(&self) {
        if self.holds_piece.take()
            && let Some(waker) = self.waiting.take()
        {
            waker.wake();
        }
    }
}

#[cfg(test)]
impl ConnectionState {
    /// That of a connection whose client has sent the head of a request, and is to send its body.
    pub fn receiving(method: &hyper::Method) -> Self {
        let connection = Self::new(Arc::default());
        connection.begin();
        connection.metrics.begin(method);
        connection.progress.set_reading(true);
        connection
    }

    /// That of a connection whose client asked for something, and closed its side then.
    pub fn left_by_its_client(method: &hyper::Method) -> Self {
        let connection = Self::new(Arc::default());
        connection.begin();
        connection.metrics.begin(method);
        connection.half_close();
        connection
    }
}
