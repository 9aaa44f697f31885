//! The open connections of one reactor, their time limits, and the commands to them.
//!
//! A sweep once a tick looks at each [`ConnectionState`] and sends a command to those over a time limit; so a request costs
//! no timer and no clock reading, and a limit is kept to within a tick. Only time spent waiting for the peer counts: a slow
//! disk is never the client's fault, and an honest transfer has no deadline. One exception: a client that has closed its
//! side may have gone, and a response for it alone is not computed for long. A drain and a shortage of connections send
//! their commands here too. A stream of HTTP/2 has an entry beside its connection's: a slow one ends alone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::http::{ConnectionState, Phase};
use crate::metrics::TimeLimit;

/// How long the peer has to acknowledge the end of a connection or a stream.
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// How long peers may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the first byte of a request's head, or the start of the connection, to the head's end. Zero is for ever.
    pub header_timeout: Duration,
    /// Between requests. Zero is for ever.
    pub idle_timeout: Duration,
    /// Between two reads, or two writes, of a body. Zero is for ever.
    pub body_timeout: Duration,
    /// Body bytes a second that a peer must send or take, averaged over a [`RATE_WINDOW`] without pauses. Zero is any.
    pub min_rate: u64,
}

/// How long a response is made for a client that has closed its side, which one that has gone does too.
const HALF_CLOSED: Duration = Duration::from_secs(60);

/// The time that [`Limits::min_rate`] is averaged over.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);

/// The most of one pause that counts in the rate.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// After a pause of this length, a connection is closed when another client waits for its place.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection keeps its buffers between requests. A client that asks again soon finds them there.
const REST_AFTER: Duration = Duration::from_secs(1);

impl Limits {
    /// How often connections are looked at: often enough for the shortest limit, at most once a second in the rule.
    fn tick(&self) -> Duration {
        let limits = [self.header_timeout, self.idle_timeout, self.body_timeout];
        let shortest = limits.into_iter().filter(|limit| !limit.is_zero()).min();
        let tick = shortest.unwrap_or(RATE_WINDOW) / 8;
        tick.clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

/// The connections of one reactor.
#[derive(Debug)]
pub(super) struct Connections {
    limits: Limits,
    entries: RefCell<Slab<Entry>>,
    /// The command that every connection got, and that a new one gets.
    broadcast: Cell<Option<Command>>,
    /// A connection has ended.
    ended: Notify,
}

#[derive(Debug)]
struct Entry {
    slot: Rc<CommandSlot>,
    state: Rc<ConnectionState>,
    observed: Observed,
    is_stream: bool,
}

impl Entry {
    /// True between requests, until it is asked to finish.
    fn is_idle(&self) -> bool {
        !self.is_stream
            && self.state.phase() == Phase::Idle
            && self.slot.command.get() != Some(Command::Finish)
    }
}

/// The commands to one connection, which leaves its reactor's connections when this is dropped.
pub(super) struct Commands<'a> {
    connections: &'a Connections,
    index: usize,
    slot: Rc<CommandSlot>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: RefCell::default(),
            broadcast: Cell::new(None),
            ended: Notify::new(),
        }
    }

    /// Adds a connection, or a stream of one.
    pub(super) fn add(&self, state: &Rc<ConnectionState>, is_stream: bool) -> Commands<'_> {
        let slot = Rc::new(CommandSlot::default());
        if let Some(command) = self.broadcast.get() {
            slot.send(command);
        }
        let entry = Entry {
            slot: Rc::clone(&slot),
            state: Rc::clone(state),
            observed: Observed::new(state, Instant::now()),
            is_stream,
        };
        Commands {
            connections: self,
            index: self.entries.borrow_mut().insert(entry),
            slot,
        }
    }

    /// Sweeps once a tick, for ever.
    pub(super) async fn sweep(&self) {
        let tick = self.limits.tick();
        let mut ticks = interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            for (_, entry) in &mut *self.entries.borrow_mut() {
                let command = entry.observed.check(&entry.state, now, tick, &self.limits);
                if let Some(command) = command {
                    entry.slot.send(command);
                }
            }
        }
    }

    /// Sends `command` to every connection, now and from now on.
    pub(super) fn broadcast(&self, command: Command) {
        self.broadcast.set(Some(command));
        for (_, entry) in &*self.entries.borrow() {
            entry.slot.send(command);
        }
    }

    /// Asks the connection that has been idle longest to finish, or gives up the one that has paused longest in a body, if
    /// there is one and `confirm` agrees. How long is known to within a tick.
    pub(super) fn close_idlest(&self, confirm: impl FnOnce() -> bool) {
        let entries = self.entries.borrow();
        let all = || entries.iter().map(|(_, entry)| entry);
        let idle = all().filter(|entry| entry.is_idle());
        let idlest = idle.min_by_key(|entry| entry.observed.idle_since(&entry.state));
        let chosen = if let Some(entry) = idlest {
            Some((entry, Command::Finish))
        } else {
            let paused =
                all().filter_map(|entry| Some((entry.observed.makes_room(&entry.state)?, entry)));
            let longest = paused.max_by_key(|(paused, _)| *paused);
            longest.map(|(_, entry)| (entry, Command::TooSlow(TimeLimit::Body)))
        };
        if let Some((entry, command)) = chosen
            && confirm()
        {
            entry.slot.send(command);
        }
    }

    /// Waits until no connection is left.
    pub(super) async fn emptied(&self) {
        while self.len() > 0 {
            self.ended.notified().await;
        }
    }

    pub(super) fn len(&self) -> usize {
        let entries = self.entries.borrow();
        entries.iter().filter(|(_, entry)| !entry.is_stream).count()
    }
}

