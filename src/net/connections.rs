//! The open connections of one reactor, their time limits, and the commands to them.
//!
//! A sweep once a tick looks at each [`ConnectionState`] and sends a command to those over a time limit; so a request
//! costs no timer and no clock reading, and a limit is kept to within a tick. Only time spent waiting for the peer
//! counts: a slow disk is never the client's fault, and an honest transfer has no deadline. One exception: a client
//! that has closed its side may have gone, and a response for it alone is not computed for long. A drain and a shortage
//! of connections send their commands here too. A stream of HTTP/2 has an entry beside its connection's: a slow one
//! ends alone.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
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
    /// The time that a peer may keep the server waiting in a body. Zero is for ever.
    pub body_timeout: Duration,
    /// Bytes of a body that give a peer another second of that time, up to all of it. Zero: any byte gives all of it.
    pub min_rate: u64,
}

/// How long a response is made for a client that has closed its side, which one that has gone does too.
const HALF_CLOSED: Duration = Duration::from_secs(60);

/// A connection that has kept the server waiting for so long is closed when another client waits for its place.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection keeps its buffers between requests. A client that asks again soon finds them there.
const REST_AFTER: Duration = Duration::from_secs(1);

impl Limits {
    /// How often connections are looked at: often enough for the shortest limit, at most once a second in the rule.
    fn tick(&self) -> Duration {
        let limits = [self.header_timeout, self.idle_timeout, self.body_timeout];
        let shortest = limits.into_iter().filter(|limit| !limit.is_zero()).min();
        let longest = Duration::from_secs(1);
        let tick = shortest.map_or(longest, |limit| limit / 8);
        tick.clamp(Duration::from_millis(10), longest)
    }

    /// The time that `bytes` of a body give a peer.
    fn time_for(&self, bytes: u64) -> Duration {
        match bytes.saturating_mul(1_000_000).checked_div(self.min_rate) {
            None if bytes == 0 => Duration::ZERO,
            micros => Duration::from_micros(micros.unwrap_or(u64::MAX)),
        }
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
    slot: CommandSlot,
    observed: Observed,
    /// The connection of a stream.
    connection: Option<usize>,
}

/// The commands to one connection, which leaves its reactor's connections when this is dropped.
pub(super) struct Commands<'a> {
    connections: &'a Connections,
    pub(super) index: usize,
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

    /// Adds a connection, or a stream of the `connection` with this index.
    pub(super) fn add(
        &self,
        state: &Rc<ConnectionState>,
        connection: Option<usize>,
    ) -> Commands<'_> {
        let slot = CommandSlot::default();
        if let Some(command) = self.broadcast.get() {
            slot.send(command);
        }
        let entry = Entry {
            slot,
            observed: Observed::new(state, Instant::now()),
            connection,
        };
        Commands {
            connections: self,
            index: self.entries.borrow_mut().insert(entry),
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
                let command = entry.observed.check(now, tick, &self.limits);
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

    /// Asks the connection that has been idle longest to finish, or gives up the one that has kept the server waiting
    /// longest in its bodies, if there is one that was not asked before and `confirm` agrees. How long is known to
    /// within a tick.
    pub(super) fn close_idlest(&self, confirm: impl FnOnce() -> bool) {
        let entries = self.entries.borrow();
        let waited = |entry: &Entry| entry.observed.waited(&self.limits);
        // A connection with several streams waits as long as the one that waits least: the others may go on.
        let mut of_streams = HashMap::new();
        for (_, stream) in &*entries {
            if let Some(connection) = stream.connection {
                let waited = waited(stream);
                let least = of_streams.entry(connection).or_insert(waited);
                *least = waited.min(*least);
            }
        }
        let among =
            |most| connections(&entries).filter(move |(_, entry)| entry.slot.ending.get() <= most);
        let idle =
            among(Ending::No).filter(|(_, entry)| entry.observed.state.phase() == Phase::Idle);
        // What has changed since the last sweep comes last.
        let since = |observed: &Observed| (observed.has_changed(), observed.since);
        let idlest = idle.min_by_key(|(_, entry)| since(&entry.observed));
        let chosen = idlest
            .map(|(_, entry)| (entry, Command::Finish))
            .or_else(|| {
                // Also one that was asked to finish, and is waited for with its last response.
                let waiting = among(Ending::Asked).map(|(index, entry)| {
                    let of_streams = of_streams.get(&index).copied().unwrap_or_default();
                    (waited(entry).max(of_streams), entry)
                });
                let longest = waiting.max_by_key(|(waited, _)| *waited)?;
                (longest.0 >= PATIENCE).then_some((longest.1, Command::TooSlow(TimeLimit::Body)))
            });
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
        connections(&self.entries.borrow()).count()
    }
}

/// The connections among `entries`, without their streams.
fn connections(entries: &Slab<Entry>) -> impl Iterator<Item = (usize, &Entry)> {
    (entries.iter()).filter(|(_, entry)| entry.connection.is_none())
}

impl Commands<'_> {
    /// Puts back `command`, which was taken, for the next owner of the socket.
    pub(super) fn repeat(&self, command: Command) {
        let entries = self.connections.entries.borrow();
        entries[self.index].slot.send(command);
    }

