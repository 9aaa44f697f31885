//! The time limits of connections: which are exceeded, and what follows.
//!
//! Pure. Only time spent waiting for the peer counts: a slow disk is never the client's fault, and an honest transfer
//! has no deadline. One exception: a client that has closed its side may have gone, and what only it would read is not
//! computed for long.

use std::time::Duration;

use tokio::time::Instant;

use super::command::Command;
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

impl Limits {
    /// How often connections are looked at: often enough for the shortest limit, at most once a second in the rule.
    pub(super) fn tick(&self) -> Duration {
        let limits = [self.header_timeout, self.idle_timeout];
        let shortest = limits.into_iter().filter(|limit| !limit.is_zero()).min();
        let tick = shortest.unwrap_or(RATE_WINDOW) / 8;
        tick.clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

/// What earlier sweeps saw of a connection.
#[derive(Debug)]
pub(super) struct Observed {
    phase: Phase,
    requests: u64,
    /// When this phase was first seen.
    since: Instant,
    /// It was asked to rest in this phase.
    rests: bool,
    /// Time of the current rate window spent waiting for the peer.
    waited: Duration,
    /// Bytes moved before the current rate window.
    moved: u64,
}

impl Observed {
    /// Of a new connection.
    pub(super) fn new(connection: &ConnectionState, now: Instant) -> Self {
        Self {
            phase: connection.phase(),
            requests: connection.requests(),
            since: now,
            rests: false,
            waited: Duration::ZERO,
            moved: 0,
        }
    }

    /// An order by how long connections have been idle: what has changed since the last sweep comes last.
    pub(super) fn idle_since(&self, connection: &ConnectionState) -> (bool, Instant) {
        (self.has_changed(connection), self.since)
    }

    fn has_changed(&self, connection: &ConnectionState) -> bool {
        (connection.phase(), connection.requests()) != (self.phase, self.requests)
    }

    /// Which command a connection in this state gets, `now`.
    pub(super) fn check(
        &mut self,
        connection: &ConnectionState,
        now: Instant,
        tick: Duration,
        limits: &Limits,
    ) -> Option<Command> {
        if self.has_changed(connection) {
            self.observe(connection, now);
        }
        if connection.waits_for_peer() {
            let nudge = connection.progress().is_writing().then_some(Command::Nudge);
            return self.check_rate(connection, tick, limits.min_rate).or(nudge);
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
                over(HALF_CLOSED).then_some(Command::TooSlow)
            }
            Phase::Serving | Phase::Watching | Phase::Multiplexing => None,
        }
    }

    fn observe(&mut self, connection: &ConnectionState, now: Instant) {
        // Requests of other streams say nothing of the bytes that wait for their client.
        let is_next = connection.requests() != self.requests;
        if is_next && connection.phase() != Phase::Multiplexing {
            (self.waited, self.moved) = (Duration::ZERO, connection.progress().moved());
        }
        (self.phase, self.requests) = (connection.phase(), connection.requests());
        (self.since, self.rests) = (now, false);
    }

    fn check_rate(
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
        (moved < min_rate.saturating_mul(RATE_WINDOW.as_secs())).then_some(Command::TooSlow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

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
            let mut observed = Observed::new(&connection, start);
            let mut check = |after| observed.check(&connection, start + after, tick, &limits);
            assert_eq!(check(HALF_CLOSED / 2), None, "{method}");
            assert_eq!(check(HALF_CLOSED), command, "{method}");
        }
    }
}
