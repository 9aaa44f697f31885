//! The type of the file system that a file lies on, as far as reading it depends on that.
//!
//! Known by the magic number (statfs(2)) and not by trial. Of an unknown file system nothing is assumed.

use std::os::fd::AsFd;

use rustix::io::Errno;

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;
const OVERLAYFS: i64 = 0x794c_7630;

/// File systems whose names change only through the kernel that this server runs on: ext2 to ext4, XFS, Btrfs, F2FS,
/// ZFS, bcachefs and those above. On a network or FUSE file system, others change them unseen.
const LOCAL: [i64; 9] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0xca45_1a4e,
    TMPFS,
    RAMFS,
    OVERLAYFS,
];

/// What is known of a file system by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsType {
    /// Reading a file never waits for a device. Such a file system does not support `RWF_NOWAIT`: if this were not
    /// known, the disk threads would have to make each read.
    pub is_memory: bool,
    /// Each change of a name has an event (inotify).
    pub has_events: bool,
    /// An open file shows by its own times or links that its name was removed, or given to another file. On overlayfs a
    /// file of a lower layer stays as it is: the removal is noted in the upper layer alone.
    pub shows_removal: bool,
}

impl FsType {
    /// The type of the file system that `file` lies on. May wait for a server where that is a network or FUSE file
    /// system.
    pub fn of(file: impl AsFd) -> Result<Self, Errno> {
        let magic = rustix::fs::fstatfs(file)?.f_type;
        let is_local = LOCAL.contains(&magic);
        Ok(Self {
            is_memory: matches!(magic, TMPFS | RAMFS),
            has_events: is_local,
            shows_removal: is_local && magic != OVERLAYFS,
        })
    }
}