    /// The next command, if there is one; has `cx` woken for the one after it.
    pub(super) fn next(&self, cx: &Context<'_>) -> Option<Command> {
        let entries = self.connections.entries.borrow();
        let slot = &entries[self.index].slot;
        let mut waker = slot.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        slot.command.take()
    }
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        let entry = self.connections.entries.borrow_mut().remove(self.index);
        // Not before: with it goes a waker, which is not ours.
        drop(entry);
        self.connections.ended.notify_waiters();
    }
}

/// The observations of earlier sweeps of a connection.
#[derive(Debug)]
struct Observed {
    state: Rc<ConnectionState>,
    phase: Phase,
    requests: u64,
    /// When this phase was first seen.
    since: Instant,
    /// When it was first seen idle after this number of requests. A part of a frame of HTTP/2 that begins no request
    /// ends no rest.
    idle: Option<Instant>,
    /// When it was looked at last, or a request began after that.
    last_check: Instant,
    /// It was asked to rest in this phase.
    is_asked_to_rest: bool,
    /// Bytes moved when it was looked at last.
    moved: u64,
    /// How long the peer has kept the server waiting in a body, less what its bytes gave it.
    waited: Duration,
    /// The part of that since bytes moved last.
    paused: Duration,
}

impl Observed {
    fn new(state: &Rc<ConnectionState>, now: Instant) -> Self {
        Self {
            state: Rc::clone(state),
            phase: state.phase(),
            requests: state.requests.get(),
            since: now,
            idle: None,
            last_check: now,
            is_asked_to_rest: false,
            moved: 0,
            waited: Duration::ZERO,
            paused: Duration::ZERO,
        }
    }

    /// How long the peer has kept the server waiting by now; not at all while it does not.
    fn waited(&self, limits: &Limits) -> Duration {
        if !self.state.waits_for_peer() {
            return Duration::ZERO;
        }
        let moved = self.state.progress.moved.get() - self.moved;
        self.waited.saturating_sub(limits.time_for(moved))
    }

    fn has_changed(&self) -> bool {
        (self.state.phase(), self.state.requests.get()) != (self.phase, self.requests)
    }

    /// The command that the connection gets, `now`.
    fn check(&mut self, now: Instant, tick: Duration, limits: &Limits) -> Option<Command> {
        if self.has_changed() {
            self.observe(now);
        }
        // No limit ends early. A machine that was suspended is no pause of the peer: it counts as one tick.
        let elapsed = now.duration_since(self.last_check).min(tick);
        self.last_check = now;
        if self.state.waits_for_peer() {
            let nudge = self.state.progress.writing.get().then_some(Command::Nudge);
            let limit = self.check_body(elapsed, limits);
            return limit.map(Command::TooSlow).or(nudge);
        }
        // A body goes on: a sweep may meet the moment between two reads, and only its bytes give time back.
        if self.phase != Phase::Serving {
            self.waited = Duration::ZERO;
        }
        self.paused = Duration::ZERO;
        let over = |limit: Duration| !limit.is_zero() && now.duration_since(self.since) >= limit;
        match self.phase {
            Phase::Idle if over(limits.idle_timeout) => Some(Command::Finish),
            Phase::Idle => {
                let is_due = !self.is_asked_to_rest && now.duration_since(self.since) >= REST_AFTER;
                self.is_asked_to_rest |= is_due;
                is_due.then_some(Command::Rest)
            }
            Phase::Head => over(limits.header_timeout).then_some(Command::LateHead),
            Phase::Serving if self.state.may_be_alone() => {
                over(HALF_CLOSED).then_some(Command::Abandon)
            }
            Phase::Serving | Phase::Watching | Phase::Multiplexing => None,
        }
    }

