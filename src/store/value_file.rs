//! An open file of a value, and where it is closed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::transfer::{BlockingPool, SLOW_TO_FREE};
use crate::value::Meta;

/// An open file of a value. It stays open while it is read or written.
///
/// Closing the last descriptor of an unlinked file frees its blocks, which takes the longer the larger it was: large
/// ones are closed on the disk threads.
#[derive(Debug)]
pub(super) struct ValueFile {
    fd: Option<OwnedFd>,
    disk: BlockingPool,
    is_small: bool,
}

impl ValueFile {
    pub(super) fn new(fd: OwnedFd, disk: BlockingPool) -> Self {
        Self {
            fd: Some(fd),
            disk,
            is_small: false,
        }
    }

    /// The threads that may wait for it.
    pub(super) fn disk(&self) -> &BlockingPool {
        &self.disk
    }

    /// Of a value so short that freeing it takes no time: its length is not asked for again.
    pub(super) fn small(fd: OwnedFd, disk: BlockingPool) -> Self {
        Self {
            fd: Some(fd),
            disk,
            is_small: true,
        }
    }
}

impl AsFd for ValueFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
            .as_ref()
            .expect("the descriptor is only taken by drop")
            .as_fd()
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        let slow = !self.is_small
            && rustix::fs::fstat(&fd)
                .is_ok_and(|s| s.st_nlink == 0 && Meta::of(&s).len > SLOW_TO_FREE);
        if slow {
            self.disk.spawn_detached(move || drop(fd));
        }
    }
}
