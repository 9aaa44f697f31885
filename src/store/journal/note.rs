//! What the directory of the values says of its journal: which one it has, where, and whether that may hold changes which the
//! files lack.
//!
//! A start needs it where the journal lies elsewhere: a directory that was not closed in order is not served without its
//! journal. There are two files of which one counts, written at the start and at the end of a server alone: the other is written
//! over and takes its place, which needs no room on a full disk.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, RenameFlags, StatxFlags};

const NAME: &str = "journal-state";

/// The file that does not count.
const OTHER: &str = "journal-state.new";

/// `STATX_MNT_ID_UNIQUE` of Linux 6.8: no other mount has it until the next boot.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) id: u128,
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

/// A mount of a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount(String);

impl Mount {
    /// The one that `file` lies on, where the kernel can tell it from all others.
    pub(super) fn of(file: impl AsFd) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, UNIQUE_MOUNT).ok()?;
        let is_known = StatxFlags::from_bits_retain(stat.stx_mask).contains(UNIQUE_MOUNT);
        is_known.then(|| Self(format!("{} {}", boot.trim(), stat.stx_mnt_id)))
    }
}

impl Note {
    /// What is said in `own`, the server's directory beside the values; `None` where there never was a journal.
    pub(super) fn read(own: &Path) -> std::io::Result<Option<Self>> {
        match fs::read_to_string(own.join(NAME)) {
            Ok(text) => {
                let damaged = || std::io::Error::other("it is damaged");
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
        format!("{:032x}\n{state}\n{}", self.id, self.at.display())
    }
}

fn parse(text: &str) -> Option<Note> {
    let (id, rest) = text.split_once('\n')?;
    let (state, at) = rest.split_once('\n')?;
    let state = match state.split_once(" on ") {
        Some(("open", mount)) => State::Open(Some(Mount(mount.into()))),
        None if state == "open" => State::Open(None),
        None if state == "clean" => State::Clean,
        _ => return None,
    };
    Some(Note {
        id: u128::from_str_radix(id, 16).ok()?,
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