    fn observe(&mut self, now: Instant) {
        let state = &self.state;
        // Requests of other streams say nothing of the bytes that wait for their client.
        let is_next = state.requests.get() != self.requests;
        if is_next && state.phase() != Phase::Multiplexing {
            self.moved = state.progress.moved.get();
            (self.waited, self.paused) = (Duration::ZERO, Duration::ZERO);
            self.last_check = now;
        }
        self.idle = self.idle.filter(|_| !is_next);
        (self.phase, self.requests) = (state.phase(), state.requests.get());
        (self.since, self.is_asked_to_rest) = (now, false);
        if self.phase == Phase::Idle {
            self.since = *self.idle.get_or_insert(now);
        }
    }

    /// The limit that a peer exceeds which the server waits for in a body, `elapsed` after the last check: it has
    /// [`Limits::body_timeout`], and gets time back for the bytes that it moves.
    fn check_body(&mut self, elapsed: Duration, limits: &Limits) -> Option<TimeLimit> {
        self.waited += elapsed;
        let waited = self.waited(limits);
        let moved = self.state.progress.moved.get();
        // Any byte ends a pause.
        self.paused = (self.paused + elapsed) * u32::from(moved == self.moved);
        (self.waited, self.moved) = (waited, moved);
        let is_over = !limits.body_timeout.is_zero() && waited >= limits.body_timeout;
        // Names what took most of the time: one pause, or many.
        let is_pause = self.paused >= limits.body_timeout / 2;
        is_over.then_some([TimeLimit::Rate, TimeLimit::Body][usize::from(is_pause)])
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

/// How far a connection was told to end, which only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    #[default]
    No,
    /// It was asked to end, and takes its time.
    Asked,
    /// Its peer was over a limit.
    GivenUp,
}

/// The place of one command for a connection. A later one replaces it, unless it is a hint: then the connection is
/// woken and finds the earlier one.
#[derive(Debug, Default)]
struct CommandSlot {
    command: Cell<Option<Command>>,
    ending: Cell<Ending>,
    waker: RefCell<Option<Waker>>,
}

impl CommandSlot {
    /// Leaves `command` here, and wakes the connection.
    fn send(&self, command: Command) {
        let is_hint = matches!(command, Command::Nudge | Command::Rest);
        if !is_hint || self.command.get().is_none() {
            self.command.set(Some(command));
        }
        let ending = match command {
            Command::TooSlow(_) => Ending::GivenUp,
            Command::Finish => Ending::Asked,
            _ => Ending::No,
        };
        self.ending.set(self.ending.get().max(ending));
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use hyper::Method;
    use proptest::collection::vec;
    use proptest::prelude::*;

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
            let connection = Rc::new(ConnectionState::left_by_its_client(&method));
            let mut observed = Observed::new(&connection, start);
            let mut check = |after| observed.check(start + after, tick, &limits);
            assert_eq!(check(HALF_CLOSED / 2), None, "{method}");
            assert_eq!(check(HALF_CLOSED), command, "{method}");
        }
    }