impl Commands<'_> {
    /// Puts back `command`, which was taken, for the next owner of the socket.
    pub(super) fn repeat(&self, command: Command) {
        self.slot.send(command);
    }

    /// The next command, if there is one; else has `cx` woken when it comes.
    pub(super) fn next(&self, cx: &Context<'_>) -> Option<Command> {
        self.slot.take(cx)
    }
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        self.connections.entries.borrow_mut().remove(self.index);
        self.connections.ended.notify_waiters();
    }
}

/// The observations of earlier sweeps of a connection.
#[derive(Debug)]
struct Observed {
    phase: Phase,
    requests: u64,
    /// When this phase was first seen.
    since: Instant,
    /// When it was looked at last, or a request began after that.
    looked: Instant,
    /// It was asked to rest in this phase.
    rests: bool,
    /// Bytes moved when it was looked at last.
    moved: u64,
    /// How long the connection has waited since bytes moved last.
    paused: Duration,
    /// Time in the current rate window, without pauses.
    judged: Duration,
    /// Bytes moved before the current rate window.
    moved_before: u64,
}

impl Observed {
    /// Nothing observed yet, of a new connection.
    fn new(connection: &ConnectionState, now: Instant) -> Self {
        Self {
            phase: connection.phase(),
            requests: connection.requests(),
            since: now,
            looked: now,
            rests: false,
            moved: 0,
            paused: Duration::ZERO,
            judged: Duration::ZERO,
            moved_before: 0,
        }
    }

    /// The length of the current pause, once it has reached [`PATIENCE`].
    fn makes_room(&self, connection: &ConnectionState) -> Option<Duration> {
        let is_paused = connection.waits_for_peer() && connection.progress().moved() == self.moved;
        (is_paused && self.paused >= PATIENCE).then_some(self.paused)
    }

    /// An order by how long connections have been idle: what has changed since the last sweep comes last.
    fn idle_since(&self, connection: &ConnectionState) -> (bool, Instant) {
        (self.has_changed(connection), self.since)
    }

