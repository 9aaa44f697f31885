//! The control file: up to where the journal is settled, that is, in the files and on the disk; which segments hold what is not; and
//! whether a checkpoint has failed, so that what the kernel remembers of the files may never reach the disk.
//!
//! One line, written in place. One that cannot be read is damage where there is no frame that says the same.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::super::directory_fd::open_beneath;

pub(super) const NAME: &str = "control";

/// What the line is padded to, in bytes: longer than it ever is.
const WIDTH: usize = 1024;

/// A segment that holds frames, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Live {
    pub(super) generation: u64,
    pub(super) index: u32,
    /// The sequence number of its first record.
    pub(super) first: u64,
}

/// Which directory one is: its inode and when that was made, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DirId {
    inode: u64,
    pub(super) born: i64,
}

impl DirId {
    /// That of `dir`.
    pub(super) fn of(dir: &OwnedFd) -> Result<Self, Errno> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let stat = rustix::fs::statx(dir, "", AtFlags::EMPTY_PATH, wanted)?;
        let born = stat.stx_btime;
        Ok(Self {
            inode: stat.stx_ino,
            born: born.tv_sec * 1_000_000_000 + i64::from(born.tv_nsec),
        })
    }
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// A checkpoint has begun and not succeeded.
    pub(super) is_suspect: bool,
    /// The run of a server that wrote it.
    pub(super) epoch: u64,
    /// All changes before this one are settled.
    pub(super) settled: u64,
    /// Bytes of each segment.
    pub(super) size: u64,
    /// When it was written, by the system's clock, in nanoseconds since 1970.
    pub(super) time: i64,
    /// The directory that it is in: a copy is another one.
    pub(super) dir: DirId,
    /// Oldest first.
    pub(super) live: Vec<Live>,
}

impl State {
    /// What the file in `dir` says; `None` where it says nothing that can be read.
    pub(super) fn read(dir: &OwnedFd) -> Result<Option<Self>, Errno> {
        let file = match open_beneath(dir, NAME, OFlags::RDONLY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file?,
        };
        let mut line = [0; WIDTH];
        let n = retry_on_intr(|| rustix::io::pread(&file, &mut line, 0))?;
        Ok(parse(&line[..n]))
    }

    /// Has the file in `dir` say so, for other processes, and also after the loss of power if it is `durable`.
    pub(super) fn write(&self, dir: &OwnedFd, durable: bool) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = open_beneath(dir, NAME, flags, Mode::from(0o600))?;
        let state = serde_json::to_string(self).map_err(|_| Errno::INVAL)?;
        let line = format!("{state} {:016x}\n{:WIDTH$}", sum(state.as_bytes()), "");
        match retry_on_intr(|| rustix::io::pwrite(&file, &line.as_bytes()[..WIDTH], 0))? {
            WIDTH if durable => rustix::fs::fdatasync(&file),
            WIDTH => Ok(()),
            _ => Err(Errno::NOSPC),
        }
    }
}

/// The system's time, in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn parse(line: &[u8]) -> Option<State> {
    let line = std::str::from_utf8(line).ok()?;
    let (state, told) = line.lines().next()?.rsplit_once(' ')?;
    let is_whole = u64::from_str_radix(told, 16) == Ok(sum(state.as_bytes()));
    is_whole.then(|| serde_json::from_str(state).ok())?
}

fn sum(bytes: &[u8]) -> u64 {
    let mut digest = crc64fast_nvme::Digest::new();
    digest.write(bytes);
    digest.sum64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let dir: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        assert_eq!(State::read(&dir), Ok(None));
        let live = |index: u32| Live {
            generation: u64::MAX - u64::from(index),
            index: u32::MAX,
            first: u64::MAX,
        };
        for count in 0..5 {
            let state = State {
                is_suspect: count % 2 == 1,
                epoch: u64::MAX,
                settled: u64::MAX,
                size: u64::MAX,
                time: i64::MIN,
                dir: DirId {
                    inode: u64::MAX,
                    born: i64::MIN,
                },
                live: (0..count).map(live).collect(),
            };
            state.write(&dir, true).unwrap();
            assert_eq!(State::read(&dir), Ok(Some(state)));
        }
        let file = open_beneath(&dir, NAME, OFlags::WRONLY, Mode::empty()).unwrap();
        rustix::io::pwrite(&file, b"9", 42).unwrap();
        assert_eq!(State::read(&dir), Ok(None));
    }
}
