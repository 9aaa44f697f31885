//! The counters of the store. The reactors have counters of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::reactor::{STATUSES, class_of};
use super::{BATCH, Counter, Histogram, SharedCounter, SharedHistogram};

/// The counters of a store.
#[derive(Debug, Default)]
pub struct StoreCounters {
    /// Changes published together. The publisher alone writes it.
    pub batches: Histogram<BATCH>,
    /// Durations of the syncs of values, and of the syncs of names.
    pub syncs: SharedHistogram,
    /// The kinds of listings.
    pub listings: Arc<Listings>,
    /// The journal.
    pub journal: Journal,
    /// Resumable uploads that expired unfinished.
    pub uploads_expired: SharedCounter,
    /// Values that the server itself removed, by the store's `Removal`.
    pub removed: [SharedCounter; 3],
}

/// The journal of a directory.
#[derive(Debug, Default)]
pub struct Journal {
    /// Bytes that were appended.
    pub appended: SharedCounter,
    /// Records that the start has replayed.
    pub replayed: SharedCounter,
    /// Writes and syncs of it that failed.
    pub failures: SharedCounter,
    /// How long writers waited for a segment.
    pub waits: SharedHistogram,
    /// Durations of checkpoints.
    pub checkpoints: SharedHistogram,
    settled: AtomicU64,
}

impl Journal {
    /// Bytes of changes that no checkpoint covers.
    pub fn unsettled(&self) -> u64 {
        let settled = self.settled.load(Ordering::Relaxed);
        self.appended.get().saturating_sub(settled)
    }

    /// A checkpoint of this `duration` covers the bytes that had been `appended` when it began.
    pub fn checkpointed(&self, duration: Duration, appended: u64) {
        self.settled.store(appended, Ordering::Relaxed);
        self.checkpoints.observe_duration(duration);
    }
}

/// The listings of a directory.
#[derive(Debug, Default)]
pub struct Listings {
    /// Walks of the directory that were begun.
    pub walks: SharedCounter,
    /// Keys in the index.
    pub index_keys: AtomicU64,
    /// Memory of the index, in bytes.
    pub index_bytes: AtomicU64,
}

/// The jobs of a pool of threads.
#[derive(Debug, Default)]
pub struct Jobs {
    submitted: SharedCounter,
    started: SharedCounter,
    finished: SharedCounter,
}

impl Jobs {
    /// Counts a job that was submitted.
    pub fn submit(&self) {
        self.submitted.add(1);
    }

    /// Counts a job that a thread has taken; the thread is busy until the returned guard is dropped.
    pub fn start(&self) -> impl Drop + '_ {
        self.started.add(1);
        scopeguard::guard((), |()| self.finished.add(1))
    }

    /// Jobs that wait for a thread.
    pub fn waiting(&self) -> u64 {
        let started = self.started.get();
        self.submitted.get().saturating_sub(started)
    }

    /// Threads with a job.
    pub fn busy(&self) -> u64 {
        let finished = self.finished.get();
        self.started.get().saturating_sub(finished)
    }
}

named! {
    /// The operation of a request to the store.
    StoreOperation:
    /// Reads a value, or a range of it.
    Get = "get",
    /// Asks what is known of a value.
    Head = "head",
    /// Writes a value.
    Put = "put",
    /// Removes a value.
    Delete = "delete",
    /// Lists keys.
    List = "list",
    /// Belongs to a value that is written in parts.
    Multipart = "multipart",
    /// Asks whether the bucket is there.
    Probe = "probe",
}

/// The counters of one S3 client. The thread of its reactor alone writes them.
#[derive(Debug, Default)]
pub struct S3Counters {
    /// Durations from a request to the head of its answer.
    pub time_to_head: Histogram,
    /// Requests that were sent again.
    pub retries: Counter,
    /// Writes and removals whose outcome was not known when they ended.
    pub unknown: Counter,
    /// Unknown ones that turned out to have been made.
    pub resolved: Counter,
    /// Requests, by [`StoreOperation`] and class of status, as [`STATUSES`] names it.
    pub requests: [[Counter; STATUSES.len()]; StoreOperation::NAMES.len()],
}

impl S3Counters {
    /// Counts a request; a `status` of 0 is no answer.
    pub fn count(&self, operation: StoreOperation, status: u16) {
        self.requests[operation as usize][class_of(status)].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_waits_then_runs_then_is_gone_also_when_it_panics() {
        let jobs = Jobs::default();
        jobs.submit();
        assert_eq!((jobs.waiting(), jobs.busy()), (1, 0));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _busy = jobs.start();
            assert_eq!((jobs.waiting(), jobs.busy()), (0, 1));
            panic!("a job's own");
        }));
        assert!(panicked.is_err());
        assert_eq!((jobs.waiting(), jobs.busy()), (0, 0));
    }

    #[test]
    fn a_request_is_counted_by_its_operation_and_the_class_of_its_status() {
        let counters = S3Counters::default();
        counters.count(StoreOperation::Put, 412);
        counters.count(StoreOperation::Probe, 999);
        counters.count(StoreOperation::Put, 0);
        let requests = |operation, class: usize| counters.requests[operation as usize][class].get();
        assert_eq!(requests(StoreOperation::Put, 4), 1);
        assert_eq!(requests(StoreOperation::Put, 0), 1);
        assert_eq!(requests(StoreOperation::Probe, 5), 1);
        let found = StoreOperation::NAMES[StoreOperation::Probe as usize];
        assert_eq!(found, "probe");
    }
}
