//! Log lines of refusals that the operator can do something about, with or without an access log.
//!
//! Any client can cause them, so there is at most one line of each kind in a second; it tells how many were left out since
//! the one before.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::http::client::Peer;
use crate::http::refusal::rejection::Rejection;
use crate::http::refusal::table;
use crate::http::service_config::ServiceConfig;
use crate::store::Error;

/// The least time between two lines of one kind.
const PAUSE: Duration = Duration::from_secs(1);

/// The lines that one reactor has logged lately.
#[derive(Debug, Default)]
pub struct RejectionLog {
    strangers: Throttle,
    forbidden: Throttle,
}

impl RejectionLog {
    /// Logs a rejection for its host or origin; others are the client's own affair.
    pub fn rejected(&self, rejection: &Rejection, peer: Peer, config: &ServiceConfig) {
        if table::rejected(rejection, config).logged
            && let Some(left_out) = self.strangers.pass(Instant::now())
        {
            tracing::warn!(%peer, cause = %rejection, left_out, "refused a host or an origin");
        }
    }

    /// Logs a failure of the store: the client learns what happened, the log, why.
    pub fn failed(&self, error: &Error) {
        log_failure(error);
        if let Error::Forbidden { doing, source } = error
            && let Some(left_out) = self.forbidden.pass(Instant::now())
        {
            tracing::warn!(doing, cause = %source, left_out, "the file system denies access");
        }
    }
}

fn log_failure(error: &Error) {
    match error {
        Error::Failed { doing, source } => {
            tracing::error!(doing, cause = %source, "the store failed");
        }
        Error::Unsynced(why) => log_failure(why),
        Error::Refused { said } => tracing::error!(%said, "the store refuses requests"),
        Error::BadGateway { said } => tracing::error!(%said, "the store failed"),
        Error::Unreachable { said } => tracing::warn!(%said, "the store cannot be reached"),
        Error::Busy { .. } | Error::TimedOut | Error::OutcomeUnknown { .. } => {
            tracing::warn!(%error, "no answer of the store");
        }
        Error::Truncated => tracing::warn!(%error, "a read failed"),
        Error::NoSpace { .. } | Error::Exhausted { .. } | Error::TooLarge => {
            tracing::warn!(%error, "out of resources");
        }
        // The store itself says once where its directory has gone, and that it is read-only.
        Error::Displaced { .. }
        | Error::ReadOnly
        | Error::Forbidden { .. }
        | Error::Occupied(_)
        | Error::Precondition
        | Error::NotSupported { .. }
        | Error::BadKey(_)
        | Error::Incomplete => {}
    }
}

/// Lets one line pass in each [`PAUSE`].
#[derive(Debug, Default)]
struct Throttle {
    last: Cell<Option<Instant>>,
    left_out: Cell<u64>,
}

impl Throttle {
    /// How many lines were left out since the last one, if there may be one `now`.
    fn pass(&self, now: Instant) -> Option<u64> {
        if self.last.get().is_some_and(|last| now - last < PAUSE) {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.last.set(Some(now));
        Some(self.left_out.take())
    }
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::log::*;

    #[test]
    fn of_many_lines_one_a_second_passes_and_tells_of_the_others() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let at = |ms: u64| throttle.pass(start + Duration::from_millis(ms));
        assert_eq!(at(0), Some(0));
        assert_eq!((at(1), at(500), at(999)), (None, None, None));
        assert_eq!(at(1000), Some(3));
        assert_eq!(at(1999), None);
        assert_eq!(at(10_000), Some(1));
        assert_eq!(at(20_000), Some(0));
    }
}
