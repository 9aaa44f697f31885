//! Where the journal of a directory lies, which one it is, and what the directory says of it.
//!
//! A directory that was not closed in order is not served without its journal, which may lie elsewhere: so the note in the directory
//! says which journal it has, where, and whether that may hold changes which the files lack. There are two files of which one counts,
//! written at the start and at the end of a server alone: the other is written over and takes its place, which needs no room on a
//! full disk.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;

use super::super::boot;
use super::super::directory_fd::open_beneath;
use super::super::layout::OpenError;

/// The file that says which journal it is.
const ID: &str = "id";

const NAME: &str = "journal-state";

/// The file that does not count.
const OTHER: &str = "journal-state.new";

/// `STATX_MNT_ID_UNIQUE` of Linux 6.8: no other mount has it until the next boot.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Where the journal of a directory lies, and how large it is.
#[derive(Clone, Debug)]
pub(in crate::store) struct Place {
    /// The server's directory beside the values.
    pub(in crate::store) own: PathBuf,
    /// The directory of the journal.
    pub(in crate::store) at: PathBuf,
    /// All segments together, in bytes.
    pub(in crate::store) size: u64,
}

impl Place {
    pub(super) fn open(&self) -> Result<OwnedFd, OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.at, flags, Mode::empty()).map_err(self.failed("open"))
    }

    /// Opens it, and locks it for this server before anything in it is written.
    pub(super) fn lock(&self) -> Result<OwnedFd, OpenError> {
        let dir = self.open()?;
        rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| self.foreign())?;
        Ok(dir)
    }

    /// Makes the journal in `dir`, which is locked, `id`. That of another directory is left alone.
    pub(super) fn claim(&self, dir: &OwnedFd, id: u128) -> Result<(), OpenError> {
        match read_id(dir) {
            Some(there) if there == id => return Ok(()),
            Some(_) => return Err(self.foreign()),
            None => {}
        }
        let write = || {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
            let file = open_beneath(dir, ID, flags, Mode::from(0o600))?;
            rustix::io::write(&file, format!("{id:032x}").as_bytes())?;
            rustix::fs::fsync(&file)?;
            rustix::fs::fsync(dir)
        };
        write().map_err(self.failed("make"))?;
        // One elsewhere was made with its name synced, before this process gave up the right to look there.
        if self.at.starts_with(&self.own) {
            let synced = fs::File::open(&self.own).and_then(|own| own.sync_all());
            synced.map_err(|error| OpenError::io("sync", &self.own, error))?;
        }
        Ok(())
    }

    pub(super) fn failed(&self, doing: &'static str) -> impl Fn(Errno) -> OpenError + Copy {
        move |errno| OpenError::io(doing, &self.at, errno.into())
    }

    fn foreign(&self) -> OpenError {
        OpenError::ForeignJournal {
            at: self.at.clone(),
        }
    }

    /// What the directory says of its journal; `None` where there never was one.
    pub(super) fn note(&self) -> Result<Option<Note>, OpenError> {
        Note::read(&self.own).map_err(|source| OpenError::BadNote {
            own: self.own.clone(),
            source,
        })
    }

    /// Has the directory say `note`, durably.
    pub(super) fn write_note(&self, note: &Note) -> Result<(), OpenError> {
        let written = note.write(&self.own);
        written.map_err(|error| OpenError::io("note the journal of", &self.own, error))
    }
}

/// The identifier of the journal in `dir`.
pub(super) fn read_id(dir: &OwnedFd) -> Option<u128> {
    let file = open_beneath(dir, ID, OFlags::RDONLY, Mode::empty()).ok()?;
    let mut text = [0; 32];
    let n = rustix::io::pread(&file, &mut text, 0).ok()?;
    u128::from_str_radix(std::str::from_utf8(&text[..n]).ok()?, 16).ok()
}

/// What the directory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) id: u128,
    /// Of the last server that had it open: its frames have generations above this, and its control file says the same.
    pub(super) epoch: u64,
    /// The directory of the journal, absolute.
    pub(super) at: PathBuf,
    pub(super) state: State,
}

/// What the files have of the changes that were acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// All of them, on the disk: a server has ended in order.
    Clean,
    /// All of them while the same kernel has the same mount; else the journal has what they lack.
    Open(Option<Mount>),
}

/// What the journal's end says, once all is settled.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) place: Place,
    pub(super) note: Note,
}