    fn has_changed(&self, connection: &ConnectionState) -> bool {
        (connection.phase(), connection.requests()) != (self.phase, self.requests)
    }

    /// The command that a connection in this state gets, `now`.
    fn check(
        &mut self,
        connection: &ConnectionState,
        now: Instant,
        tick: Duration,
        limits: &Limits,
    ) -> Option<Command> {
        if self.has_changed(connection) {
            self.observe(connection, now);
        }
        // No limit ends early. A machine that was suspended is no pause of the peer: it counts as one tick.
        let elapsed = now.duration_since(self.looked).min(tick);
        self.looked = now;
        if connection.waits_for_peer() {
            let nudge = connection.progress().is_writing().then_some(Command::Nudge);
            let limit = self.check_body(connection, elapsed, limits);
            return limit.map(Command::TooSlow).or(nudge);
        }
        let over = |limit: Duration| !limit.is_zero() && now.duration_since(self.since) >= limit;
        match self.phase {
            Phase::Idle if over(limits.idle_timeout) => Some(Command::Finish),
            Phase::Idle => {
                let is_due = !self.rests && now.duration_since(self.since) >= REST_AFTER;
                self.rests |= is_due;
                is_due.then_some(Command::Rest)
            }
            Phase::Head => over(limits.header_timeout).then_some(Command::LateHead),
            Phase::Serving if connection.may_be_alone() => {
                over(HALF_CLOSED).then_some(Command::Abandon)
            }
            Phase::Serving | Phase::Watching | Phase::Multiplexing => None,
        }
    }

    fn observe(&mut self, connection: &ConnectionState, now: Instant) {
        // Requests of other streams say nothing of the bytes that wait for their client.
        let is_next = connection.requests() != self.requests;
        if is_next && connection.phase() != Phase::Multiplexing {
            self.moved = connection.progress().moved();
            self.moved_before = self.moved;
            (self.paused, self.judged) = (Duration::ZERO, Duration::ZERO);
            self.looked = now;
        }
        (self.phase, self.requests) = (connection.phase(), connection.requests());
        (self.since, self.rests) = (now, false);
    }

    /// The limit that a peer exceeds while its connection waits to receive or send a body, `elapsed` after the last check.
    fn check_body(
        &mut self,
        connection: &ConnectionState,
        elapsed: Duration,
        limits: &Limits,
    ) -> Option<TimeLimit> {
        let moved = connection.progress().moved();
        if moved == self.moved {
            self.paused += elapsed;
            let is_over = !limits.body_timeout.is_zero() && self.paused >= limits.body_timeout;
            return is_over.then_some(TimeLimit::Body);
        }
        self.judged += elapsed + self.paused.min(LONGEST_STEP);
        (self.moved, self.paused) = (moved, Duration::ZERO);
        if self.judged < RATE_WINDOW {
            return None;
        }
        let fewest = limits.min_rate.saturating_mul(RATE_WINDOW.as_secs());
        let is_slow = moved - self.moved_before < fewest;
        (self.judged, self.moved_before) = (Duration::ZERO, moved);
        is_slow.then_some(TimeLimit::Rate)
    }
}

/// A command to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Finish the request under way, then close.
    Finish,
    /// Close after the next answer, and say so in it.
    Last,
    /// Try to send.
    Nudge,
    /// Nothing has happened for a while: keep no buffers.
    Rest,
    /// Close: the head of a request did not arrive in time.
    LateHead,
    /// Cut: a response is made for a client that has closed its side, and may have gone.
    Abandon,
    /// Stop waiting: the peer is over this limit with a body.
    TooSlow(TimeLimit),
}

/// The place of one command for a connection. A later one replaces it, unless it is a hint: then the connection is woken and
/// finds the earlier one.
#[derive(Debug, Default)]
struct CommandSlot {
    command: Cell<Option<Command>>,
    waker: RefCell<Option<Waker>>,
}

