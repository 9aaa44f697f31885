//! The events of the names of directories: inotify, as a proof that nothing else has happened.
//!
//! The kernel queues an event for each name that is made, removed or renamed, before the call that does it returns, for
//! calls of this server and of other programs alike. A reader that has emptied the queue therefore knows every change
//! that was complete when it began to read. A queue that overflows says so. A folder whose rights change has an event
//! too, as what can be read in it may be another, and so has a file that is closed after it was open for writing, as it
//! may be larger. What is mounted has none: the kernel's table of mounts tells of that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::store::fs_type::FsType;

/// Bytes that are read at once.
const READ: usize = 16 << 10;

/// The events of directories.
#[derive(Debug)]
pub struct Events {
    inotify: OwnedFd,
    /// `/proc/self/mountinfo`, which tells by itself that it has changed; `None` where it is hidden.
    mounts: Option<File>,
}

/// The number of a watched directory. No number is given twice.
pub type Watch = i32;

/// A name that something has happened to.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The directory of the name.
    pub folder: Watch,
    /// Empty where it is the directory's own attributes that have changed, which of a mount is the only event.
    pub name: Box<[u8]>,
    /// True if the name is that of a directory.
    pub is_folder: bool,
}

/// What the events of a name tell of it. Those of one directory are in the order of its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was made, and nothing else has happened to it: it was free before.
    Made,
    /// It was removed, last of all.
    Gone,
    /// It stands for something else, or may do so.
    Changed,
    /// The file was closed that some program had open for writing under this name.
    Written,
    /// The rights or other attributes of the directory or the file have changed, and nothing else.
    Attributes,
}

impl Told {
    /// What one event tells.
    fn by(flags: ReadFlags) -> Self {
        if flags.contains(ReadFlags::CREATE) {
            Self::Made
        } else if flags.contains(ReadFlags::DELETE) {
            Self::Gone
        } else if flags.contains(ReadFlags::CLOSE_WRITE) {
            Self::Written
        } else if flags.contains(ReadFlags::ATTRIB) {
            Self::Attributes
        } else {
            // A name that is exchanged with another is there after "moved from" as well.
            Self::Changed
        }
    }

    /// What it tells after another event.
    fn after(self, before: Self) -> Self {
        match self {
            Self::Gone => Self::Gone,
            Self::Written | Self::Attributes if before == self => self,
            _ => Self::Changed,
        }
    }
}

/// True of the name that the kernel gives a file that has none yet, as each value of this server at first: `#` and its
/// inode. A file of this name that the account does not know need not be looked at.
fn is_of_no_name(name: &[u8]) -> bool {
    let inode = name.strip_prefix(b"#");
    inode.is_some_and(|inode| inode.iter().all(u8::is_ascii_digit))
}

/// The mounts below a folder: the lines of the table of mounts.
pub type Mounts = BTreeSet<Box<[u8]>>;

