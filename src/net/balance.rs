//! Which reactor gets the next connection.

use std::net::TcpStream;

use super::connection_limit::Permit;
use crate::http::Client;
use crate::metrics::ReactorCounters;

/// A reactor that has this many connections more than the next one misses its turn. Otherwise one reactor gets all that stay
/// when long and short connections arrive in turn.
const AHEAD: u64 = 8;

/// A connection that was accepted.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) socket: TcpStream,
    pub(super) client: Client,
    pub(super) permit: Permit,
}

/// A reactor, as accepting sees it.
pub(super) trait Target {
    fn counters(&self) -> &ReactorCounters;

    /// Has the reactor serve the connection, and does not wait for it.
    fn serve(&self, accepted: Accepted);
}

/// The reactors that connections are accepted for: at least one.
#[derive(Clone, Debug)]
pub(super) struct Targets<T> {
    reactors: Vec<T>,
    turn: usize,
}

impl<T: Target> Targets<T> {
    pub(super) fn one(reactor: T) -> Self {
        Self::new(vec![reactor])
    }

    pub(super) fn new(reactors: Vec<T>) -> Self {
        Self { reactors, turn: 0 }
    }

    /// The reactor whose turn it is, which what comes to no connection is counted for.
    pub(super) fn turn(&self) -> &T {
        &self.reactors[self.turn]
    }

    /// The reactor for the next connection: the one whose turn it is, but for one that is far ahead of the next.
    pub(super) fn take_turn(&mut self) -> &T {
        let count = self.reactors.len();
        let active = |i: usize| self.reactors[i].counters().active();
        let next = (self.turn + 1) % count;
        let is_ahead = active(self.turn) >= active(next) + AHEAD;
        let picked = if is_ahead { next } else { self.turn };
        self.turn = (picked + 1) % count;
        &self.reactors[picked]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Target for (usize, ReactorCounters) {
        fn counters(&self) -> &ReactorCounters {
            &self.1
        }

        fn serve(&self, _: Accepted) {}
    }

    /// The reactors that get one connection after the other, when the third has `active` already.
    fn order(active: u64) -> Vec<usize> {
        let targets: Vec<_> = (0..3).map(|n| (n, ReactorCounters::default())).collect();
        targets[2].1.accepting.accepted.add(active + 1);
        targets[2].1.finished.add(1);
        let mut targets = Targets::new(targets);
        let picked = (0..7).map(|_| {
            let target = targets.take_turn();
            target.1.accepting.accepted.add(1);
            target.0
        });
        picked.collect()
    }

    #[test]
    fn connections_go_to_each_in_turn_but_for_one_that_is_far_ahead() {
        assert_eq!(order(2), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(order(9), [0, 1, 0, 1, 2, 0, 1]);
    }
}
