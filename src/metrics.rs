//! What each reactor counts.
//!
//! One set of counters per reactor, written by its thread alone and read by anybody: nothing is shared on the way of a
//! request.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. One thread alone may call this: it loads and stores, without the cost of an atomic addition.
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one reactor.
#[derive(Debug, Default)]
pub struct ReactorCounters {
    /// Connections handed to the reactor.
    pub connections: Counter,
    /// Requests that arrived on connections which have ended.
    pub requests: Counter,
}
