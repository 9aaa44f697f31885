//! What the protocol and the socket of one connection tell each other.
//!
//! The service says which phase the exchange is in and which file regions the next bytes stand for; the stream says
//! whether it waits for the peer. Whoever watches the time reads both. All of it stays on one reactor: plain cells.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::detour::Detour;
use super::head::Fault;
use super::meter::Meter;
use super::region::Regions;
use crate::metrics::ReactorCounters;
use crate::store::Inflow;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between requests.
    Idle,
    /// Receiving the head of a request, or nothing yet on a new connection.
    Head,
    /// From the request's head to the last byte of its answer.
    Serving,
    /// Sending changes as they come, for as long as both sides stay: there may be nothing to send for hours.
    Watching,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Link {
    phase: Cell<Phase>,
    requests: Cell<u64>,
    turn: Cell<u64>,
    moved: Cell<u64>,
    receiving: Cell<bool>,
    reading: Cell<bool>,
    writing: Cell<bool>,
    heard: Cell<bool>,
    unread: Cell<bool>,
    last: Cell<bool>,
    late: Cell<bool>,
    part_held: Cell<bool>,
    in_front: Cell<bool>,
    fault: Cell<Option<(u64, Fault)>>,
    nudged: Cell<bool>,
    finishing: Cell<bool>,
    holds_piece: Cell<bool>,
    waits_for_flush: RefCell<Option<Waker>>,
    regions: Regions,
    meter: Meter,
    detour: Detour,
}

