//! The state of the journal, as uploads, the publisher and readers see it: whether there is one, whether it fails, and
//! which values the files may lack.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{RwLock, RwLockReadGuard};
use rustix::io::Errno;

use crate::transfer::is_large;
use crate::value::{Error, Key, Meta, Version};

/// The state of the journal of a store that writes.
#[derive(Debug, Default)]
pub struct JournalState {
    /// True if small values and deletes go to a journal, in place of syncs of their own: set before the first change.
    pub is_used: AtomicBool,
    /// True while it cannot be written or checkpointed: such a store is not ready.
    pub is_failing: AtomicBool,
    /// The reason why there is no journal, where there should be one.
    missing: OnceLock<&'static str>,
    unwritten: RwLock<Unwritten>,
    /// False while `unwritten` is empty.
    is_unwritten: AtomicBool,
}

/// What the journal has and the files may lack.
#[derive(Debug, Default)]
struct Unwritten {
    /// The kernel may have dropped bytes of small values that have this version or a later one, and reads zeros in
    /// their place.
    since: Option<Version>,
    /// The keys of changes that cannot be made: their files may be of any earlier change.
    kept: HashSet<Box<str>>,
}

impl JournalState {
    /// Notes and logs `why` there is no journal, though there should be one.
    pub fn set_missing(&self, why: &'static str) {
        tracing::warn!(
            "no journal: {why}; with --durability disk each write is now synced by itself, which makes small ones 3 to 6 times slower than with one"
        );
        let _ = self.missing.set(why);
    }

    /// The reason why there is no journal, where there should be one.
    pub fn missing(&self) -> Option<&'static str> {
        self.missing.get().copied()
    }

    /// Replaces the keys of changes that cannot be made: these keys are neither changed nor answered.
    pub fn refuse_keys(&self, kept: HashSet<Box<str>>) {
        self.set_unwritten(|unwritten| unwritten.kept = kept);
    }

    /// Refuses reads of small values that have the version `since` or a later one; without it, of none.
    pub fn refuse_reads(&self, since: Option<Version>) {
        self.set_unwritten(|unwritten| unwritten.since = since);
    }

    fn set_unwritten(&self, set: impl FnOnce(&mut Unwritten)) {
        let mut unwritten = self.unwritten.write();
        set(&mut unwritten);
        let is_unwritten = unwritten.since.is_some() || !unwritten.kept.is_empty();
        self.is_unwritten.store(is_unwritten, Relaxed);
    }

    fn unwritten(&self) -> Option<RwLockReadGuard<'_, Unwritten>> {
        let is_unwritten = self.is_unwritten.load(Relaxed);
        is_unwritten.then(|| self.unwritten.read())
    }

    /// Fails while the journal has a change of `key` that cannot be made.
    pub fn may_change(&self, key: &Key<'_>) -> Result<(), Error> {
        match self.unwritten() {
            Some(unwritten) if unwritten.kept.contains(key.as_str()) => {
                let doing = "make what the journal has of this key";
                Err(Error::new(doing, Errno::ACCESS))
            }
            _ => Ok(()),
        }
    }

    /// Fails while the journal has any such change: the key may lie below a folder that moves.
    pub fn may_move_folders(&self) -> Result<(), Error> {
        let kept = self.unwritten().map_or(0, |unwritten| unwritten.kept.len());
        let doing = "make what the journal has of some keys";
        (kept == 0)
            .then_some(())
            .ok_or_else(|| Error::new(doing, Errno::ACCESS))
    }

    /// Fails while the file of `key`, which is as `meta` says, may lack a change, or bytes that the kernel has dropped.
    pub fn may_read(&self, key: &Key<'_>, meta: Meta) -> Result<(), Error> {
        let Some(unwritten) = self.unwritten() else {
            return Ok(());
        };
        let since = unwritten.since.filter(|_| !is_large(meta.len));
        let is_dropped = since.is_some_and(|since| meta.version >= since);
        if is_dropped || unwritten.kept.contains(key.as_str()) {
            return Err(Error::new("put this value on the disk", Errno::IO));
        }
        Ok(())
    }
}
