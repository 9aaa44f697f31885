//! Whether a value of the directory may have an end.
//!
//! To learn the end of a value that is not open takes an open. So that a directory without such values pays nothing, a
//! file `.data-server/expiring` tells that there may be some. It is made before the first of them is published, and
//! stays.

use std::os::fd::OwnedFd;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

use rustix::fs::AtFlags;

use crate::value::RESERVED;

/// The name of the file in the server's own directory.
pub const EXPIRING: &str = "expiring";

/// Whether values of a directory may have an end.
#[derive(Debug, Default)]
pub struct MayEnd {
    is_possible: AtomicBool,
    /// True where another server may store the first of them.
    pub others_write: bool,
}

impl MayEnd {
    /// That of the directory `root`, by its file.
    pub fn of(root: &OwnedFd) -> Self {
        Self {
            is_possible: AtomicBool::new(is_noted(root)),
            others_write: false,
        }
    }

    /// True if values may have an end.
    pub fn is_possible(&self) -> bool {
        self.is_possible.load(Acquire)
    }

    /// Looks for the file in the directory `root` again, where another server may have made it. Blocks.
    pub fn look_again(&self, root: &OwnedFd) {
        if self.others_write && !self.is_possible() && is_noted(root) {
            self.met();
        }
    }

    /// A value with an end was met.
    pub fn met(&self) {
        self.is_possible.store(true, Release);
    }
}

fn is_noted(root: &OwnedFd) -> bool {
    let path = format!("{RESERVED}/{EXPIRING}");
    rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}