impl CommandSlot {
    /// Leaves `command` here, and wakes the connection.
    fn send(&self, command: Command) {
        let is_hint = matches!(command, Command::Nudge | Command::Rest);
        if !is_hint || self.command.get().is_none() {
            self.command.set(Some(command));
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Takes the command that waits; has `cx` woken for the next one.
    fn take(&self, cx: &Context<'_>) -> Option<Command> {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.command.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use hyper::Method;

    use super::*;

    /// A request that changes something is done whatever its client does.
    #[test]
    fn a_reader_that_may_have_gone_is_given_up_in_time_and_a_writer_never_is() {
        let limits = Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            min_rate: 1000,
        };
        let (start, tick) = (Instant::now(), Duration::from_secs(1));
        for (method, command) in [
            (Method::GET, Some(Command::Abandon)),
            (Method::HEAD, Some(Command::Abandon)),
            (Method::PUT, None),
            (Method::DELETE, None),
        ] {
            let connection = ConnectionState::left_by_its_client(&method);
            let mut observed = Observed::new(&connection, start);
            let mut check = |after| observed.check(&connection, start + after, tick, &limits);
            assert_eq!(check(HALF_CLOSED / 2), None, "{method}");
            assert_eq!(check(HALF_CLOSED), command, "{method}");
        }
    }

    /// It counted a whole tick for a request that had just begun: a pause ended a tick before its limit.
    #[test]
    fn no_pause_ends_before_its_limit_and_a_suspended_machine_is_no_pause() {
        let (limit, tick) = (Duration::from_secs(2), Duration::from_millis(250));
        let limits = Limits {
            header_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            body_timeout: limit,
            min_rate: 0,
        };
        let start = Instant::now();
        let connection = ConnectionState::receiving(&Method::PUT);
        let mut observed = Observed::new(&connection, start);
        let mut check = |after| observed.check(&connection, start + after, tick, &limits);
        let over = Some(Command::TooSlow(TimeLimit::Body));
        // The first tick comes soon after the request.
        let first = tick / 5;
        for n in 0..8 {
            assert_eq!(check(first + n * tick), None, "{n}");
        }
        assert_eq!(check(first + 8 * tick), over);
        connection.progress().count(1);
        let later = Duration::from_secs(100);
        assert_eq!(check(later), None);
        assert_eq!(check(later * 2), None);
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const WEIGHTY: [Command; 5] = [
        Command::Finish,
        Command::Last,
        Command::LateHead,
        Command::Abandon,
        Command::TooSlow(TimeLimit::Rate),
    ];

    #[test]
    fn a_nudge_does_not_replace_a_command_that_was_not_taken_yet() {
        for command in WEIGHTY {
            let slot = CommandSlot::default();
            slot.send(command);
            slot.send(Command::Nudge);
            assert_eq!(slot.command.take(), Some(command));
            // Once that is taken, a nudge has room.
            slot.send(Command::Nudge);
            assert_eq!(slot.command.take(), Some(Command::Nudge));
        }
    }

    #[test]
    fn any_command_takes_the_place_of_a_nudge_and_a_later_one_that_of_an_earlier() {
        for command in WEIGHTY {
            let slot = CommandSlot::default();
            slot.send(Command::Nudge);
            slot.send(command);
            assert_eq!(slot.command.get(), Some(command));
            slot.send(Command::Finish);
            assert_eq!(slot.command.get(), Some(Command::Finish));
        }
    }

    #[test]
    fn a_connection_is_woken_for_every_command_also_for_a_nudge_that_replaces_none() {
        let woken = Arc::new(Woken::default());
        let slot = CommandSlot::default();
        *slot.waker.borrow_mut() = Some(Arc::clone(&woken).into());
        for (sent, command) in (1..).zip([Command::Finish, Command::Nudge, Command::Nudge]) {
            slot.send(command);
            assert_eq!(woken.0.load(Ordering::Relaxed), sent);
        }
    }
}
