//! Whether a value of the directory may have an end, or a date.
//!
//! To learn the end or the date of a value that is not open takes an open. So that a directory without such values pays
//! nothing, a file in `.data-server` tells that there may be some. It is made before the first of them is published,
//! and stays.

use std::os::fd::OwnedFd;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

use rustix::fs::AtFlags;

use crate::value::RESERVED;

/// The names of the files in the server's own directory.
pub const EXPIRING: &str = "expiring";
pub const DATED: &str = "dated";

/// Whether values of a directory may have what the file of this name tells.
#[derive(Debug)]
pub struct MayHave {
    pub name: &'static str,
    is_possible: AtomicBool,
    /// True where another server may store the first of them.
    pub others_write: bool,
}

impl MayHave {
    /// That of the directory `root`, by the file of this name.
    pub fn of(root: &OwnedFd, name: &'static str) -> Self {
        Self {
            name,
            is_possible: AtomicBool::new(is_noted(root, name)),
            others_write: false,
        }
    }

    /// True if values may have it.
    pub fn is_possible(&self) -> bool {
        self.is_possible.load(Acquire)
    }

    /// Looks for the file in the directory `root` again, where another server may have made it. Blocks.
    pub fn look_again(&self, root: &OwnedFd) {
        if self.others_write && !self.is_possible() && is_noted(root, self.name) {
            self.met();
        }
    }

    /// A value that has it was met.
    pub fn met(&self) {
        self.is_possible.store(true, Release);
    }
}

fn is_noted(root: &OwnedFd, name: &str) -> bool {
    let path = format!("{RESERVED}/{name}");
    rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}
