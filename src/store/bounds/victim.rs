//! A value that is to be removed: it counts as going until that is done, or given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
    /// Begins the removal of `value`, for a reason, and for the room of a bound, which counts it once it is made; a use
    /// since the time `used` saves the value.
    pub(super) fn victim(
        self: &Arc<Self>,
        state: &mut State,
        key: Box<str>,
        value: Arc<Value>,
        used: Option<i64>,
        (why, bound): (Removal, Option<usize>),
    ) -> Option<Victim> {
        let name = Key::new(key.to_string()).ok()?;
        state.leave(&self.bounds, &key, &value, true);
        let (version, bytes) = (value.known().version, value.bytes());
        let idle = u64::try_from(value.age()).unwrap_or(0);
        let is_allowed = AtomicBool::new(false);
        let removal = (Arc::clone(self), key, value, is_allowed);
        let leaving = guard(removal, move |(account, key, value, is_allowed)| {
            account
                .state
                .lock()
                .leave(&account.bounds, &key, &value, false);
            if let Some(bound) = bound.filter(|_| is_allowed.into_inner() && value.is_forgotten()) {
                let figures = &account.figures[bound];
                figures.last_evicted.store(idle, Relaxed);
                figures.evicted_bytes.fetch_add(bytes, Relaxed);
                figures.evicted.fetch_add(1, Relaxed);
            }
        });
        let allows = move |current: Option<Meta>| {
            let is_used = used.is_some_and(|used| leaving.2.used() != used);
            let is_same = current.map(|meta| nanos(meta.version)) == Some(version);
            let may_go = why != Removal::Expired || current.is_some_and(|meta| meta.has_ended());
            let is_allowed = !is_used && is_same && may_go;
            leaving.3.store(is_allowed, Relaxed);
            is_allowed
        };
        Some(Victim {
            key: name,
            bytes,
            allows: Box::new(allows),
            why,
        })
    }
}