impl Closing {
    /// The directory is closed in order.
    pub(super) fn close(self) {
        let note = Note {
            state: State::Clean,
            ..self.note
        };
        if let Err(error) = self.place.write_note(&note) {
            tracing::warn!(%error, "cannot note that the journal is settled: the next start looks at it");
        }
    }
}

/// A mount of a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount(String);

impl Mount {
    /// The one that `file` lies on, where the kernel can tell it from all others.
    pub(super) fn of(file: impl AsFd) -> Option<Self> {
        let boot = boot::id()?;
        let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, UNIQUE_MOUNT).ok()?;
        let is_known = StatxFlags::from_bits_retain(stat.stx_mask).contains(UNIQUE_MOUNT);
        is_known.then(|| Self(format!("{boot} {}", stat.stx_mnt_id)))
    }
}

impl Note {
    /// Whether the directory was left open on the mount that `root` lies on: then the kernel has all that was made.
    pub(super) fn is_same_mount(&self, root: &OwnedFd) -> bool {
        matches!(&self.state, State::Open(Some(mount)) if Mount::of(root).as_ref() == Some(mount))
    }

    /// What is said in `own`; `None` where there never was a journal.
    pub(super) fn read(own: &Path) -> std::io::Result<Option<Self>> {
        match fs::read_to_string(own.join(NAME)) {
            Ok(text) => {
                let damaged = || std::io::Error::other("it is damaged, or of an earlier version");
                parse(&text).map(Some).ok_or_else(damaged)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says it in `own`, durably.
    pub(super) fn write(&self, own: &Path) -> std::io::Result<()> {
        let (name, other) = (own.join(NAME), own.join(OTHER));
        let mut options = fs::File::options();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(&other)?;
        let text = self.text();
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        file.sync_all()?;
        // The first time there is nothing to exchange it with, and not every file system can.
        rustix::fs::renameat_with(CWD, &other, CWD, &name, RenameFlags::EXCHANGE)
            .or_else(|_| rustix::fs::rename(&other, &name))?;
        fs::File::open(own)?.sync_all()
    }

    fn text(&self) -> String {
        let state = match &self.state {
            State::Clean => "clean",
            State::Open(None) => "open",
            State::Open(Some(Mount(mount))) => &format!("open on {mount}"),
        };
        // A path may hold anything, also the ends of lines: so it is last.
        format!(
            "{:032x} {}\n{state}\n{}",
            self.id,
            self.epoch,
            self.at.display()
        )
    }
}

fn parse(text: &str) -> Option<Note> {
    let (first, rest) = text.split_once('\n')?;
    // Before there were epochs, only a directory that was closed in order can be gone on with.
    let (id, epoch) = first.split_once(' ').unwrap_or((first, ""));
    let (state, at) = rest.split_once('\n')?;
    let state = match state.split_once(" on ") {
        Some(("open", mount)) => State::Open(Some(Mount(mount.into()))),
        None if state == "open" => State::Open(None),
        None if state == "clean" => State::Clean,
        _ => return None,
    };
    let epoch = match epoch.parse() {
        Ok(epoch) => epoch,
        Err(_) if state == State::Clean => 0,
        Err(_) => return None,
    };
    Some(Note {
        id: u128::from_str_radix(id, 16).ok()?,
        epoch,
        at: at.into(),
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_back() {
        let own = tempfile::tempdir().unwrap();
        assert_eq!(Note::read(own.path()).unwrap(), None);
        let mount = Mount::of(fs::File::open(own.path()).unwrap());
        for state in [State::Clean, State::Open(None), State::Open(mount)] {
            let note = Note {
                id: u128::MAX / 3,
                epoch: u64::MAX,
                at: "/a path\nof two lines".into(),
                state,
            };
            note.write(own.path()).unwrap();
            assert_eq!(Note::read(own.path()).unwrap(), Some(note));
        }
        let mut names = fs::read_dir(own.path()).unwrap();
        assert!(
            names
                .all(|entry| [NAME, OTHER].contains(&entry.unwrap().file_name().to_str().unwrap()))
        );
        fs::write(own.path().join(NAME), "half a").unwrap();
        assert!(Note::read(own.path()).is_err());
    }

    #[test]
    fn a_mount_is_the_same_while_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let mount = || Mount::of(fs::File::open(dir.path()).unwrap());
        assert_eq!(mount(), mount());
    }
}
