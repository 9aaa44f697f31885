//! The state of a journal on the disk: where it lies and which one it is, the note of it in the directory of the
//! values, and the control file beside its segments.
//!
//! A directory that was not closed in order is not served without its journal, which may lie elsewhere: so the note in
//! the directory says which journal it has, where, and whether that may hold changes which the files lack. It is
//! written at the start and at the end of a server alone.
//!
//! The control file says up to where the journal is settled, that is, in the files and on the disk; which segments hold
//! what is not; and whether a checkpoint has failed, so that what the kernel remembers of the files may never reach the
//! disk. It is one line, written in place. One that cannot be read is damage where there is no frame that says the
//! same.

use std::fs;
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::super::clock;
use super::super::directory_fd::open_beneath;
use super::super::layout::OpenError;
use super::super::small_file;
use super::format::checksum;
use crate::value::RESERVED;

/// The file that says which journal it is.
const ID: &str = "id";

const NAME: &str = "journal-state";

/// The state after an orderly end: the files have all acknowledged changes, on the disk, but for those that are kept.
pub const CLEAN: &str = "clean";

/// The files have all changes while the same kernel has the same mount, if that is named; else the journal has what
/// they lack.
const OPEN: &str = "open";

/// `STATX_MNT_ID_UNIQUE` of Linux 6.8: no other mount has it until the next boot.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Where the journal of a directory lies, and how large it is.
#[derive(Clone, Debug)]
pub struct JournalLocation {
    /// The server's directory beside the values.
    pub own: PathBuf,
    /// The directory of the journal, absolute.
    pub at: PathBuf,
    /// All segments together, in bytes.
    pub size: u64,
}

/// The note of the journal in the directory of the values, `journal-state`. It has three lines: `id` and run, `clean`
/// or `open` (`on` this boot and mount), and the journal's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub id: u128,
    /// The run of the last server that had it open: its frames have generations above this, and its control file has
    /// the same epoch.
    pub epoch: u64,
    /// The directory of the journal, absolute.
    pub at: PathBuf,
    /// [`CLEAN`] or [`OPEN`].
    pub state: String,
}

impl JournalLocation {
    /// The journal of the values in `dir`, which lies `at` another place if that is given.
    pub fn new(dir: &Path, at: Option<&Path>, size: u64) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or(path.to_owned());
        let own = absolute(&dir.join(RESERVED));
        Self {
            at: at.map_or_else(|| own.join("journal"), absolute),
            own,
            size,
        }
    }

    /// Opens it. If it `is_to_be_written`, locks it for this server before anything in it is.
    pub fn open(&self, is_to_be_written: bool) -> Result<OwnedFd, OpenError> {
        let dir = rustix::fs::open(&self.at, DIRECTORY, Mode::empty());
        let dir = dir.map_err(self.failed("open"))?;
        if is_to_be_written {
            rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive)
                .map_err(|_| self.foreign())?;
        }
        Ok(dir)
    }

    /// Writes `id` as the identifier of the journal in `dir`, which is locked. The journal of another directory is left
    /// alone.
    pub fn claim(&self, dir: &OwnedFd, id: u128) -> Result<(), OpenError> {
        match self.id() {
            Some(there) if there == id => return Ok(()),
            Some(_) => return Err(self.foreign()),
            None => {}
        }
        write(dir, ID, format!("{id:032x}").as_bytes()).map_err(self.failed("make"))?;
        // One elsewhere was made with its name synced, before this process gave up the right to look there.
        if self.at.starts_with(&self.own) {
            let synced = fs::File::open(&self.own).and_then(|own| own.sync_all());
            synced.map_err(OpenError::failed("sync", &self.own))?;
        }
        Ok(())
    }

    /// The identifier of the journal here.
    pub fn id(&self) -> Option<u128> {
        let text = fs::read_to_string(self.at.join(ID)).ok()?;
        u128::from_str_radix(&text, 16).ok()
    }

    /// The note in the directory; `None` where there never was a note.
    pub fn note(&self) -> Result<Option<Note>, OpenError> {
        let damaged = || Error::other("it is damaged, or of an earlier version");
        let note = match fs::read_to_string(self.own.join(NAME)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.and_then(|text| parse(&text).ok_or_else(damaged)),
        };
        note.map(Some).map_err(|source| OpenError::BadNote {
            own: self.own.clone(),
            source,
        })
    }

    /// The note that a journal below the directory would have if it was not closed in order. That a journal elsewhere
    /// is its own, only the note can say.
    pub fn note_by_journal(&self) -> Option<Note> {
        let is_below = self.at.starts_with(&self.own);
        let dir = is_below.then(|| self.open(false).ok())??;
        Some(Note {
            id: self.id()?,
            epoch: Control::read(&dir).ok()??.epoch,
            at: self.at.clone(),
            state: OPEN.to_owned(),
        })
    }

    /// Writes `note` in the directory, durably.
    pub fn write_note(&self, note: &Note) -> Result<(), OpenError> {
        // A path may hold anything, also the ends of lines: so it is last.
        let (at, state) = (note.at.display(), &note.state);
        let text = format!("{:032x} {}\n{state}\n{at}", note.id, note.epoch);
        let own = rustix::fs::open(&self.own, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        own.map_err(Into::into)
            .and_then(|own| write(&own, NAME, text.as_bytes()))
            .map_err(OpenError::failed("note the journal of", &self.own))
    }

    /// For `map_err`: a failure met while `doing` with the journal's directory.
    pub fn failed<E: Into<Error>>(&self, doing: &'static str) -> impl Fn(E) -> OpenError + Copy {
        OpenError::failed(doing, &self.at)
    }

    fn foreign(&self) -> OpenError {
        let at = self.at.display();
        OpenError::Refused(format!(
            "{at} has the journal of another directory, or of a server that runs: give each its own --journal-dir"
        ))
    }
}

