//! Folders that listings leave out: those that this server may not read, and what was mounted and has gone.
//!
//! One rule for all listings. Promises that the log has each folder once, with the reason, for as long as it stays so. Bounded.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

/// The most folders that are remembered. Any other is in the log each time.
const MOST: usize = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Mutex<BTreeSet<Box<str>>>);

impl LeftOut {
    /// Whether the folder `path` is left out, in which a call has failed with `errno`.
    pub(super) fn has(&self, path: &str, errno: Errno) -> bool {
        let is_left_out = matches!(
            errno,
            Errno::ACCESS | Errno::NOTCONN | Errno::STALE | Errno::HOSTDOWN
        );
        if is_left_out && self.remember(path) {
            tracing::warn!(folder = path, cause = %errno, "listings leave a folder out that cannot be read");
        }
        is_left_out
    }

    /// A value in the folder `path` was found. To open the folder is not enough: without the right to search it, each look-up fails.
    pub(super) fn forget(&self, path: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.remove(path) {
            tracing::info!(folder = path, "listings have a folder again");
        }
    }

    /// Whether it was not known before.
    fn remember(&self, path: &str) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            return !known.contains(path);
        }
        known.insert(path.into())
    }
}
