//! The time limits of one reactor's connections, and their drain.
//!
//! A sweep once a tick looks at each [`ConnectionState`] and sends a command to those that are over a limit; so a
//! request costs no timer and no clock reading, and a limit is kept to within a tick. Only time spent waiting for the
//! peer counts: a slow disk is never the client's fault, and an honest transfer has no deadline. One exception: a
//! client that has closed its side may have gone, and what only it would read is not computed for long.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::http::{ConnectionState, Phase};

/// How long peers may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the first byte of a request's head, or the start of the connection, to the head's end. Zero is for ever.
    pub header_timeout: Duration,
    /// Between requests. Zero is for ever.
    pub idle_timeout: Duration,
    /// Body bytes a second that a peer must send or take, averaged over [`RATE_WINDOW`]. Zero is any.
    pub min_rate: u64,
}

/// How long a response is made for a client that has closed its side, which one that has gone does too.
const HALF_CLOSED: Duration = Duration::from_secs(60);

/// What [`Limits::min_rate`] is averaged over.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);

/// How long a connection keeps its buffers between requests. A client that asks again soon finds them there.
const REST_AFTER: Duration = Duration::from_secs(1);

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Finish what you are doing, then close.
    Finish,
    /// Close after the next answer, and say so in it.
    Last,
    /// Try to send.
    Nudge,
    /// Nothing has happened for a while: keep no buffers.
    Rest,
    /// Close: the head of a request did not arrive in time.
    LateHead,
    /// Close: the peer is too slow with a body.
    TooSlow,
}

/// The connections of one reactor.
#[derive(Debug)]
pub(super) struct Timeouts {
    limits: Limits,
    entries: RefCell<Slab<Entry>>,
    /// What every connection has been told, and a new one is.
    told: Cell<Option<Command>>,
    /// A connection has ended.
    ended: Notify,
}

#[derive(Debug)]
struct Entry {
    signal: Rc<Signal>,
    connection: Rc<ConnectionState>,
    seen: Seen,
}

impl Entry {
    /// Whether it is between requests, and has not been told to finish.
    fn is_idle(&self) -> bool {
        self.connection.phase() == Phase::Idle && self.signal.command.get() != Some(Command::Finish)
    }

    /// Whether it has done anything since the last sweep.
    fn has_changed(&self) -> bool {
        (self.connection.phase(), self.connection.requests())
            != (self.seen.phase, self.seen.requests)
    }
}

/// How a connection learns its command.
#[derive(Debug, Default)]
struct Signal {
    command: Cell<Option<Command>>,
    waker: RefCell<Option<Waker>>,
}

impl Signal {
    fn tell(&self, command: Command) {
        // What changes nothing of the outcome hides no command that does.
        let is_light = matches!(command, Command::Nudge | Command::Rest);
        if !is_light || self.command.get().is_none() {
            self.command.set(Some(command));
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// What earlier sweeps saw of a connection.
#[derive(Debug)]
struct Seen {
    phase: Phase,
    requests: u64,
    /// When this phase was first seen.
    since: Instant,
    /// It was told to rest in this phase.
    rests: bool,
    /// Time of the current rate window spent waiting for the peer.
    waited: Duration,
    /// Bytes moved before the current rate window.
    moved: u64,
}

/// A connection's place in the watch, given up when it is dropped.
pub(super) struct Commands<'a> {
    timeouts: &'a Timeouts,
    place: usize,
    signal: Rc<Signal>,
}

impl Timeouts {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: RefCell::default(),
            told: Cell::new(None),
            ended: Notify::new(),
        }
    }

