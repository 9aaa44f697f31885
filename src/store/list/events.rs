//! What has happened to the names of a directory: inotify, as a proof that nothing else has.
//!
//! The kernel queues an event for each name that is made, removed or renamed, before the call that does it returns, for
//! calls of this server and of other programs alike. A reader that has emptied the queue therefore knows every change that
//! was complete when it began to read. A queue that overflows says so.

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
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

/// The events of one directory; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Events(Arc<OwnedFd>);

/// Events were lost, or the directory is gone: anything may have happened.
#[derive(Debug)]
pub(super) struct Lost;

impl Events {
    /// Those of `dir`, from now on; `None` where not all changes of it have one.
    pub(super) fn of(dir: &OwnedFd) -> Result<Option<Self>, Errno> {
        let kind = rustix::fs::fstatfs(dir)?.f_type;
        if !LOCAL.contains(&kind) {
            return Ok(None);
        }
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let changes = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        // The very directory that is open, whatever has its path now.
        let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
        inotify::add_watch(&inotify, path, changes | WatchFlags::ONLYDIR)?;
        Ok(Some(Self(Arc::new(inotify))))
    }

    /// The names that something has happened to since the last time.
    pub(super) fn take(&self) -> Result<HashSet<Box<[u8]>>, Lost> {
        const GONE: ReadFlags = ReadFlags::QUEUE_OVERFLOW
            .union(ReadFlags::IGNORED)
            .union(ReadFlags::UNMOUNT);
        let mut buf = vec![MaybeUninit::uninit(); READ];
        let mut events = Reader::new(&*self.0, &mut buf);
        let mut names = HashSet::new();
        loop {
            match events.next() {
                Ok(event) if event.events().intersects(GONE) => return Err(Lost),
                Ok(event) => names.extend(event.file_name().map(|name| name.to_bytes().into())),
                Err(Errno::AGAIN) => return Ok(names),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Lost),
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
