//! What the reactors of an S3 store share.

use std::sync::Arc;

use super::contract::Exact;
use super::settings::Settings;
use crate::transfer::{BlockingPool, StagingQuota};
use crate::value::Error;

/// What the reactors of an S3 store share.
#[derive(Debug)]
pub struct Shared {
    pub settings: Settings,
    pub disk: BlockingPool,
    pub compute: BlockingPool,
    pub quota: Arc<StagingQuota>,
    pub promises: Promises,
}

/// What the store was seen to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promises {
    /// A write is made if its condition holds, and at no other time.
    pub conditional_put: bool,
    /// A value is removed if its condition holds, and at no other time.
    pub conditional_delete: bool,
}

impl Promises {
    /// Whether the store can be asked for writes under a condition.
    pub fn for_put(self) -> Result<(), Error> {
        let missing = Error::NotSupported {
            name: "no-conditions",
            what: "this store does not keep conditions on writes",
        };
        self.conditional_put.then_some(()).ok_or(missing)
    }

    /// Whether the store can be asked for removals under a condition.
    pub fn for_delete(self) -> Result<(), Error> {
        let missing = Error::NotSupported {
            name: "no-conditional-delete",
            what: "this store has no removal under a condition",
        };
        self.conditional_delete.then_some(()).ok_or(missing)
    }

    /// Whether the store can be asked for a write under `condition`.
    pub fn check(self, condition: &Exact) -> Result<(), Error> {
        match condition {
            Exact::Any => Ok(()),
            Exact::Create | Exact::Swap(_) => self.for_put(),
        }
    }
}
