//! How often a request is tried, and what is said when it is not tried again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::call::Failure;
use crate::metrics::S3Counters;
use crate::value::Error;

/// For how long a store that cannot be reached is tried: long enough for a second endpoint where the first does not answer
/// at all. One that refuses connections is given up after [`MOST`] tries, in half a second.
const UNREACHABLE: Duration = Duration::from_secs(2);

/// For how long a store that asks for patience is tried.
const BUSY: Duration = Duration::from_secs(2);

/// How often a request is sent again that changes nothing and came to nothing.
const FAILED: u32 = 2;

/// How often a request is sent at most.
const MOST: u32 = 6;

/// The pause before the second try; it doubles from one try to the next.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause that is not asked for.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The tries of one request.
#[derive(Debug)]
pub struct Tries<'a> {
    began: Instant,
    pub until: Instant,
    made: u32,
    failed: u32,
    was_busy: bool,
    counters: &'a S3Counters,
}

impl<'a> Tries<'a> {
    /// With all the time until then.
    pub fn until(until: Instant, counters: &'a S3Counters) -> Self {
        Self {
            began: Instant::now(),
            until,
            made: 0,
            failed: 0,
            was_busy: false,
            counters,
        }
    }

    /// Waits for the moment of the next try of a request that changes nothing; the error when there is none.
    pub async fn retry(&mut self, failure: Failure) -> Result<(), Error> {
        match self.pause_after(&failure) {
            Some(pause) => {
                sleep(pause).await;
                Ok(())
            }
            None => Err(failure.error()),
        }
    }

    /// How long to wait before the next try of a request that changes nothing; `None` when there is none.
    pub fn pause_after(&mut self, failure: &Failure) -> Option<Duration> {
        self.was_busy |= matches!(failure, Failure::Busy { .. });
        let (most, asked) = match failure {
            Failure::NotSent(_) => (UNREACHABLE, Duration::ZERO),
            Failure::Busy { retry_after } => (BUSY, Duration::from_secs(*retry_after)),
            Failure::MaybeDone(_) if self.failed < FAILED => {
                self.failed += 1;
                (BUSY, Duration::ZERO)
            }
            _ => return None,
        };
        let pause = asked.max(self.pause());
        self.made += 1;
        let end = self.until.min(self.began + most);
        // A store may ask for a pause that goes beyond all time.
        let is_in_time = |at: Instant| at <= end;
        if self.made >= MOST || !Instant::now().checked_add(pause).is_some_and(is_in_time) {
            return None;
        }
        self.counters.retries.add(1);
        Some(pause)
    }

    /// Whether an earlier try may have changed something although its answer asks for patience.
    pub fn may_be_made(&self) -> bool {
        self.was_busy
    }

    /// As [`Tries::retry`], of a request that changes something: not where that was perhaps done. An answer that asks for
    /// patience says that it was not, which [`Tries::may_be_made`] doubts.
    pub async fn retry_change(&mut self, failure: Failure) -> Result<(), Error> {
        match failure {
            Failure::NotSent(_) | Failure::Busy { .. } => self.retry(failure).await,
            _ => Err(failure.outcome()),
        }
    }

    fn pause(&self) -> Duration {
        (FIRST_PAUSE * (1 << self.made.min(8))).min(LONGEST_PAUSE)
    }
}

impl Failure {
    /// The error of a request that was to change nothing.
    pub fn error(self) -> Error {
        match self {
            Self::NotSent(said) => Error::Unreachable { said },
            Self::Busy { retry_after } => Error::Busy { retry_after },
            Self::MaybeDone(said) => Error::BadGateway { said },
            Self::Late => Error::TimedOut,
            Self::Refused(refusal) => refusal.error(),
            Self::NotTried(error) => error,
        }
    }

    /// The error of a change that was sent whole.
    pub fn outcome(self) -> Error {
        match self {
            Self::Late => Error::OutcomeUnknown { is_late: true },
            Self::MaybeDone(_) => Error::OutcomeUnknown { is_late: false },
            failure => failure.error(),
        }
    }
}

/// An error for the operator alone, with what the store or the network said.
pub fn explained(error: &Error) -> String {
    match error {
        Error::Refused { said } | Error::BadGateway { said } | Error::Unreachable { said } => {
            format!("{error}: {said}")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_after_beyond_all_time_is_no_panic() {
        let counters = S3Counters::default();
        let until = Instant::now() + Duration::from_secs(60);
        for retry_after in [3600, 1 << 63, u64::MAX] {
            let busy = Failure::Busy { retry_after };
            assert_eq!(Tries::until(until, &counters).pause_after(&busy), None);
        }
        let soon = Failure::Busy { retry_after: 1 };
        let pause = Tries::until(until, &counters).pause_after(&soon);
        assert_eq!(pause, Some(Duration::from_secs(1)));
    }
}
