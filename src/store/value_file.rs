//! The open file of a value: where it is closed, the stamp that tells whether it is unchanged, and reading it without
//! waiting: a small value whole, or the beginning of a larger one, at once where the kernel has it in memory, else on a
//! disk thread.
//!
//! [`Residency`] tells whether parts of a file lie in memory, so that sending them does not wait for the device. It
//! asks the kernel, without waiting, for one byte in each stretch that it reads together. A range that was all in
//! memory a moment ago counts as being there still; of a long one, the last byte is asked for again. The kernel gives
//! up recently used pages last, one by one, and a program that drops a file from the cache drops all of it. A wrong
//! guess makes a reactor wait for the device once; no byte is ever wrong.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use rustix::fs::Stat;
use rustix::io::{ReadWriteFlags, retry_on_intr};
use rustix::time::{ClockId, clock_gettime};

use super::fs_type::FsType;
use crate::transfer::{BlockingPool, SLOW_TO_FREE};
use crate::value::{Error, Meta};

/// How long a file must have been unchanged before it is cached. Its times advance in ticks of the kernel's clock (10
/// ms at most), and before the bytes of a write are all in place: a younger file might change unseen.
const QUIET_FOR: Duration = Duration::from_millis(100);

/// How often a file is read that another program writes meanwhile.
const TRIES: usize = 3;

/// The distance between probed bytes: the kernel's default readahead, in which pages come into memory together.
pub const STRIDE: usize = 128 << 10;

/// The stretch of a file that is remembered as one.
const WINDOW: u64 = 1 << 20;

/// Windows of a longer file than this many are asked for each time.
const MOST_WINDOWS: u64 = 1 << 10;

/// How long a window counts as being in memory, in milliseconds: longer than a hot value waits for its next reader.
const REMEMBERED: u64 = 100;

/// An open file of a value. It stays open while it is read or written.
///
/// Closing the last descriptor of an unlinked file frees its blocks, which takes the longer the larger it was: large
/// ones are closed on the disk threads.
#[derive(Debug)]
pub struct ValueFile {
    fd: Option<OwnedFd>,
    /// The threads that may wait for it.
    pub disk: BlockingPool,
    is_small: bool,
}

