//! What has happened to the names of directories: inotify, as a proof that nothing else has.
//!
//! The kernel queues an event for each name that is made, removed or renamed, before the call that does it returns, for
//! calls of this server and of other programs alike. A reader that has emptied the queue therefore knows every change that
//! was complete when it began to read. A queue that overflows says so.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// File systems whose names change only through the kernel that watches, by their magic numbers (statfs(2)): ext2 to
/// ext4, XFS, Btrfs, tmpfs, F2FS, ZFS, bcachefs, overlayfs. On a network or FUSE file system, others change them unseen.
const LOCAL: [i64; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0xca45_1a4e,
    0x794c_7630,
];

/// What is read at once, in bytes.
const READ: usize = 16 << 10;

/// The events of directories; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Events(Arc<OwnedFd>);

/// Which directory is watched. No number is given twice.
pub(super) type Watch = i32;

/// Something has happened to a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    /// In this directory.
    pub(super) folder: Watch,
    pub(super) name: Box<[u8]>,
    /// To a directory of this name.
    pub(super) is_folder: bool,
}

/// Events were lost: anything may have happened.
#[derive(Debug)]
pub(super) struct Lost;

impl Events {
    /// None, to begin with.
    pub(super) fn new() -> Result<Self, Errno> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self(Arc::new(inotify)))
    }

    /// Adds those of `folder`, from now on; `None` where not all changes of it have one.
    pub(super) fn watch(&self, folder: impl AsFd) -> Result<Option<Watch>, Errno> {
        let kind = rustix::fs::fstatfs(&folder)?.f_type;
        if !LOCAL.contains(&kind) {
            return Ok(None);
        }
        let changes = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        // The very directory that is open, whatever has its path now.
        let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        inotify::add_watch(&*self.0, path, changes | WatchFlags::ONLYDIR).map(Some)
    }

    /// Adds no more of `folder`.
    pub(super) fn forget(&self, folder: Watch) {
        // It fails for a directory that was removed, whose events have ended by themselves.
        let _ = inotify::remove_watch(&*self.0, folder);
    }

    /// What has happened since the last time: each event once, those of a directory together. The directory `root` is to
    /// stay.
    pub(super) fn take(&self, root: Watch) -> Result<BTreeSet<Event>, Lost> {
        const LOST: ReadFlags = ReadFlags::QUEUE_OVERFLOW.union(ReadFlags::UNMOUNT);
        let mut buf = vec![MaybeUninit::uninit(); READ];
        let mut events = Reader::new(&*self.0, &mut buf);
        let mut taken = BTreeSet::new();
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(taken),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(Lost),
            };
            let (flags, folder) = (event.events(), event.wd());
            let is_over = flags.contains(ReadFlags::IGNORED);
            if flags.intersects(LOST) || (is_over && folder == root) {
                return Err(Lost);
            }
            // That a folder is gone is an event of the one above it, too.
            if let Some(name) = event.file_name() {
                taken.insert(Event {
                    folder,
                    name: name.to_bytes().into(),
                    is_folder: flags.contains(ReadFlags::ISDIR),
                });
            }
        }
    }

    /// Waits until there are some, for this long at most.
    pub(super) fn wait(&self, at_most: Duration) {
        let timeout = Timespec::try_from(at_most).ok();
        let mut fds = [PollFd::new(&*self.0, PollFlags::IN)];
        // The result does not matter: the caller reads the queue next.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
