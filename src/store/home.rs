//! `DIR/.data-server/`: what the server keeps for itself beside the values.
//!
//! Owns opening the directory at the start: it is created when missing and never emptied, locked against a second
//! server, swept of what a killed server had staged, and tried for what the contract needs of the file system.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::attributes;
use super::clock::Clock;
use super::key::RESERVED;
use super::names::open_beneath;
use super::staged::link_unnamed;
use super::staging::{Durability, Features};

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
    /// Anything else.
    #[error("cannot {doing} {}: {source}", path.display())]
    Failed {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// The directory, opened and ours until the lock is dropped.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) root: OwnedFd,
    pub(super) staging: OwnedFd,
    pub(super) lock: fs::File,
    pub(super) features: Features,
    pub(super) clock: Clock,
}

impl Home {
    /// Opens `dir` for serving and writing; what is made for that is as durable as the values are to be.
    pub(super) fn open(dir: &Path, durability: Durability) -> Result<Self, OpenError> {
        let failed = |doing, path: PathBuf| {
            move |source| OpenError::Failed {
                doing,
                path,
                source,
            }
        };
        let own = dir.join(RESERVED);
        let absolute = std::path::absolute(&own).map_err(failed("name", own.clone()))?;
        let is_new = !own.join("clock").exists();
        let there = absolute.ancestors().find(|path| path.exists());
        let there = there.unwrap_or(&absolute).to_owned();
        fs::create_dir_all(own.join("staging")).map_err(failed("create", own.join("staging")))?;
        let lock = lock(dir, &own.join("lock"))?;

        let directory = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = rustix::fs::open(dir, directory | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| failed("open", dir.to_owned())(e.into()))?;
        let staging = open_beneath(
            &root,
            &format!("{RESERVED}/staging"),
            directory,
            Mode::empty(),
        )
        .map_err(|e| match e {
            Errno::NOSYS | Errno::PERM => OpenError::NoOpenat2 {
                dir: dir.to_owned(),
            },
            e => failed("open", own.join("staging"))(e.into()),
        })?;

        sweep(&own.join("staging")).map_err(failed("empty", own.join("staging")))?;
        let features = probe(&root, &staging)
            .map_err(|e| failed("write to", dir.to_owned())(e.into()))?
            .ok_or_else(|| OpenError::CoarseTimes {
                dir: dir.to_owned(),
            })?;
        let clock = open_beneath(
            &root,
            &format!("{RESERVED}/clock"),
            OFlags::RDWR | OFlags::CREATE,
            Mode::from(0o644),
        )
        .and_then(Clock::resume)
        .map_err(|e| failed("read", own.join("clock"))(e.into()))?;
        if is_new && durability == Durability::Disk {
            sync_names(&absolute, &there).map_err(failed("sync", own))?;
        }
        Ok(Self {
            root,
            staging,
            lock,
            features,
            clock,
        })
    }
}

/// Puts names on the disk: those in `own`, and its own and those above it, as far as they lie in `there` or below. A
/// sync of a directory promises nothing of the directory's own name.
fn sync_names(own: &Path, there: &Path) -> std::io::Result<()> {
    for made in own.ancestors().take_while(|path| path.starts_with(there)) {
        fs::File::open(made)?.sync_all()?;
    }
    Ok(())
}

/// Takes the lock for as long as the file stays open, and leaves our process id in it for the next who tries.
fn lock(dir: &Path, path: &Path) -> Result<fs::File, OpenError> {
    let failed = |doing| {
        move |source| OpenError::Failed {
            doing,
            path: path.to_owned(),
            source,
        }
    };
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(failed("open"))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let known = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
            let pid = if known {
                pid.trim().to_owned()
            } else {
                "unknown".to_owned()
            };
            return Err(OpenError::InUse {
                dir: dir.to_owned(),
                pid,
            });
        }
        Err(errno) => return Err(failed("lock")(errno.into())),
    }
    // The pid is a courtesy: a full disk must not keep the server, and with it DELETE, from starting.
    let note = file
        .set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    if let Err(error) = note {
        tracing::warn!(%error, "cannot note the process id in the lock file");
    }
    Ok(file)
}

/// Removes what a killed server was still writing.
fn sweep(staging: &Path) -> std::io::Result<()> {
    let mut swept = 0;
    for entry in fs::read_dir(staging)? {
        fs::remove_file(entry?.path())?;
        swept += 1;
    }
    if swept > 0 {
        tracing::info!(files = swept, "removed what an earlier server had staged");
    }
    Ok(())
}

/// Tries what the store relies on; `None` when times are rounded.
fn probe(root: &OwnedFd, staging: &OwnedFd) -> Result<Option<Features>, Errno> {
    let unnamed = match open_beneath(root, ".", OFlags::TMPFILE | OFlags::RDWR, Mode::from(0o600)) {
        Ok(file) => Some(file),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => None,
        // A full disk or table must not keep the server, and with it DELETE, from starting.
        Err(Errno::NOSPC | Errno::DQUOT | Errno::ROFS) => {
            return Ok(Some(Features {
                unnamed: true,
                link_empty_path: false,
            }));
        }
        Err(errno) => return Err(errno),
    };
    let Some(file) = unnamed else {
        let created = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let file = open_beneath(staging, "probe", created, Mode::from(0o600))?;
        rustix::fs::unlinkat(staging, "probe", AtFlags::empty())?;
        return Ok(keeps_nanoseconds(&file)?.then_some(Features {
            unnamed: false,
            link_empty_path: false,
        }));
    };
    if !keeps_nanoseconds(&file)? {
        return Ok(None);
    }
    if !attributes::are_kept(&file) {
        tracing::warn!(
            "the file system keeps no extended attributes: media types are guessed from keys"
        );
    }
    let link_empty_path = link_unnamed(&file, staging, "probe", true).is_ok();
    if link_empty_path {
        rustix::fs::unlinkat(staging, "probe", AtFlags::empty())?;
    }
    Ok(Some(Features {
        unnamed: true,
        link_empty_path,
    }))
}

fn keeps_nanoseconds(file: impl AsFd) -> Result<bool, Errno> {
    let odd = Timespec {
        tv_sec: 1_234_567_890,
        tv_nsec: 123_456_789,
    };
    rustix::fs::futimens(
        &file,
        &Timestamps {
            last_access: odd,
            last_modification: odd,
        },
    )?;
    let stat = rustix::fs::fstat(&file)?;
    Ok(stat.st_mtime_nsec == 123_456_789)
}