impl ValueFile {
    /// With `is_small`, a value so short that freeing it takes no time: its length is not asked for again.
    pub fn new(fd: OwnedFd, disk: BlockingPool, is_small: bool) -> Self {
        Self {
            fd: Some(fd),
            disk,
            is_small,
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

/// A stamp that tells a file from every other, and changes when it is edited, renamed, linked or unlinked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub device: u64,
    inode: u64,
    links: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl FileStamp {
    pub fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            links: stat.st_nlink,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Whether any edit from now on would change it.
    pub fn is_quiescent(self) -> bool {
        let (seconds, nanos) = self.changed;
        let seconds = u64::try_from(seconds).map(Duration::from_secs);
        let at = seconds.map(|seconds| UNIX_EPOCH + seconds + Duration::from_nanos(nanos));
        at.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= QUIET_FOR))
    }
}

/// A regular file, opened for reading; `stat` is from before any byte was read.
pub struct Opened {
    pub fd: OwnedFd,
    pub stat: Stat,
    pub fs_type: FsType,
}

/// Fills `buf` with the bytes of `file` from `offset` on, if the kernel has all of them in memory; with `is_memory`, it
/// always has.
pub fn read_now(file: impl AsFd, buf: &mut [u8], offset: u64, is_memory: bool) -> bool {
    let len = buf.len();
    let read = if is_memory {
        rustix::io::pread(file, buf, offset)
    } else {
        let into = &mut [IoSliceMut::new(buf)];
        rustix::io::preadv2(file, into, offset, ReadWriteFlags::NOWAIT)
    };
    read == Ok(len)
}

/// Reads all of `opened` without blocking the caller's thread.
pub async fn whole(opened: Opened, disk: &BlockingPool) -> Result<(Opened, Bytes), Error> {
    let mut buf = buffer(&opened.stat);
    if buf.is_empty() || read_now(&opened.fd, &mut buf, 0, opened.fs_type.is_memory) {
        return Ok((opened, buf.into()));
    }
    disk.spawn(move || whole_blocking(opened)).await
}

/// The first `len` bytes of `file`, or fewer where it has become shorter, without blocking the caller's thread.
pub async fn start(file: &Arc<ValueFile>, len: usize, is_memory: bool) -> Result<Vec<u8>, Error> {
    let mut buf = vec![0; len];
    if buf.is_empty() || read_now(&**file, &mut buf, 0, is_memory) {
        return Ok(buf);
    }
    let shared = Arc::clone(file);
    let read = move || {
        let filled = fill(&*shared, &mut buf)?;
        buf.truncate(filled);
        Ok(buf)
    };
    file.disk.spawn(read).await
}

/// Reads all of `opened`. Blocks.
pub fn whole_blocking(mut opened: Opened) -> Result<(Opened, Bytes), Error> {
    for _ in 0..TRIES {
        let mut buf = buffer(&opened.stat);
        if fill(&opened.fd, &mut buf)? == buf.len() {
            return Ok((opened, buf.into()));
        }
        let stat = retry_on_intr(|| rustix::fs::fstat(&opened.fd));
        opened.stat = stat.map_err(Error::errno_while("stat"))?;
    }
    Err(Error::Truncated)
}

fn buffer(stat: &Stat) -> Vec<u8> {
    vec![0; usize::try_from(Meta::of(stat).len).unwrap_or(usize::MAX)]
}

/// Reads until `buf` is full or the file ends; how much was read.
fn fill(fd: impl AsFd, buf: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < buf.len() {
        let read = retry_on_intr(|| rustix::io::pread(&fd, &mut buf[filled..], filled as u64));
        match read.map_err(Error::errno_while("read"))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// The windows of one file that were found in memory.
#[derive(Debug, Default)]
pub struct Residency {
    /// When each window was last found, in milliseconds of the system's uptime; 0 is never.
    found: OnceLock<Box<[AtomicU64]>>,
}

impl Residency {
    /// Whether `offset..offset + len` of `file`, `size` bytes long, can be read now without waiting for the device.
    pub fn is_resident(&self, file: impl AsFd, size: u64, offset: u64, len: u64) -> bool {
        let end = offset + len;
        let windows = self.windows(size, offset, end);
        let now = uptime();
        let is_recent = |at: &AtomicU64| now - at.load(Ordering::Relaxed).min(now) < REMEMBERED;
        if !windows.is_empty() && windows.iter().all(is_recent) {
            return len < WINDOW || is_in_memory(file, end - 1, end);
        }
        if !is_in_memory(file, offset, end) {
            return false;
        }
        let whole = offset.is_multiple_of(WINDOW) && (end.is_multiple_of(WINDOW) || end == size);
        if whole {
            for at in windows {
                at.store(now, Ordering::Relaxed);
            }
        }
        true
    }

    /// The windows that `offset..end` touches; none when they are not remembered.
    fn windows(&self, size: u64, offset: u64, end: u64) -> &[AtomicU64] {
        let count = size.div_ceil(WINDOW);
        if count > MOST_WINDOWS {
            return &[];
        }
        let found = self
            .found
            .get_or_init(|| (0..count).map(|_| AtomicU64::new(0)).collect());
        let touched = offset / WINDOW..end.div_ceil(WINDOW);
        let at = |window: u64| usize::try_from(window).unwrap_or(usize::MAX);
        found
            .get(at(touched.start)..at(touched.end))
            .unwrap_or_default()
    }
}

/// Asks the kernel. To send a file that was cut short finds its end.
fn is_in_memory(file: impl AsFd, offset: u64, end: u64) -> bool {
    let last = end.saturating_sub(1);
    let probe = |at: u64| {
        let mut byte = [0];
        let into = &mut [IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(&file, into, at, ReadWriteFlags::NOWAIT).is_ok()
    };
    (offset..last).step_by(STRIDE).all(probe) && probe(last)
}

/// Milliseconds since the system started, to the nearest tick of the kernel; more than [`REMEMBERED`].
fn uptime() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    let millis = time.tv_sec * 1000 + time.tv_nsec / 1_000_000;
    u64::try_from(millis).unwrap_or(0) + REMEMBERED
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn remembered(size: u64, offset: u64, len: u64) -> Vec<bool> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        std::io::copy(&mut &file, &mut std::io::sink()).unwrap();
        let residency = Residency::default();
        assert!(residency.is_resident(&file, size, offset, len));
        let found = residency.found.get().unwrap();
        found
            .iter()
            .map(|at| at.load(Ordering::Relaxed) > 0)
            .collect()
    }

    #[test]
    fn only_windows_that_were_asked_for_whole_are_remembered() {
        let size = 2 * WINDOW + 5;
        assert_eq!(remembered(size, 0, WINDOW), [true, false, false]);
        assert_eq!(remembered(size, 0, size), [true, true, true]);
        assert_eq!(remembered(size, 2 * WINDOW, 5), [false, false, true]);
        assert_eq!(remembered(size, 1, WINDOW), [false, false, false]);
        assert_eq!(remembered(size, 0, 100), [false, false, false]);
    }

    #[test]
    fn a_recent_window_is_asked_for_its_last_byte_and_an_old_one_for_all() {
        let size = WINDOW;
        let all_there = tempfile::tempfile().unwrap();
        all_there.set_len(size).unwrap();
        std::io::copy(&mut &all_there, &mut std::io::sink()).unwrap();
        // A directory cannot be read: every probe of it finds nothing in memory.
        let nothing_there = File::open("/").unwrap();
        let residency = Residency::default();
        let window = || &residency.found.get().unwrap()[0];
        assert!(!residency.is_resident(&nothing_there, size, 0, size));
        assert!(residency.is_resident(&all_there, size, 0, size));
        // A file that was there a moment ago, and was forgotten since.
        assert!(!residency.is_resident(&nothing_there, size, 0, size));
        window().store(uptime() - REMEMBERED, Ordering::Relaxed);
        assert!(residency.is_resident(&all_there, size, 0, size));
        assert!(uptime() - window().load(Ordering::Relaxed) < REMEMBERED);
    }
}
