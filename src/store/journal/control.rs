//! The control file: up to where the journal is settled, that is, in the files and on the disk; which segments hold what is not; and
//! whether a checkpoint has failed, so that what the kernel remembers of the files may never reach the disk.
//!
//! One block of one file, written in place. One that cannot be read is damage where there is no frame that says the same.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::time::{ClockId, clock_gettime};

use super::super::directory_fd::open_beneath;

const NAME: &str = "control";

/// What the text is padded to, in bytes: a sector, which devices write whole.
const WIDTH: usize = 512;

/// A place in the journal: where the frame begins, or will, whose first record has this sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Position {
    pub(in crate::store) generation: u64,
    pub(in crate::store) offset: u64,
    pub(in crate::store) sequence: u64,
}

impl Position {
    /// Where a new journal begins.
    pub(super) const START: Self = Self {
        generation: 0,
        offset: 0,
        sequence: 1,
    };
}

/// A segment that holds frames, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) generation: u64,
    pub(super) index: u32,
    /// The sequence number of its first record.
    pub(super) first: u64,
}

/// Which directory one is: its inode and when that was made, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The run of a server that wrote it.
    pub(super) epoch: u64,
    /// The directory that it is in: a copy is another one.
    pub(super) dir: DirId,
    /// When it was written, by the system's clock, in nanoseconds since 1970.
    pub(super) time: i64,
    pub(super) settled: Position,
    /// Bytes of each segment.
    pub(super) size: u64,
    /// A checkpoint has begun and not succeeded.
    pub(super) is_suspect: bool,
    /// Oldest first; those before the settled position do not count.
    pub(super) live: Vec<Live>,
}

/// The file.
#[derive(Debug)]
pub(super) struct Control(OwnedFd);

impl Control {
    /// Opens the one in `dir`, or makes it.
    pub(super) fn open(dir: &OwnedFd) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        open_beneath(dir, NAME, flags, Mode::from(0o600)).map(Self)
    }

    /// What the one in `dir` says; `None` where it says nothing that can be read.
    pub(super) fn read(dir: &OwnedFd) -> Result<Option<State>, Errno> {
        let file = match open_beneath(dir, NAME, OFlags::RDONLY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file?,
        };
        let mut text = [0; WIDTH];
        let n = retry_on_intr(|| rustix::io::pread(&file, &mut text, 0))?;
        Ok(std::str::from_utf8(&text[..n]).ok().and_then(parse))
    }

    /// Says `state`, so that another process sees it.
    pub(super) fn write(&self, state: &State) -> Result<(), Errno> {
        let mut text = text(state).into_bytes();
        text.resize(WIDTH, b'\n');
        match retry_on_intr(|| rustix::io::pwrite(&self.0, &text, 0))? {
            WIDTH => Ok(()),
            _ => Err(Errno::NOSPC),
        }
    }

    /// As [`Self::write`], so that it survives the loss of power.
    pub(super) fn write_durably(&self, state: &State) -> Result<(), Errno> {
        self.write(state)?;
        rustix::fs::fdatasync(&self.0)
    }
}

/// The system's time, in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn text(state: &State) -> String {
    let State {
        epoch,
        dir: DirId { inode, born },
        time,
        settled,
        size,
        is_suspect,
        live,
    } = state;
    let Position {
        generation,
        offset,
        sequence,
    } = settled;
    let is_suspect = u8::from(*is_suspect);
    let mut said = format!(
        "epoch {epoch} settled {sequence} at {generation} {offset} suspect {is_suspect} size {size} dir {inode} {born} time {time} live "
    );
    for live in live {
        // Writing to a String does not fail.
        let _ = write!(said, "{}:{}:{} ", live.generation, live.index, live.first);
    }
    let sum = sum(&said);
    format!("{said}sum {sum:016x}\n")
}

fn parse(text: &str) -> Option<State> {
    let line = text.lines().next()?;
    let words: Vec<_> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse().ok();
    let dir = DirId {
        inode: number(12)?,
        born: words.get(13)?.parse().ok()?,
    };
    let settled = Position {
        sequence: number(3)?,
        generation: number(5)?,
        offset: number(6)?,
    };
    let segments = words.get(17..words.len().checked_sub(2)?)?;
    let state = State {
        epoch: number(1)?,
        dir,
        time: words.get(15)?.parse().ok()?,
        settled,
        is_suspect: number(8)? == 1,
        size: number(10)?,
        live: segments
            .iter()
            .map(|word| parse_live(word))
            .collect::<Option<_>>()?,
    };
    (self::text(&state).trim_end() == line).then_some(state)
}

fn parse_live(word: &str) -> Option<Live> {
    let mut numbers = word.split(':').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some(Live {
        generation: next()?,
        index: u32::try_from(next()?).ok()?,
        first: next()?,
    })
}

fn sum(text: &str) -> u64 {
    let mut digest = crc64fast_nvme::Digest::new();
    digest.write(text.as_bytes());
    digest.sum64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let dir: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        assert_eq!(Control::read(&dir), Ok(None));
        let live = |index: u32| Live {
            generation: u64::MAX - u64::from(index),
            index,
            first: u64::MAX,
        };
        let control = Control::open(&dir).unwrap();
        for count in 0..5 {
            let state = State {
                epoch: u64::MAX,
                dir: DirId {
                    inode: u64::MAX,
                    born: i64::MAX,
                },
                time: i64::MAX,
                settled: Position {
                    generation: 12,
                    offset: 4096 * 7,
                    sequence: 345,
                },
                size: 64 << 20,
                is_suspect: count % 2 == 1,
                live: (0..count).map(live).collect(),
            };
            control.write_durably(&state).unwrap();
            assert_eq!(Control::read(&dir), Ok(Some(state)));
        }
        rustix::io::pwrite(&control.0, b"9", 42).unwrap();
        assert_eq!(Control::read(&dir), Ok(None));
    }
}
