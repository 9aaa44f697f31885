//! What the reactors of an S3 store share.

use std::sync::Arc;

use super::super::blocking_pool::BlockingPool;
use super::super::error::Error;
use super::super::staging_quota::StagingQuota;
use super::contract::Exact;
use super::settings::Settings;

/// What the reactors of an S3 store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) disk: BlockingPool,
    pub(super) compute: BlockingPool,
    pub(super) quota: Arc<StagingQuota>,
    pub(super) promises: Promises,
}

/// What the store was seen to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promises {
    /// A write is made if its condition holds, and at no other time.
    pub(super) conditional_put: bool,
    /// A value is removed if its condition holds, and at no other time.
    pub(super) conditional_delete: bool,
}

impl Promises {
    /// Whether the store can be asked for writes under a condition.
    pub(super) fn for_put(self) -> Result<(), Error> {
        let missing = Error::NotSupported {
            name: "no-conditions",
            what: "this store does not keep conditions on writes",
        };
        self.conditional_put.then_some(()).ok_or(missing)
    }

    /// Whether the store can be asked for removals under a condition.
    pub(super) fn for_delete(self) -> Result<(), Error> {
        let missing = Error::NotSupported {
            name: "no-conditional-delete",
            what: "this store has no removal under a condition",
        };
        self.conditional_delete.then_some(()).ok_or(missing)
    }

    /// Whether the store can be asked for a write under `condition`.
    pub(super) fn check(self, condition: &Exact) -> Result<(), Error> {
        match condition {
            Exact::Any => Ok(()),
            Exact::Create | Exact::Swap(_) => self.for_put(),
        }
    }
}