impl Note {
    pub fn is_clean(&self) -> bool {
        self.state == CLEAN
    }

    /// Whether the directory was left open on the mount that `root` lies on: then the kernel has all that was made.
    pub fn is_same_mount(&self, root: &OwnedFd) -> bool {
        self.state != OPEN && self.state == open_on(root)
    }
}

/// [`OPEN`] with the boot and the mount that `root` lies on, where the kernel can tell it from all others.
pub fn open_on(root: &OwnedFd) -> String {
    let stat = rustix::fs::statx(root, "", AtFlags::EMPTY_PATH, UNIQUE_MOUNT);
    let is_unique = |mask: &u32| StatxFlags::from_bits_retain(*mask).contains(UNIQUE_MOUNT);
    match (clock::boot_id(), stat) {
        (Some(boot), Ok(stat)) if is_unique(&stat.stx_mask) => {
            format!("{OPEN} on {boot} {}", stat.stx_mnt_id)
        }
        _ => OPEN.to_owned(),
    }
}

/// Has the file `name` in `dir` hold `content`, durably.
pub fn write(dir: &OwnedFd, name: &str, content: &[u8]) -> std::io::Result<()> {
    Ok(small_file::replace((dir, name), content, true, true)?)
}

fn parse(text: &str) -> Option<Note> {
    let mut lines = text.splitn(3, '\n');
    let (id, epoch) = lines.next()?.split_once(' ')?;
    let (state, at) = (lines.next()?, lines.next()?);
    let is_known = [CLEAN, OPEN].contains(&state) || state.starts_with("open on ");
    Some(Note {
        id: u128::from_str_radix(id, 16).ok()?,
        epoch: epoch.parse().ok()?,
        at: at.into(),
        state: is_known.then(|| state.to_owned())?,
    })
}

pub const CONTROL: &str = "control";

/// The length that the line is padded to, in bytes: longer than it ever is.
const WIDTH: usize = 1024;

/// A segment that holds frames, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSegment {
    pub generation: u64,
    pub index: u32,
    /// The sequence number of its first record.
    pub first: u64,
}

/// The identity of a directory: its inode, and the time at which that was made, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirId {
    inode: u64,
    pub born: i64,
}

impl DirId {
    /// The identity of `dir`.
    pub fn of(dir: &OwnedFd) -> Result<Self, Errno> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let stat = rustix::fs::statx(dir, "", AtFlags::EMPTY_PATH, wanted)?;
        let born = stat.stx_btime;
        Ok(Self {
            inode: stat.stx_ino,
            born: born.tv_sec * 1_000_000_000 + i64::from(born.tv_nsec),
        })
    }
}

