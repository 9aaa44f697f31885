//! The counters of the store. The reactors have counters of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::reactor::{CLASSES, STATUS, class_of};
use super::{BATCH, Counter, Exposition, Histogram, Label, SharedCounter, SharedHistogram};

counters! {
    /// The counters of a directory.
    StoreCounters {
        pub uploads_expired: SharedCounter = sum "data_server_uploads_expired_total" "Resumable uploads that expired unfinished.";
        /// Values that the server itself removed, by the store's `Removal`.
        pub removed: [SharedCounter; 3];
        /// The listings.
        pub listings: Arc<Listings>;
        /// The publisher alone writes it.
        pub batches: Histogram<BATCH> = sum "data_server_publish_batch_size" "Changes that the publisher made together.";
        pub syncs: SharedHistogram = sum "data_server_sync_duration_seconds" "Syncs of values, of names and of the journal, under --durability disk.";
        /// The journal.
        pub journal: Journal;
    }
}

counters! {
    /// The journal of a directory.
    Journal {
        pub appended: SharedCounter = sum "data_server_journal_appended_bytes_total" "Bytes appended to the journal.";
        pub replayed: SharedCounter = sum "data_server_journal_replayed_records_total" "Records replayed at startup.";
        pub failures: SharedCounter = sum "data_server_journal_failures_total" "Writes and syncs of the journal that failed.";
        pub checkpoints: SharedHistogram = sum "data_server_journal_checkpoint_duration_seconds" "Checkpoints of the journal.";
        pub waits: SharedHistogram = sum "data_server_journal_wait_duration_seconds" "How long all writers waited for a free segment of the journal, each time a segment was full.";
        settled: AtomicU64;
    }
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

counters! {
    /// The listings of a directory.
    Listings {
        pub walks: SharedCounter = sum "data_server_listing_walks_total" "Walks of the directory that were begun for listings.";
        pub index_keys: AtomicU64 = sum "data_server_listing_index_keys" "Keys in the index of the directory.";
        pub index_bytes: AtomicU64 = sum "data_server_listing_index_bytes" "Memory of the index of the directory.";
    }
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
    StoreOperation by "operation":
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

counters! {
    /// The counters of one S3 client. The thread of its reactor alone writes them.
    S3Counters {
        pub requests: [[Counter; CLASSES]; StoreOperation::COUNT] = sum "data_server_store_requests_total" "Requests to the store that have ended; status none: there was no response." by StoreOperation::LABEL, STATUS;
        pub time_to_head: Histogram = each "data_server_store_time_to_head_seconds" "Time from a request to the store to the head of its response.";
        pub retries: Counter = sum "data_server_store_retries_total" "Requests to the store that were sent again.";
        pub unknown: Counter = sum "data_server_store_unknown_total" "Writes and removals whose outcome was not known when they ended.";
        pub resolved: Counter = sum "data_server_store_resolved_total" "Writes and removals of unknown outcome that turned out to have been made.";
    }
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
        let found = StoreOperation::LABEL.1[StoreOperation::Probe as usize];
        assert_eq!(found, "probe");
    }
}
