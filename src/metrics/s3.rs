//! What one reactor's client of an S3 store counts.

use std::time::Duration;

use super::reactor::STATUSES;
use super::{Counter, Histogram, Scale};

/// What a request to the store does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOperation {
    /// Reads a value, or a range of it.
    Get,
    /// Asks what is known of a value.
    Head,
    /// Writes a value.
    Put,
    /// Removes a value.
    Delete,
    /// Lists keys.
    List,
    /// Belongs to a value that is written in parts.
    Multipart,
    /// Asks whether the bucket is there.
    Probe,
}

impl StoreOperation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Get,
        Self::Head,
        Self::Put,
        Self::Delete,
        Self::List,
        Self::Multipart,
        Self::Probe,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Multipart => "multipart",
            Self::Probe => "probe",
        }
    }
}

/// The counters of one client. The thread of its reactor alone writes them.
#[derive(Debug)]
pub struct S3Counters {
    /// Durations from a request to the head of its answer.
    pub time_to_head: Histogram,
    /// Requests that were sent again.
    pub retries: Counter,
    /// Writes and removals whose outcome was not known when they ended.
    pub unknown: Counter,
    /// Those of them that turned out to have been made.
    pub resolved: Counter,
    requests: [[Counter; STATUSES.len()]; StoreOperation::ALL.len()],
}

impl Default for S3Counters {
    fn default() -> Self {
        Self {
            time_to_head: Histogram::new(&Scale::DURATION),
            retries: Counter::default(),
            unknown: Counter::default(),
            resolved: Counter::default(),
            requests: Default::default(),
        }
    }
}

impl S3Counters {
    /// A request was answered with this status after this time.
    pub fn answered(&self, operation: StoreOperation, status: u16, after: Duration) {
        self.count(operation, status);
        self.time_to_head.observe_duration(after);
    }

    /// A request had no answer.
    pub fn unanswered(&self, operation: StoreOperation) {
        self.count(operation, 0);
    }

    /// Requests, by operation and class of status, as [`STATUSES`] names it.
    pub fn requests(&self, operation: StoreOperation, class: usize) -> u64 {
        self.requests[operation as usize][class].get()
    }

    fn count(&self, operation: StoreOperation, status: u16) {
        let class = usize::from(status / 100).min(STATUSES.len() - 1);
        self.requests[operation as usize][class].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_by_what_it_does_and_how_it_ended() {
        let counters = S3Counters::default();
        counters.answered(StoreOperation::Put, 412, Duration::from_millis(1));
        counters.answered(StoreOperation::Probe, 999, Duration::from_millis(1));
        counters.unanswered(StoreOperation::Put);
        assert_eq!(counters.requests(StoreOperation::Put, 4), 1);
        assert_eq!(counters.requests(StoreOperation::Put, 0), 1);
        assert_eq!(counters.requests(StoreOperation::Probe, 5), 1);
        for (at, operation) in StoreOperation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, at);
        }
    }
}
