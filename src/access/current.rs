//! The policy that holds now: read at the start, and replaced whole by a reload.
//!
//! Promises that each request sees one policy, and that a file which cannot be used leaves the old one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use super::policy::Policy;

/// See the module.
#[derive(Debug)]
pub struct Access {
    policy: RwLock<Arc<Policy>>,
    /// How often the policy was replaced; what was decided by an earlier one is decided anew.
    generation: AtomicU64,
    replaced: watch::Sender<u64>,
}

impl Access {
    /// With `policy`, to begin with.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: RwLock::new(Arc::new(policy)),
            generation: AtomicU64::new(0),
            replaced: watch::Sender::new(0),
        }
    }

    /// The policy that holds now.
    pub fn policy(&self) -> Arc<Policy> {
        let policy = self.policy.read();
        Arc::clone(&policy.unwrap_or_else(PoisonError::into_inner))
    }

    /// How often the policy was replaced. Read it before [`Access::policy`]: what is remembered with it is then never newer
    /// than it says.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Puts `policy` in place of the one that holds.
    pub fn replace(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        let generation = 1 + self.generation.fetch_add(1, Ordering::Release);
        self.replaced.send_replace(generation);
    }

    /// Tells of each replacement, by its generation.
    pub fn replacements(&self) -> watch::Receiver<u64> {
        self.replaced.subscribe()
    }
}