    /// Half a PING every minute kept a connection of HTTP/2 open for ever.
    #[test]
    fn a_part_of_a_frame_ends_no_rest() {
        let limits = Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            body_timeout: Duration::ZERO,
            min_rate: 0,
        };
        let (start, tick) = (Instant::now(), Duration::from_secs(1));
        let connection = Rc::new(ConnectionState::receiving(&Method::GET));
        let mut observed = Observed::new(&connection, start);
        let mut check = |after| {
            let now = start + after * tick;
            observed.check(now, tick, &limits)
        };
        connection.end();
        assert_eq!(check(1), None);
        for half in 2..11 {
            connection.begin_head();
            assert_eq!(check(half), None);
            connection.end();
        }
        assert_eq!(check(11), Some(Command::Finish));
        connection.begin_stream();
        assert_eq!(check(12), None);
        connection.end();
        assert_eq!(check(13), None);
        assert_eq!(check(22), Some(Command::Rest));
        assert_eq!(check(23), Some(Command::Finish));
    }

    /// Follows a client that moves some bytes in each step of some ticks: how long it was waited for when it was cut,
    /// if it was.
    fn cut_after(limits: &Limits, steps: &[(u32, u64)]) -> Option<Duration> {
        let tick = limits.tick();
        let start = Instant::now();
        let connection = Rc::new(ConnectionState::receiving(&Method::PUT));
        let mut observed = Observed::new(&connection, start);
        let mut now = start;
        let mut check = |now| observed.check(now, tick, limits);
        assert_eq!(check(now), None);
        for &(ticks, bytes) in steps {
            for _ in 0..ticks {
                now += tick;
                if check(now).is_some() {
                    return Some(now - start);
                }
            }
            connection
                .progress
                .count_received(usize::try_from(bytes).unwrap());
        }
        None
    }

    proptest! {
        /// The rule as the page states it, for whatever a client does: 40 B/s lived for ever, each pause counting a
        /// second.
        #[test]
        fn a_client_has_the_time_to_pause_and_what_its_bytes_give_and_no_more(
            steps in vec((0..70_u32, prop_oneof![0..100_u64, 0..100_000_u64]), 0..60),
            min_rate in prop_oneof![Just(0), Just(1024), 1..100_000_u64],
        ) {
            let limits = Limits {
                header_timeout: Duration::ZERO,
                idle_timeout: Duration::ZERO,
                body_timeout: Duration::from_secs(60),
                min_rate,
            };
            // When it is due if it may pause for so long.
            let due = |most: Duration| {
                let (mut left, mut at) = (most, Duration::ZERO);
                for &(ticks, bytes) in &steps {
                    let pause = ticks * limits.tick();
                    if pause >= left {
                        return at + left;
                    }
                    (left, at) = (left.saturating_sub(pause), at + pause);
                    left = left.saturating_add(limits.time_for(bytes)).min(most);
                }
                Duration::MAX
            };
            let cut = cut_after(&limits, &steps).unwrap_or(Duration::MAX);
            let earliest = due(limits.body_timeout);
            prop_assert!(cut >= earliest, "{cut:?}, before {earliest:?}");
            let latest = due(limits.body_timeout + 2 * limits.tick());
            prop_assert!(cut <= latest, "{cut:?}, after {latest:?}");
        }
    }

    /// A sweep between the arrival of a byte and the next read gave a client all of its time anew.
    #[test]
    fn a_look_between_two_reads_gives_no_time_back() {
        let limits = Limits {
            header_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            body_timeout: Duration::from_secs(10),
            min_rate: 1024,
        };
        let (start, tick) = (Instant::now(), limits.tick());
        let connection = Rc::new(ConnectionState::receiving(&Method::PUT));
        let mut observed = Observed::new(&connection, start);
        let mut check = |after, is_waiting| {
            connection.progress.count_received(1);
            connection.progress.reading.set(is_waiting);
            observed.check(start + after * tick, tick, &limits)
        };
        let cut = (1..30).find(|&n| check(n, n % 5 != 0).is_some());
        assert_eq!(cut, Some(13));
    }

    /// What was tried on the server, in seconds and bytes.
    #[test]
    fn a_client_below_the_rate_is_cut_and_one_that_pauses_is_not() {
        let limits = Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(60),
            min_rate: 1024,
        };
        let hour = |pause: u32, bytes| vec![(pause, bytes); (3600 / pause) as usize];
        for (pause, bytes, most) in [
            (1, 298, 90),
            (9, 2_200, 80),
            (30, 2_200, 70),
            (55, 2_200, 63),
        ] {
            let cut = cut_after(&limits, &hour(pause, bytes)).expect("it is cut");
            let is_right = cut <= Duration::from_secs(most);
            assert!(is_right, "{pause} s, {bytes} B: {cut:?}");
        }
        for (pause, bytes) in [(1, 1_500), (1, 2_000), (50, 1 << 20), (43, 64 << 10)] {
            let found = cut_after(&limits, &hour(pause, bytes));
            assert_eq!(found, None, "{pause} s, {bytes} B");
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
        let connection = Rc::new(ConnectionState::receiving(&Method::PUT));
        let mut observed = Observed::new(&connection, start);
        let mut check = |after| observed.check(start + after, tick, &limits);
        let over = Some(Command::TooSlow(TimeLimit::Body));
        // The first tick comes soon after the request.
        let first = tick / 5;
        for n in 0..8 {
            assert_eq!(check(first + n * tick), None, "{n}");
        }
        assert_eq!(check(first + 8 * tick), over);
        connection.progress.count(1);
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
