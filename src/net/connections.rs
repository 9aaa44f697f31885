//! The open connections of one reactor, and their time limits.
//!
//! A sweep once a tick looks at each [`Exchange`], and asks those to end that are over a time limit; so a request costs
//! no timer and no clock reading, and a limit is kept to within a tick. Only time spent waiting for the peer counts: a
//! slow disk is never the client's fault, and an honest transfer has no deadline. One exception: a client that has
//! closed its side may have gone, and a response for it alone is not computed for long. A drain and a shortage of
//! connections ask here too. A stream of HTTP/2 has an entry beside its connection's: a slow one ends alone.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use slab::Slab;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::http::{Ends, Exceeded, Exchange, Phase};
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

/// A connection that has kept the server waiting for so long, or has watched, is closed when another client waits for
/// its place.
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
    entries: RefCell<Slab<ConnectionEntry>>,
    /// What every connection was asked, and a new one is.
    ends: Cell<Ends>,
    /// A connection has ended.
    ended: Notify,
}

/// A connection or stream among those of its reactor, which it leaves when this is dropped.
pub(super) struct Entered<'a> {
    connections: &'a Connections,
    pub(super) index: usize,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: RefCell::default(),
            ends: Cell::default(),
            ended: Notify::new(),
        }
    }

    /// Adds a connection, or a stream of the `connection` with this index.
    pub(super) fn add(&self, exchange: &Rc<Exchange>, connection: Option<usize>) -> Entered<'_> {
        exchange.connection().end(self.ends.get());
        let entry = ConnectionEntry::new(exchange, connection, Instant::now());
        Entered {
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
                if entry.check(now, tick, &self.limits) {
                    entry.exchange.wake();
                }
            }
        }
    }

    /// Asks every connection to end, now and from now on.
    pub(super) fn end(&self, ends: Ends) {
        self.ends.set(ends);
        for (_, entry) in &*self.entries.borrow() {
            entry.exchange.connection().end(ends);
            entry.exchange.wake();
        }
    }

    /// Asks the connection that has been idle longest to finish, or gives up the one that has kept the server waiting
    /// longest in its bodies, or asks the one that has watched longest, if there is one that was not asked before and
    /// `confirm` agrees. How long is known to within a tick.
    pub(super) fn close_idlest(&self, confirm: impl FnOnce() -> bool) {
        let entries = self.entries.borrow();
        let times = |entry: &ConnectionEntry| [entry.waited(&self.limits), entry.watched()];
        // A connection with several streams waits as long as the one that waits least: the others may go on.
        let mut of_streams = HashMap::new();
        for (_, stream) in &*entries {
            if let Some(connection) = stream.connection {
                let [waited, watched] = times(stream);
                let least = of_streams.entry(connection).or_insert([waited, watched]);
                *least = [waited.min(least[0]), watched.min(least[1])];
            }
        }
        let times = |index, entry| {
            let [waited, watched] = of_streams.get(&index).copied().unwrap_or_default();
            let own = times(entry);
            [waited.max(own[0]), watched.max(own[1])]
        };
        let among = |most| {
            connections(&entries).filter(move |(_, ConnectionEntry { exchange, .. })| {
                exchange.exceeded() == Exceeded::No && exchange.connection().ends() <= most
            })
        };
        let idle = among(Ends::Last).filter(|(_, entry)| entry.exchange.phase() == Phase::Idle);
        // What has changed since the last sweep comes last.
        let idlest = idle.min_by_key(|(_, entry)| (entry.has_changed(), entry.since));
        if let Some((_, entry)) = idlest {
            if confirm() {
                entry.exchange.connection().end(Ends::Finish);
                entry.exchange.wake();
            }
            return;
        }
        // Also one that was asked to finish, and is waited for with its last response.
        let waiting = among(Ends::Finish).map(|(index, entry)| {
            let [waited, _] = times(index, entry);
            (waited, entry)
        });
        if let Some((waited, entry)) = waiting.max_by_key(|(waited, _)| *waited)
            && waited >= PATIENCE
        {
            if confirm() {
                entry.exchange.exceed(TimeLimit::Body);
                entry.exchange.wake();
            }
            return;
        }
        // A watcher can resume where it was when it has a place again.
        let watching = among(Ends::Last).map(|(index, entry)| (times(index, entry)[1], entry));
        if let Some((watched, entry)) = watching.max_by_key(|(watched, _)| *watched)
            && watched >= PATIENCE
            && confirm()
        {
            entry.exchange.connection().end(Ends::Finish);
            entry.exchange.wake();
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
fn connections(entries: &Slab<ConnectionEntry>) -> impl Iterator<Item = (usize, &ConnectionEntry)> {
    (entries.iter()).filter(|(_, entry)| entry.connection.is_none())
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let entry = self.connections.entries.borrow_mut().remove(self.index);
        // Not before: with it may go a waker, which is not ours.
        drop(entry);
        self.connections.ended.notify_waiters();
    }
}

/// The entry of a connection or a stream: what earlier sweeps have seen of it.
#[derive(Debug)]
struct ConnectionEntry {
    exchange: Rc<Exchange>,
    /// The connection of a stream.
    connection: Option<usize>,
    phase: Phase,
    /// Requests of its connection.
    requests: u64,
    /// When the request began whose body it has. On a connection of HTTP/2 none does: requests of streams say nothing
    /// of the bytes that wait for their client.
    began: std::time::Instant,
    /// When this phase was first seen.
    since: Instant,
    /// When it was first seen idle after this number of requests. A part of a frame of HTTP/2 that begins no request
    /// ends no rest.
    idle: Option<Instant>,
    /// When it was looked at last, or a request began after that.
    last_check: Instant,
    /// Bytes moved when it was looked at last.
    moved: u64,
    /// How long the peer has kept the server waiting in a body, less what its bytes gave it.
    waited: Duration,
    /// The part of that since bytes moved last.
    paused: Duration,
}

impl ConnectionEntry {
    fn new(exchange: &Rc<Exchange>, connection: Option<usize>, now: Instant) -> Self {
        Self {
            exchange: Rc::clone(exchange),
            connection,
            phase: exchange.phase(),
            requests: exchange.connection().requests.get(),
            began: exchange.record.began(),
            since: now,
            idle: None,
            last_check: now,
            moved: 0,
            waited: Duration::ZERO,
            paused: Duration::ZERO,
        }
    }

    /// How long the peer has kept the server waiting by now; not at all while it does not.
    fn waited(&self, limits: &Limits) -> Duration {
        if !self.exchange.waits_for_peer() {
            return Duration::ZERO;
        }
        let moved = self.exchange.progress.moved.get() - self.moved;
        self.waited.saturating_sub(limits.time_for(moved))
    }

    /// How long it has watched changes; not at all while it does not.
    fn watched(&self) -> Duration {
        let is_watching = self.exchange.phase() == Phase::Watching;
        let began = is_watching.then(|| self.exchange.record.began());
        began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn has_changed(&self) -> bool {
        let requests = self.exchange.connection().requests.get();
        (self.exchange.phase(), requests) != (self.phase, self.requests)
    }

    /// Asks what is due `now`; true where the owner of the exchange is to be woken for it.
    fn check(&mut self, now: Instant, tick: Duration, limits: &Limits) -> bool {
        if self.has_changed() {
            self.observe(now);
        }
        // No limit ends early. A machine that was suspended is no pause of the peer: it counts as one tick.
        let elapsed = now.duration_since(self.last_check).min(tick);
        self.last_check = now;
        if self.exchange.waits_for_peer() {
            let limit = self.check_body(elapsed, limits);
            let is_over = limit.is_some_and(|limit| self.exchange.exceed(limit));
            return self.exchange.progress.nudge() || is_over;
        }
        // A body goes on: a sweep may meet the moment between two reads, and only its bytes give time back.
        if self.phase != Phase::Serving {
            self.waited = Duration::ZERO;
        }
        self.paused = Duration::ZERO;
        if self.connection.is_some() {
            return false;
        }
        let connection = self.exchange.connection();
        let elapsed = now.duration_since(self.since);
        let over = |limit: Duration| !limit.is_zero() && elapsed >= limit;
        match self.phase {
            Phase::Idle if over(limits.idle_timeout) => connection.end(Ends::Finish),
            Phase::Idle => elapsed >= REST_AFTER && connection.rest(),
            Phase::Head => over(limits.header_timeout) && connection.expire_head(),
            Phase::Serving if self.exchange.may_be_alone() => {
                over(HALF_CLOSED) && connection.end(Ends::Abandon)
            }
            Phase::Serving | Phase::Watching => false,
        }
    }

    fn observe(&mut self, now: Instant) {
        let exchange = &self.exchange;
        if self.began != exchange.record.began() {
            self.began = exchange.record.began();
            self.moved = exchange.progress.moved.get();
            (self.waited, self.paused) = (Duration::ZERO, Duration::ZERO);
            self.last_check = now;
        }
        let requests = exchange.connection().requests.get();
        self.idle = self.idle.filter(|_| requests == self.requests);
        (self.phase, self.requests, self.since) = (exchange.phase(), requests, now);
        if self.phase == Phase::Idle {
            self.since = *self.idle.get_or_insert(now);
        }
    }

    /// The limit that a peer exceeds which the server waits for in a body, `elapsed` after the last check: it has
    /// [`Limits::body_timeout`], and gets time back for the bytes that it moves.
    fn check_body(&mut self, elapsed: Duration, limits: &Limits) -> Option<TimeLimit> {
        self.waited += elapsed;
        let waited = self.waited(limits);
        let moved = self.exchange.progress.moved.get();
        // Any byte ends a pause.
        self.paused = (self.paused + elapsed) * u32::from(moved == self.moved);
        (self.waited, self.moved) = (waited, moved);
        let is_over = !limits.body_timeout.is_zero() && waited >= limits.body_timeout;
        // Names what took most of the time: one pause, or many.
        let is_pause = self.paused >= limits.body_timeout / 2;
        is_over.then_some([TimeLimit::Rate, TimeLimit::Body][usize::from(is_pause)])
    }
}

#[cfg(test)]
mod tests {
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
        for (method, ends) in [
            (Method::GET, Ends::Abandon),
            (Method::HEAD, Ends::Abandon),
            (Method::PUT, Ends::Open),
            (Method::DELETE, Ends::Open),
        ] {
            let exchange = Exchange::left_by_its_client(&method);
            let mut entry = ConnectionEntry::new(&exchange, None, start);
            let mut check = |after| {
                entry.check(start + after, tick, &limits);
                exchange.connection().ends()
            };
            assert_eq!(check(HALF_CLOSED / 2), Ends::Open, "{method}");
            assert_eq!(check(HALF_CLOSED), ends, "{method}");
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
        let exchange = Exchange::receiving(&Method::GET);
        let stream = Rc::new(Exchange::new(exchange.connection()));
        let mut entry = ConnectionEntry::new(&exchange, None, start);
        let mut check = |after| {
            entry.check(start + after * tick, tick, &limits);
            let connection = exchange.connection();
            (connection.is_quiet(), connection.ends())
        };
        exchange.end();
        assert_eq!(check(1), (false, Ends::Open));
        for half in 2..11 {
            exchange.begin_head();
            assert_eq!(check(half), (false, Ends::Open), "{half}");
            exchange.end();
        }
        assert_eq!(check(11), (false, Ends::Finish));
        // What was asked stays asked.
        stream.begin(&Method::GET);
        exchange.begin_streams();
        assert!(!check(12).0);
        exchange.end();
        assert!(!check(13).0);
        assert!(check(22).0);
    }

    /// Requests of other streams, between two sweeps, leave no trace but their number.
    #[test]
    fn a_request_of_a_stream_ends_the_rest_of_its_connection_and_no_wait_for_its_client() {
        let limits = Limits {
            header_timeout: Duration::ZERO,
            idle_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            min_rate: 0,
        };
        let (start, tick) = (Instant::now(), Duration::from_secs(1));
        for is_stuck in [false, true] {
            let exchange = Exchange::of_new_connection();
            exchange.end();
            exchange.progress.writing.set(is_stuck);
            let mut entry = ConnectionEntry::new(&exchange, None, start);
            for after in 0..30 {
                let stream = Rc::new(Exchange::new(exchange.connection()));
                stream.begin(&Method::GET);
                entry.check(start + after * tick, tick, &limits);
            }
            let ended = (
                exchange.exceeded() != Exceeded::No,
                exchange.connection().ends(),
            );
            assert_eq!(ended, (is_stuck, Ends::Open));
        }
    }

    /// Follows a client that moves some bytes in each step of some ticks: how long it was waited for when it was cut,
    /// if it was.
    fn cut_after(limits: &Limits, steps: &[(u32, u64)]) -> Option<Duration> {
        let tick = limits.tick();
        let start = Instant::now();
        let exchange = Exchange::receiving(&Method::PUT);
        let mut entry = ConnectionEntry::new(&exchange, None, start);
        let mut now = start;
        let mut is_cut = |now| {
            entry.check(now, tick, limits);
            exchange.exceeded() != Exceeded::No
        };
        assert!(!is_cut(now));
        for &(ticks, bytes) in steps {
            for _ in 0..ticks {
                now += tick;
                if is_cut(now) {
                    return Some(now - start);
                }
            }
            exchange
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
        let exchange = Exchange::receiving(&Method::PUT);
        let mut entry = ConnectionEntry::new(&exchange, None, start);
        let mut check = |after, is_waiting| {
            exchange.progress.count_received(1);
            exchange.progress.reading.set(is_waiting);
            entry.check(start + after * tick, tick, &limits);
            exchange.exceeded() != Exceeded::No
        };
        let cut = (1..30).find(|&n| check(n, n % 5 != 0));
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
        let exchange = Exchange::receiving(&Method::PUT);
        let mut entry = ConnectionEntry::new(&exchange, None, start);
        let mut check = |after| {
            entry.check(start + after, tick, &limits);
            exchange.exceeded()
        };
        // The first tick comes soon after the request.
        let first = tick / 5;
        for n in 0..8 {
            assert_eq!(check(first + n * tick), Exceeded::No, "{n}");
        }
        let once = Exceeded::Once(TimeLimit::Body);
        assert_eq!(check(first + 8 * tick), once);
        exchange.progress.count(1);
        let later = Duration::from_secs(100);
        assert_eq!(check(later), once);
        assert_eq!(check(later * 2), once);
    }
}
