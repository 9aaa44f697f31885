//! Up to where the journal is settled: all changes before that are in the files, on the disk.
//!
//! One block of one file, which the checkpoint alone writes, in place. One that cannot be read is as none: then all frames
//! that are there are replayed, which changes nothing that is right already.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::directory_fd::open_beneath;

const NAME: &str = "control";

/// What the text is padded to, in bytes: a sector, which devices write whole.
const WIDTH: usize = 512;

/// A place in the journal: where the frame with this number begins, or will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Position {
    pub(super) generation: u64,
    pub(super) offset: u64,
    pub(super) number: u64,
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

    /// What the one in `dir` says.
    pub(super) fn read(dir: &OwnedFd) -> Result<Option<Position>, Errno> {
        let file = match open_beneath(dir, NAME, OFlags::RDONLY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file?,
        };
        let mut text = [0; WIDTH];
        let n = retry_on_intr(|| rustix::io::pread(&file, &mut text, 0))?;
        Ok(std::str::from_utf8(&text[..n]).ok().and_then(parse))
    }

    /// Says that all before `settled` is in the files, durably.
    pub(super) fn write(&self, settled: Position) -> Result<(), Errno> {
        let mut text = text(settled).into_bytes();
        text.resize(WIDTH, b'\n');
        match retry_on_intr(|| rustix::io::pwrite(&self.0, &text, 0))? {
            WIDTH => rustix::fs::fdatasync(&self.0),
            _ => Err(Errno::NOSPC),
        }
    }
}

fn text(settled: Position) -> String {
    let Position {
        generation,
        offset,
        number,
    } = settled;
    let said = format!("settled before frame {number} at {generation} {offset} sum ");
    let sum = sum(&said);
    format!("{said}{sum:016x}\n")
}

fn parse(text: &str) -> Option<Position> {
    let line = text.lines().next()?;
    let words: Vec<_> = line.split(' ').collect();
    let position = Position {
        number: words.get(3)?.parse().ok()?,
        generation: words.get(5)?.parse().ok()?,
        offset: words.get(6)?.parse().ok()?,
    };
    (self::text(position).trim_end() == line).then_some(position)
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
    fn a_position_is_read_back_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let dir: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        assert_eq!(Control::read(&dir), Ok(None));
        let position = Position {
            generation: 12,
            offset: 4096 * 7,
            number: 345,
        };
        let control = Control::open(&dir).unwrap();
        control.write(position).unwrap();
        assert_eq!(Control::read(&dir), Ok(Some(position)));
        rustix::io::pwrite(&control.0, b"9", 22).unwrap();
        assert_eq!(Control::read(&dir), Ok(None));
    }
}
