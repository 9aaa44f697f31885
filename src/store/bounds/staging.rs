//! What uploads have on the disk before they are published. It counts against the bounds of their keys that evict
//! nothing: else one client could keep any number of unfinished uploads beside a quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::account::Account;
use super::admission::Ask;
use super::ledger::scopes;
use crate::value::Error;

/// The bytes that one upload has on the disk. They count until they are published, or this is dropped.
#[derive(Debug)]
pub struct Staging {
    /// The account that they count in.
    pub account: Arc<Account>,
    /// The key of the value.
    pub key: Box<str>,
    /// Changed under the lock of the account alone.
    bytes: AtomicU64,
}

impl Staging {
    /// That of an upload of a value of `key`, which has nothing yet.
    pub fn new(account: &Arc<Account>, key: &str) -> Arc<Self> {
        Arc::new(Self {
            account: Arc::clone(account),
            key: key.into(),
            bytes: AtomicU64::new(0),
        })
    }

    /// The bytes that count.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Has the file be `len` bytes long; fails where a bound has no room for a value of this length.
    pub fn grow(&self, len: u64) -> Result<(), Error> {
        self.may_grow(len)?;
        self.set(len.max(self.bytes()));
        Ok(())
    }

    /// Fails where a bound has no room for a value of `len` bytes.
    pub fn may_grow(&self, len: u64) -> Result<(), Error> {
        self.account.may_begin(&Ask {
            staged: self.bytes(),
            ..Ask::new(&self.key, self.account.size_of(len))
        })
    }

    /// The file is `len` bytes long.
    pub fn set(&self, len: u64) {
        if !self.account.counts(&self.key) {
            return;
        }
        let mut state = self.account.state.lock();
        let bytes = self.account.size_of(len);
        let before = self.bytes.swap(bytes, Relaxed);
        for (at, scope) in scopes(&self.account.bounds, &self.key) {
            state.sum(at, scope, |sums| {
                sums.staged = sums.staged.saturating_add(bytes).saturating_sub(before);
            });
        }
    }

    /// The value was admitted with these bytes as those of its own upload: they count no more.
    pub fn admitted(&self) {
        self.bytes.store(0, Relaxed);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.bytes() > 0 {
            self.set(0);
        }
    }
}