impl Link {
    /// The link of a new connection, whose exchanges are counted in `counters`.
    pub fn new(counters: Arc<ReactorCounters>) -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            requests: Cell::new(0),
            turn: Cell::new(0),
            moved: Cell::new(0),
            receiving: Cell::new(false),
            reading: Cell::new(false),
            writing: Cell::new(false),
            heard: Cell::new(false),
            unread: Cell::new(false),
            last: Cell::new(false),
            late: Cell::new(false),
            part_held: Cell::new(false),
            in_front: Cell::new(false),
            fault: Cell::new(None),
            nudged: Cell::new(false),
            finishing: Cell::new(false),
            holds_piece: Cell::new(false),
            waits_for_flush: RefCell::default(),
            regions: Regions::default(),
            meter: Meter::new(counters),
            detour: Detour::default(),
        }
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The socket took `bytes`; with `more`, others wait for it.
    pub fn sent(&self, bytes: usize, more: bool) {
        self.meter.sent(bytes, more);
    }

    /// A head was refused before it became a request.
    pub fn refused_head(&self) {
        self.meter.refused();
    }

    /// The socket gave `bytes`.
    pub fn received(&self, bytes: usize) {
        self.meter.received(bytes);
    }

    /// What the connection is doing.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Which poll of the connection's task this is.
    pub fn turn(&self) -> u64 {
        self.turn.get()
    }

    /// The connection's task is polled anew.
    pub fn begin_turn(&self) {
        self.turn.set(self.turn.get() + 1);
    }

    /// Requests that have arrived so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// A request's head has arrived.
    pub(super) fn begin(&self) {
        self.phase.set(Phase::Serving);
        self.requests.set(self.requests.get() + 1);
    }

    /// The answer has been handed to hyper whole, or given up.
    pub(super) fn end(&self) {
        let begun = self.part_held.get();
        self.phase
            .set(if begun { Phase::Head } else { Phase::Idle });
        self.heard.set(begun);
    }

    /// The exchange has become one without an end of its own.
    pub(super) fn begin_watching(&self) {
        self.phase.set(Phase::Watching);
    }

    /// What has no end of its own is to end.
    pub fn finish(&self) {
        self.finishing.set(true);
    }

    /// Whether what has no end of its own is to end.
    pub fn is_finishing(&self) -> bool {
        self.finishing.get()
    }

    /// hyper was given a piece of a body that is made as fast as the peer takes it.
    pub(super) fn hold_piece(&self) {
        self.holds_piece.set(true);
    }

    /// Waits until that piece is not with hyper any more. hyper does not always ask for more when it has flushed: it
    /// relies on being woken.
    pub(super) fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.holds_piece.get() {
            return Poll::Ready(());
        }
        *self.waits_for_flush.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Everything that was to be sent has been given to the socket.
    pub fn flushed(&self) {
        self.meter.flushed();
        if self.holds_piece.take()
            && let Some(waker) = self.waits_for_flush.take()
        {
            waker.wake();
        }
    }

    /// Body bytes moved so far, both ways.
    pub fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// Counts body bytes that were received or sent.
    pub fn count(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes as u64);
    }

    /// The service waits for bytes of the request's body; or no longer does.
    pub fn set_receiving(&self, waits: bool) {
        self.receiving.set(waits);
    }

    /// The answer goes out although the request's body has not all been read.
    pub(super) fn leave_unread(&self) {
        self.unread.set(true);
    }

    /// Whether the peer may still be sending a body that nobody reads.
    pub fn left_unread(&self) -> bool {
        self.unread.get()
    }

    /// The connection closes after the next answer.
    pub fn end_after_answer(&self) {
        self.last.set(true);
    }

    /// Whether the answer that is made now is the connection's last.
    pub fn is_last(&self) -> bool {
        self.unread.get() || self.last.get()
    }

    /// The head being received took too long: the socket gives no more of it.
    pub fn give_up_head(&self) {
        self.late.set(true);
    }

    /// Whether the head being received took too long.
    pub fn is_late(&self) -> bool {
        self.late.get()
    }

    /// The beginning of a head is there, and waits for its rest; or no longer does.
    pub fn set_part_held(&self, held: bool) {
        self.part_held.set(held);
    }

    /// Whether the beginning of a head waits for its rest.
    pub fn is_part_held(&self) -> bool {
        self.part_held.get()
    }

    /// A request that hyper knows nothing of is under way; or has been answered.
    pub fn set_in_front(&self, is_under_way: bool) {
        self.in_front.set(is_under_way);
    }

    /// Whether a request is under way that hyper knows nothing of.
    pub fn is_in_front(&self) -> bool {
        self.in_front.get()
    }

    /// The head of this request, counted from 1, is at fault: what arrives in its place is to be refused.
    pub fn refuse(&self, request: u64, fault: Fault) {
        self.fault.set(Some((request, fault)));
    }

    /// What was at fault with the head of the request that arrived last.
    pub(super) fn fault(&self) -> Option<Fault> {
        let (request, fault) = self.fault.get()?;
        (request == self.requests.get()).then_some(fault)
    }

    /// Whether no exchange is under way, and no bytes of one are with hyper: `heads` is how many whole heads it was given.
    pub fn is_between(&self, heads: u64) -> bool {
        let is_waiting = matches!(self.phase.get(), Phase::Idle | Phase::Head);
        is_waiting && heads == self.requests.get() && self.meter.is_settled()
    }

    /// The socket has nothing to read at the moment; or has.
    pub fn set_reading(&self, waits: bool) {
        self.reading.set(waits);
        if !waits {
            self.heard.set(true);
            if self.phase.get() == Phase::Idle {
                self.phase.set(Phase::Head);
            }
        }
    }

    /// The socket takes no more, although bytes wait to be sent; or does.
    pub fn set_writing(&self, waits: bool) {
        self.writing.set(waits);
    }

    /// Whether the connection ends with the bytes that hyper has now.
    pub fn is_ending(&self) -> bool {
        self.is_last() && matches!(self.phase.get(), Phase::Idle | Phase::Head)
    }

    /// Whether bytes wait for the peer to take them.
    pub fn is_sending(&self) -> bool {
        self.writing.get()
    }

    /// Has the socket try to send although it is not known to take bytes. It says that it does only once a third of its
    /// buffer is free, which takes a slow but honest reader longer than the time its rate is measured over.
    pub fn nudge(&self) {
        self.nudged.set(true);
    }

    /// Whether there was a nudge since the last call.
    pub fn take_nudge(&self) -> bool {
        self.nudged.take()
    }

    /// Whether it is the peer that holds a body up: it sends nothing of one that is wanted, or takes nothing.
    pub fn waits_for_peer(&self) -> bool {
        self.writing.get() || (self.receiving.get() && self.reading.get())
    }

    /// Whether anything arrived since the last answer.
    pub fn heard(&self) -> bool {
        self.heard.get()
    }

    /// Where a large body goes.
    pub fn detour(&self) -> &Detour {
        &self.detour
    }

    /// What the body of the request that arrived last is taken from, if hyper does not have it.
    pub(super) fn take_inflow(&self) -> Option<Box<dyn Inflow>> {
        self.detour.take(self.requests.get())
    }

    /// What the pieces of body that hyper holds stand for.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }
}