impl Events {
    /// Creates the queue, without a watch.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            inotify: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            mounts: File::open("/proc/self/mountinfo").ok(),
        })
    }

    /// True if the table of mounts has changed since the last call, as far as the kernel shows it
    /// (`proc_pid_mounts(5)`).
    pub fn mounts_changed(&self) -> bool {
        let Some(mounts) = &self.mounts else {
            return false;
        };
        let mut fds = [PollFd::new(mounts, PollFlags::PRI)];
        let polled = retry_on_intr(|| poll(&mut fds, Some(&Timespec::default())));
        polled.is_err() || fds[0].revents().contains(PollFlags::PRI)
    }

    /// The mounts below `folder`: the lines of the table; `None` where they cannot be read.
    pub fn mounts_below(&self, folder: impl AsFd) -> Option<Mounts> {
        let Some(mut mounts) = self.mounts.as_ref() else {
            return Some(Mounts::new());
        };
        let mut table = Vec::new();
        mounts.rewind().ok()?;
        mounts.read_to_end(&mut table).ok()?;
        let at = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        let at = std::fs::read_link(at).ok()?;
        Some(below(&table, at.as_os_str().as_bytes()))
    }

    /// Watches `folder` from now on; `None` where some changes of the folder have no event.
    pub fn watch(&self, folder: impl AsFd) -> Result<Option<Watch>, Errno> {
        if !FsType::of(&folder)?.has_events {
            return Ok(None);
        }
        let changes = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE;
        // The very directory that is open, whatever has its path now.
        let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        inotify::add_watch(&self.inotify, path, changes | WatchFlags::ONLYDIR).map(Some)
    }

    /// Stops watching `folder`.
    pub fn forget(&self, folder: Watch) {
        // It fails for a directory that was removed, whose events have ended by themselves.
        let _ = inotify::remove_watch(&self.inotify, folder);
    }

    /// The events since the last time: each name once, those of a directory together. The directory `root` is
    /// to stay. `None` where events were lost: anything may have happened.
    pub fn take(&self, root: Watch) -> Option<BTreeMap<Event, Told>> {
        const LOST: ReadFlags = ReadFlags::QUEUE_OVERFLOW.union(ReadFlags::UNMOUNT);
        let mut buf = Vec::with_capacity(READ);
        let mut events = Reader::new(&self.inotify, buf.spare_capacity_mut());
        let mut taken = BTreeMap::new();
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Some(taken),
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            };
            let (flags, folder) = (event.events(), event.wd());
            let name = event.file_name().map(CStr::to_bytes);
            if flags.intersects(LOST) || (folder == root && flags.contains(ReadFlags::IGNORED)) {
                return None;
            }
            let is_folder = flags.contains(ReadFlags::ISDIR);
            // A value is listed whatever its rights; that a folder is gone is an event of the one above it, too.
            let is_attribute = flags.contains(ReadFlags::ATTRIB);
            if (is_attribute && is_folder) || name.is_some() {
                let name = name.unwrap_or_default().into();
                let event = Event {
                    folder,
                    name,
                    is_folder,
                };
                let told = match Told::by(flags) {
                    Told::Attributes if !event.is_folder && is_of_no_name(&event.name) => {
                        Told::Written
                    }
                    told => told,
                };
                taken
                    .entry(event)
                    .and_modify(|before: &mut Told| *before = told.after(*before))
                    .or_insert(told);
            }
        }
    }

    /// Waits for events, at most this long.
    pub fn wait(&self, at_most: Duration) {
        let timeout = Timespec::try_from(at_most).ok();
        let mut fds = [PollFd::new(&self.inotify, PollFlags::IN)];
        // The result does not matter: the caller reads the queue next.
        let _ = poll(&mut fds, timeout.as_ref());
    }
}

/// The lines of `table` of what is mounted below the folder `at`.
fn below(table: &[u8], at: &[u8]) -> Mounts {
    let at = escaped(at);
    let is_below = |line: &&[u8]| {
        let rest = mount_point(line).strip_prefix(at.as_slice());
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    };
    let lines = table.split(|&b| b == b'\n').filter(is_below);
    lines.map(Box::from).collect()
}

/// True if one of `mounts` may be the folder `path` of the directory.
pub fn may_be_mount(mounts: &Mounts, path: &str) -> bool {
    let path = [b"/", &*escaped(path.as_bytes())].concat();
    mounts.iter().any(|line| mount_point(line).ends_with(&path))
}

fn mount_point(line: &[u8]) -> &[u8] {
    line.split(|&b| b == b' ').nth(4).unwrap_or_default()
}

/// `path` as the table of mounts has it: spaces, tabs, ends of lines and backslashes in octal digits.
fn escaped(path: &[u8]) -> Vec<u8> {
    // All that is below the root of the system begins with one slash.
    let path = if path == b"/" { b"" } else { path };
    let escape = |&byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        _ => vec![byte],
    };
    path.iter().flat_map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_below_a_folder_is_told_from_what_lies_beside_it() {
        let table = b"27 1 254:0 / / rw - ext4 /dev/vda rw\n\
            43 27 0:40 / /data rw - tmpfs a rw\n\
            44 43 0:41 / /data/a\\040b rw - tmpfs a rw\n\
            45 44 0:42 / /data/a\\040b/c rw - tmpfs a rw\n\
            46 27 0:43 / /database rw - tmpfs a rw\n";
        assert_eq!(below(table, b"/data").len(), 2);
        assert_eq!(below(table, b"/data/a b").len(), 1);
        assert_eq!(below(table, b"/data/a b/c").len(), 0);
        assert_eq!(below(table, b"/").len(), 5);
    }
}