/// The content of the control file: one line of JSON, a space, the checksum of the JSON in 16 hexadecimal digits, and
/// spaces up to 1,024 bytes.
///
/// ```text
/// {"is_suspect":false,"epoch":1795771720,"settled":1,"size":4194304,"time":...,"dir":{...},"live":[{...}]} 7a6d...
///  |                  |                  |           |                         |           |
///  a checkpoint       run, as in         the first   bytes of                  inode and   segments with later
///  has failed         `journal-state`    change not  a segment                 birth of    changes, oldest first:
///                                        checkpointed                          `journal`   {"generation":...,
///                                                                                          "index":1,"first":1},
///                                                                                          the first change
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// A checkpoint has begun and not succeeded.
    pub is_suspect: bool,
    /// The run of a server that wrote it.
    pub epoch: u64,
    /// All changes before this number are settled.
    pub settled: u64,
    /// Bytes of each segment.
    pub size: u64,
    /// When it was written, by the system's clock, in nanoseconds since 1970.
    pub time: i64,
    /// The identity of its directory, which differs in a copy.
    pub dir: DirId,
    /// The segments that hold unsettled frames, oldest first.
    pub live: Vec<LiveSegment>,
}

impl Control {
    /// The content of the file in `dir`; `None` where that cannot be read.
    pub fn read(dir: &OwnedFd) -> Result<Option<Self>, Errno> {
        let line = small_file::read((dir, CONTROL), WIDTH as u64)?;
        Ok(line.and_then(|line| parse_control(&line)))
    }

    /// Writes the file in `dir`, for other processes, and for after a loss of power if it is `durable`.
    pub fn write(&self, dir: &OwnedFd, durable: bool) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = open_beneath(dir, CONTROL, flags, Mode::from(0o600))?;
        let state = serde_json::to_string(self).map_err(|_| Errno::INVAL)?;
        let sum = checksum(&[state.as_bytes()]);
        let line = format!("{state} {sum:016x}\n{:WIDTH$}", "");
        small_file::overwrite(file, &line.as_bytes()[..WIDTH], durable)
    }
}

fn parse_control(line: &[u8]) -> Option<Control> {
    let line = std::str::from_utf8(line).ok()?;
    let (state, told) = line.lines().next()?.rsplit_once(' ')?;
    let is_whole = u64::from_str_radix(told, 16) == Ok(checksum(&[state.as_bytes()]));
    is_whole.then(|| serde_json::from_str(state).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_back() {
        let own = tempfile::tempdir().unwrap();
        let place = JournalLocation {
            own: own.path().to_owned(),
            at: PathBuf::default(),
            size: 0,
        };
        assert_eq!(place.note().unwrap(), None);
        let open = open_on(&fs::File::open(own.path()).unwrap().into());
        for state in [CLEAN, OPEN, &open] {
            let note = Note {
                id: u128::MAX / 3,
                epoch: u64::MAX,
                at: "/a path\nof two lines".into(),
                state: state.into(),
            };
            place.write_note(&note).unwrap();
            assert_eq!(place.note().unwrap(), Some(note));
        }
        let mut names = fs::read_dir(own.path()).unwrap();
        assert!(names.all(|entry| {
            [NAME, "journal-state.new"].contains(&entry.unwrap().file_name().to_str().unwrap())
        }));
        for damaged in ["half a", "12 3\nopening\n/a", "12\nopen\n/a"] {
            fs::write(own.path().join(NAME), damaged).unwrap();
            assert!(place.note().is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_mount_is_the_same_while_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let open = || open_on(&fs::File::open(dir.path()).unwrap().into());
        assert_eq!(open(), open());
    }

    #[test]
    fn a_state_is_read_back_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let dir: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        assert_eq!(Control::read(&dir), Ok(None));
        let live = |index: u32| LiveSegment {
            generation: u64::MAX - u64::from(index),
            index: u32::MAX,
            first: u64::MAX,
        };
        for count in 0..5 {
            let state = Control {
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
            assert_eq!(Control::read(&dir), Ok(Some(state)));
        }
        let file = open_beneath(&dir, CONTROL, OFlags::WRONLY, Mode::empty()).unwrap();
        rustix::io::pwrite(&file, b"9", 42).unwrap();
        assert_eq!(Control::read(&dir), Ok(None));
    }
}