    /// Adds a connection.
    pub(super) fn add(&self, connection: &Rc<ConnectionState>) -> Commands<'_> {
        let signal = Rc::new(Signal::default());
        if let Some(command) = self.told.get() {
            signal.tell(command);
        }
        let seen = Seen {
            phase: Phase::Head,
            requests: 0,
            since: Instant::now(),
            rests: false,
            waited: Duration::ZERO,
            moved: 0,
        };
        let entry = Entry {
            signal: Rc::clone(&signal),
            connection: Rc::clone(connection),
            seen,
        };
        Commands {
            timeouts: self,
            place: self.entries.borrow_mut().insert(entry),
            signal,
        }
    }

    /// Sweeps once a tick, for ever.
    pub(super) async fn keep(&self) {
        let tick = self.tick();
        let mut ticks = tokio::time::interval(tick);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            for (_, entry) in self.entries.borrow_mut().iter_mut() {
                if let Some(command) = entry.seen.judge(&entry.connection, now, tick, &self.limits)
                {
                    entry.signal.tell(command);
                }
            }
        }
    }

    /// Often enough for the shortest limit, at most once a second in the rule.
    fn tick(&self) -> Duration {
        let limits = [self.limits.header_timeout, self.limits.idle_timeout];
        let shortest = limits
            .into_iter()
            .filter(|l| !l.is_zero())
            .min()
            .unwrap_or(RATE_WINDOW);
        (shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Tells every connection, now and from now on, that its next answer is the last.
    pub(super) fn announce_end(&self) {
        self.tell_all(Command::Last);
    }

    /// Tells every connection, now and from now on, to finish.
    pub(super) fn drain(&self) {
        self.tell_all(Command::Finish);
    }

    fn tell_all(&self, command: Command) {
        self.told.set(Some(command));
        for (_, entry) in &*self.entries.borrow() {
            entry.signal.tell(command);
        }
    }

    /// Tells the connection that has been idle longest to finish, if there is one and `claim` agrees. How long is known
    /// to within a tick.
    pub(super) fn close_idlest(&self, claim: impl FnOnce() -> bool) {
        let entries = self.entries.borrow();
        let idle = entries.iter().map(|(_, entry)| entry);
        let idle = idle.filter(|entry| entry.is_idle());
        let idlest = idle.min_by_key(|entry| (entry.has_changed(), entry.seen.since));
        if let Some(entry) = idlest
            && claim()
        {
            entry.signal.tell(Command::Finish);
        }
    }

    /// Waits until a connection ends.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Waits until no connection is left.
    pub(super) async fn emptied(&self) {
        while !self.entries.borrow().is_empty() {
            self.ended().await;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.borrow().len()
    }
}

impl Seen {
    /// What to tell a connection in this state, `now`.
    fn judge(
        &mut self,
        connection: &ConnectionState,
        now: Instant,
        tick: Duration,
        limits: &Limits,
    ) -> Option<Command> {
        let (phase, requests) = (connection.phase(), connection.requests());
        if requests != self.requests || phase != self.phase {
            if requests != self.requests {
                (self.waited, self.moved) = (Duration::ZERO, connection.progress().moved());
            }
            (self.phase, self.requests, self.since) = (phase, requests, now);
            self.rests = false;
        }
        if connection.waits_for_peer() {
            let nudge = connection.progress().is_writing().then_some(Command::Nudge);
            return self.judge_rate(connection, tick, limits.min_rate).or(nudge);
        }
        let over = |limit: Duration| !limit.is_zero() && now.duration_since(self.since) >= limit;
        match phase {
            Phase::Idle if over(limits.idle_timeout) => Some(Command::Finish),
            Phase::Idle => {
                let is_due = !self.rests && now.duration_since(self.since) >= REST_AFTER;
                self.rests |= is_due;
                is_due.then_some(Command::Rest)
            }
            Phase::Head => over(limits.header_timeout).then_some(Command::LateHead),
            Phase::Serving if connection.may_be_alone() => {
                over(HALF_CLOSED).then_some(Command::TooSlow)
            }
            Phase::Serving | Phase::Watching => None,
        }
    }

    fn judge_rate(
        &mut self,
        connection: &ConnectionState,
        tick: Duration,
        min_rate: u64,
    ) -> Option<Command> {
        self.waited += tick;
        if self.waited < RATE_WINDOW {
            return None;
        }
        let moved = connection.progress().moved() - self.moved;
        (self.waited, self.moved) = (Duration::ZERO, connection.progress().moved());
        (moved < min_rate * RATE_WINDOW.as_secs()).then_some(Command::TooSlow)
    }
}

impl Commands<'_> {
    /// What the connection has been told, and not heard yet; else has `cx` woken when it is told.
    pub(super) fn next(&self, cx: &Context<'_>) -> Option<Command> {
        let mut waker = self.signal.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.signal.command.take()
    }
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        let mut entries = self.timeouts.entries.borrow_mut();
        entries.remove(self.place);
        self.timeouts.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const WEIGHTY: [Command; 4] = [
        Command::Finish,
        Command::Last,
        Command::LateHead,
        Command::TooSlow,
    ];

    /// What changes something is done whatever its client does.
    #[test]
    fn a_reader_that_may_have_gone_is_given_up_in_time_and_a_writer_never_is() {
        let limits = Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            min_rate: 1000,
        };
        let (start, tick) = (Instant::now(), Duration::from_secs(1));
        for (method, command) in [
            (Method::GET, Some(Command::TooSlow)),
            (Method::HEAD, Some(Command::TooSlow)),
            (Method::PUT, None),
            (Method::DELETE, None),
        ] {
            let connection = ConnectionState::left_by_its_client(&method);
            let mut seen = Seen {
                phase: connection.phase(),
                requests: connection.requests(),
                since: start,
                rests: false,
                waited: Duration::ZERO,
                moved: 0,
            };
            let mut judge = |after| seen.judge(&connection, start + after, tick, &limits);
            assert_eq!(judge(HALF_CLOSED / 2), None, "{method}");
            assert_eq!(judge(HALF_CLOSED), command, "{method}");
        }
    }

    #[test]
    fn a_nudge_does_not_hide_a_command_that_was_not_heard_yet() {
        for command in WEIGHTY {
            let signal = Signal::default();
            signal.tell(command);
            signal.tell(Command::Nudge);
            assert_eq!(signal.command.take(), Some(command));
            // Once that is heard, a nudge is.
            signal.tell(Command::Nudge);
            assert_eq!(signal.command.take(), Some(Command::Nudge));
        }
    }

    #[test]
    fn any_command_takes_the_place_of_a_nudge_and_a_later_one_that_of_an_earlier() {
        for command in WEIGHTY {
            let signal = Signal::default();
            signal.tell(Command::Nudge);
            signal.tell(command);
            assert_eq!(signal.command.get(), Some(command));
            signal.tell(Command::Finish);
            assert_eq!(signal.command.get(), Some(Command::Finish));
        }
    }

    #[test]
    fn a_connection_is_woken_for_every_command_also_for_a_nudge_that_another_hides() {
        let woken = Arc::new(Woken::default());
        let signal = Signal::default();
        *signal.waker.borrow_mut() = Some(Arc::clone(&woken).into());
        for (told, command) in (1..).zip([Command::Finish, Command::Nudge, Command::Nudge]) {
            signal.tell(command);
            assert_eq!(woken.0.load(Ordering::Relaxed), told);
        }
    }
}
