//! The division of the descriptors that the process may have: among the server itself, values that are kept open, the
//! files of requests under way, and connections.
//!
//! Promises that together they are no more than the limit. Opens none, and counts none that are open.

/// Descriptors of any server: standard streams, the runtime of signals, the socket of `reload`, the directory, a
/// listener that was passed.
const BASE: u64 = 16;

/// Descriptors of a reactor: its runtime, and the pipe that it sends long values through.
const REACTOR: u64 = 7;

/// Descriptors of the acceptor: its runtime.
const ACCEPTOR: u64 = 4;

/// The least that is left for connections and files: a handful of clients are served at once, the others in turn.
const LEAST_LEFT: u64 = 16;

/// Open files that are enough for the requests under way on many connections.
const ENOUGH_FILES: u64 = 256;

/// The most connections by default.
const MOST_CONNECTIONS: u64 = 65_536;

/// The division of the limit on descriptors.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors {
    limit: u64,
    own: u64,
}

/// The limit is too low for this server.
#[derive(Debug, thiserror::Error)]
#[error(
    "this server needs {needed} descriptors and may have {limit}: raise the limit (ulimit -n, or LimitNOFILE= of \
     systemd), or lower --threads"
)]
pub struct DescriptorLimitError {
    needed: u64,
    limit: u64,
}

impl Descriptors {
    /// The division of `limit` for a server with `reactors` reactors, of which `acceptors` accept at each of `places`
    /// listeners.
    pub(super) fn within(
        limit: u64,
        reactors: usize,
        acceptors: usize,
        places: usize,
        has_admin: bool,
    ) -> Self {
        let admin = if has_admin { REACTOR + 1 } else { 0 };
        let has_acceptor = acceptors < reactors;
        // An inherited socket has two descriptors; BASE counts the first of the first socket.
        let listeners = (acceptors * places + places - 1) as u64;
        let acceptor = if has_acceptor { ACCEPTOR } else { 0 };
        Self {
            limit,
            own: BASE + REACTOR * reactors as u64 + listeners + acceptor + admin,
        }
    }

    /// Refuses a limit that is too low to serve.
    pub fn check(&self) -> Result<(), DescriptorLimitError> {
        let needed = self.own + LEAST_LEFT;
        if self.limit < needed {
            return Err(DescriptorLimitError {
                needed,
                limit: self.limit,
            });
        }
        Ok(())
    }

    /// The descriptors that the server itself leaves.
    fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.own)
    }

    /// Values that may be kept open.
    pub fn cached_files(&self) -> u64 {
        self.remaining() / 8
    }

    /// Files of requests under way: one for each connection where there are few.
    pub fn files(&self) -> u64 {
        let for_each = (self.remaining() - self.cached_files()) / 2;
        for_each.min(ENOUGH_FILES).max(self.remaining() / 8)
    }

    /// Connections that each of the `reactors`, and the server's own pages, may have to an S3 store: in place of the
    /// values that are kept open, and of half of the files, for uploads that wait have the other half.
    pub fn store_connections(&self, reactors: usize) -> usize {
        let all = usize::try_from(self.cached_files() + self.files() / 2).unwrap_or(usize::MAX);
        (all / (reactors + 1)).max(1)
    }

    /// Connections that may be open.
    pub fn connections(&self) -> usize {
        let rest = self.remaining() - self.cached_files() - self.files();
        usize::try_from(rest.clamp(1, MOST_CONNECTIONS)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_more_descriptors_are_given_away_than_there_are(
            limit in 0_u64..2_000_000,
            reactors in 1_usize..1024,
            has_admin: bool,
        ) {
            let all = Descriptors::within(limit, reactors, 1, 1, has_admin);
            prop_assume!(all.check().is_ok());
            let given = all.cached_files() + all.files() + all.connections() as u64;
            prop_assert!(all.own + given <= limit, "{all:?}: {given}");
            prop_assert!(all.cached_files() > 0 && all.files() > 0, "{all:?}");
        }
    }

    #[test]
    fn connections_to_a_store_are_within_what_values_would_have() {
        for limit in 40..300 {
            let all = Descriptors::within(limit, 1, 1, 1, false);
            let each = all.store_connections(1) as u64;
            assert!((1..=256).contains(&each), "{limit}: {all:?}");
            assert!(2 * each <= all.cached_files() + all.files(), "{limit}");
        }
        let many = Descriptors::within(1 << 20, 2, 1, 1, false);
        assert!(many.store_connections(2) > 256, "the option decides");
    }

    #[test]
    fn where_there_are_few_each_connection_has_a_file() {
        for limit in 40..300 {
            let all = Descriptors::within(limit, 1, 1, 1, false);
            let is_right = all.files() >= all.connections() as u64 - 1;
            assert!(is_right, "{limit}: {all:?}");
        }
    }
}
