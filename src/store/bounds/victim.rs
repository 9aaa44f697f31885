//! A value that is to be removed: it counts as going until that is done, or given up.

use std::sync::Arc;

use scopeguard::guard;

use super::account::Account;
use super::ledger::State;
use super::value::{Value, nanos};
use crate::store::changes::Removal;
use crate::value::{Key, Meta};

/// A value that is to be removed.
pub struct Victim {
    /// Its key.
    pub key: Key<'static>,
    /// Bytes of the disk that it takes.
    pub bytes: u64,
    /// Allows its removal, by what its file is now: it was neither used nor written since. While this is kept, the
    /// removal is under way.
    pub allows: Box<dyn Fn(Option<Meta>) -> bool + Send>,
    /// The reason.
    pub why: Removal,
}

impl Victim {
    /// Keeps `kept` as long as the removal is under way.
    pub(super) fn keep(&mut self, kept: Arc<()>) {
        let allows = std::mem::replace(&mut self.allows, Box::new(|_| false));
        self.allows = Box::new(move |current| Arc::strong_count(&kept) > 0 && allows(current));
    }
}

impl Account {
    /// Begins the removal of `value`, for the reason `why`; a use since the time `used` saves it.
    pub(super) fn victim(
        self: &Arc<Self>,
        state: &mut State,
        key: Box<str>,
        value: Arc<Value>,
        used: Option<i64>,
        why: Removal,
    ) -> Option<Victim> {
        let name = Key::new(key.to_string()).ok()?;
        state.leave(&self.bounds, &key, &value, true);
        let (version, bytes) = (value.known().version, value.bytes());
        let leaving = guard((Arc::clone(self), key, value), |(account, key, value)| {
            let state = &mut *account.state.lock();
            state.leave(&account.bounds, &key, &value, false);
        });
        let allows = move |current: Option<Meta>| {
            let is_used = used.is_some_and(|used| leaving.2.used() != used);
            let is_same = current.map(|meta| nanos(meta.version)) == Some(version);
            let may_go = why != Removal::Expired || current.is_some_and(|meta| meta.has_ended());
            !is_used && is_same && may_go
        };
        Some(Victim {
            key: name,
            bytes,
            allows: Box::new(allows),
            why,
        })
    }
}
