//! Large values whose names have come to the disk, which the journal is told with the next group.
//!
//! Their records keep an earlier, small value of the same key from coming back when a hand removes the large one before the
//! next checkpoint, and power is cut. Such a record must not be there before the name is: else the small value, which was
//! acknowledged, would not be restored where the name of the large one is lost. So they are written late, and none is waited for.

use std::sync::{Mutex, PoisonError};

use super::super::key::Key;
use super::super::meta::Version;
use super::frame::{FrameBuilder, Mark};

/// So many are written at once also when no other change is.
const MOST: usize = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::store) struct Names(Mutex<Vec<(Box<str>, Version)>>);

impl Names {
    /// The name of this value is on the disk.
    pub(in crate::store) fn add(&self, key: &Key<'_>, version: Version) {
        let name = (key.as_str().into(), version);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(name);
    }

    /// Moves them to `frame`, unless there is nothing else to write and they are few.
    pub(in crate::store) fn move_to(&self, frame: &mut FrameBuilder) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if frame.is_empty() && names.len() < MOST {
            return;
        }
        for (key, version) in names.drain(..) {
            frame.mark(Mark::Named, &key, version);
        }
    }
}
