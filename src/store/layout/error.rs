//! Why a directory cannot be served, in words for the operator.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Why the directory cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server has it.
    #[error("{} is in use by another data-server (pid {pid})", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The other server's process id, or `unknown`.
        pid: String,
    },
    /// It is no directory.
    #[error("{} is no directory: give the directory of the values", dir.display())]
    NoDirectory {
        /// The thing that is there.
        dir: PathBuf,
    },
    /// The kernel lacks openat2 (Linux before 5.6), without which nothing keeps requests inside the directory.
    #[error("this kernel has no openat2 (Linux 5.6 or later is needed), so requests could not be kept inside {}", dir.display())]
    NoOpenat2 {
        /// The directory.
        dir: PathBuf,
    },
    /// The file system rounds times, so versions could repeat.
    #[error("the file system of {} keeps no times in nanoseconds, so versions of values could repeat", dir.display())]
    CoarseTimes {
        /// The directory.
        dir: PathBuf,
    },
    /// No method of publishing a value works.
    #[error("values cannot be published in {}: {tried}", dir.display())]
    NoPublishMethod {
        /// The directory.
        dir: PathBuf,
        /// Each method, and why it does not work.
        tried: String,
    },
    /// Names cannot be put on the disk, or the kernel cannot tell whether they are.
    #[error("--durability disk cannot be promised in {}: {why}; give --durability os, or a directory on ext4, xfs or btrfs", dir.display())]
    NoSync {
        /// The directory.
        dir: PathBuf,
        /// The thing that is missing.
        why: String,
    },
    /// The default directory is not this user's own.
    #[error("the default directory {} is {what}: it is not taken unless it is named; give --dir", dir.display())]
    NotOurs {
        /// The directory.
        dir: PathBuf,
        /// The thing that is there instead.
        what: String,
    },
    /// The directory was not closed in order, and its journal is not where it is looked for.
    #[error("the journal of the directory is not in {}, and may have changes that its files lack: it was in {}; give that as --journal-dir, or give those changes up with --journal discard", at.display(), noted.display())]
    NoJournal {
        /// Where it was looked for.
        at: PathBuf,
        /// Where it was.
        noted: PathBuf,
    },
    /// The directory that is to have the journal has that of another one.
    #[error("{} has the journal of another directory, or of a server that runs: give each its own --journal-dir", at.display())]
    ForeignJournal {
        /// The directory of the journal.
        at: PathBuf,
    },
    /// The journal has changes that could not be made in the files.
    #[error("the journal in {} cannot be replayed ({why}); nothing of it was changed: mend that and start again{}", at.display(), if *is_damaged { ", or look with `data-server journal check` at what it has, and give up what cannot be read with --journal discard" } else { "" })]
    Unreplayed {
        /// The directory of the journal.
        at: PathBuf,
        /// The thing that is in the way.
        why: String,
        /// It is the journal itself.
        is_damaged: bool,
    },
    /// The note of the journal in the directory cannot be read.
    #[error("cannot read the journal's state in {}: {source}; a server that was not ended in order may have left changes in the journal alone: put the file back, or give them up with --journal discard", own.display())]
    BadNote {
        /// The server's directory beside the values.
        own: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The journal has changes that a server which only reads cannot make in the files.
    #[error("{} was not closed in order, and its journal has changes that its files lack: start it once without --read-only", dir.display())]
    NotReplayed {
        /// The directory.
        dir: PathBuf,
    },
    /// Anything else.
    #[error("cannot {doing} {}: {source}{}", path.display(), hint(path, source))]
    Failed {
        /// The step that was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// Advice for the operator.
fn hint(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => "; --read-only serves what is there".to_owned(),
        ErrorKind::NotFound => "; a server that only reads makes no directory".to_owned(),
        ErrorKind::PermissionDenied => {
            let found = path
                .ancestors()
                .find_map(|there| Some((there, there.metadata().ok()?)));
            found.map_or_else(String::new, |(there, metadata)| {
                format!(
                    "; this process has the uid {}, and {} has the owner {} and the mode {:04o}",
                    geteuid().as_raw(),
                    there.display(),
                    metadata.uid(),
                    metadata.mode() & 0o7777
                )
            })
        }
        _ => String::new(),
    }
}

impl OpenError {
    /// For `map_err`: as [`OpenError::io`].
    pub fn failed<E: Into<std::io::Error>>(doing: &'static str, path: &Path) -> impl Fn(E) -> Self {
        move |error| Self::io(doing, path, error.into())
    }

    /// A failure with no meaning of its own, met while `doing` with `path`.
    pub fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Failed {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}
