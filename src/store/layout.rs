//! `DIR/.data-server/`: what the server keeps for itself beside the values.
//!
//! Owns opening the directory at the start: it is created when missing and never emptied, locked against a second
//! server, swept of what a killed server had staged, and tried for what the contract needs of the file system. Also the
//! errors of that.

pub mod file_system;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::CpuSet;

use super::clock::Clock;
use super::directory_fd::{FOLDER_MODE, ValuesDir, make_and_open, open_beneath};
use super::inherit::{keep_private, unmasked};
use super::location::Location;
use super::publish_method::{ASIDE, PublishMethod, set_aside};
use super::temp_file::{ServerDirs, VALUE_MODE, names};
use super::write_context::Durability;
use crate::file_error::owner;
use crate::transfer::BlockingPool;
use crate::value::RESERVED;

/// How long the lock is retried: a read-only server holds it for some microseconds while it checks for a writer.
const LOOKED_AT: Duration = Duration::from_millis(500);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// The directory, opened and ours until the lock is dropped.
#[derive(Debug)]
pub struct StateDir {
    pub dirs: ServerDirs,
    pub lock: fs::File,
    pub clock: Clock,
    /// The type of the file system, where the kernel tells it.
    pub kind: Option<String>,
}

impl StateDir {
    /// Opens `dir`, on a device that the `disk` threads wait for, for reading and writing. What it creates is as
    /// durable as the values are to be.
    pub fn open(dir: &Path, durability: Durability, disk: BlockingPool) -> Result<Self, OpenError> {
        make(dir, durability)?;
        let path = dir.join(RESERVED);
        let is_new = !path.join("clock").exists();
        let root = open_root(dir)?;
        let own = make_and_open(&root, RESERVED, FOLDER_MODE.into());
        let own = own.map_err(OpenError::failed("create", &path))?;
        let private = |name: &str| {
            let made = make_and_open(&own, name, Mode::RWXU);
            let private = made.and_then(|made| keep_private(&made).map(|()| made));
            private.map_err(OpenError::failed("create", &path.join(name)))
        };
        let (staging, uploads) = (private("staging")?, private("uploads")?);
        let parts = private("parts")?;
        let open = |name: &str| {
            let flags = OFlags::RDWR | OFlags::CREATE;
            let opened = open_beneath(&own, name, flags, Mode::from(0o644));
            opened.map_err(OpenError::failed("open", &path.join(name)))
        };
        let lock = lock(dir, open("lock")?.into(), LOOKED_AT)?;
        let clock = Clock::resume(open("clock")?);
        let mut clock = clock.map_err(OpenError::failed("read", &path.join("clock")))?;
        let swept = sweep(&own, &staging, &mut clock);
        swept.map_err(OpenError::failed("empty", &path.join("staging")))?;
        let kind = file_system::kind(&root);
        if durability != Durability::Os {
            prove_syncs(dir, &root, kind.as_deref())?;
        }
        let method = try_out(dir, &root, &staging, kind.as_deref())?;
        if is_new && durability != Durability::Os {
            sync_names(&path, dir).map_err(OpenError::failed("sync", &path))?;
        }
        let location = Location::new(dir, &root, Some(&lock));
        let location = location.map_err(OpenError::failed("open", dir))?;
        let dirs = ServerDirs {
            values: Arc::new(ValuesDir::new(root, location, disk)),
            gives_groups: file_system::gives_groups(&own),
            own,
            staging,
            uploads,
            parts,
            method,
            exchanges: false,
            mode: unmasked(VALUE_MODE),
            next_name: AtomicU64::new(0),
        };
        Ok(Self {
            dirs,
            lock,
            clock,
            kind,
        })
    }
}

/// Opens `dir`, where the kernel can keep requests inside.
fn open_root(dir: &Path) -> Result<OwnedFd, OpenError> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(dir, directory, Mode::empty());
    let root = root.map_err(OpenError::failed("open", dir))?;
    match open_beneath(&root, ".", directory, Mode::empty()) {
        // Without it nothing keeps requests inside the directory.
        Err(Errno::NOSYS | Errno::PERM) => Err(OpenError::Refused(format!(
            "this kernel has no openat2 (Linux 5.6 or later is needed), so requests could not be kept inside {}",
            dir.display()
        ))),
        _ => Ok(root),
    }
}

/// Opens the values in `dir` to be read alone, on a device that disk threads on these CPUs wait for.
pub fn open_values(dir: &Path, cpus: Option<CpuSet>) -> Result<ValuesDir, OpenError> {
    let failed = OpenError::failed("open", dir);
    let root = open_root(dir)?;
    let location = Location::new(dir, &root, None).map_err(failed)?;
    let disk = BlockingPool::disk(cpus).map_err(failed)?;
    Ok(ValuesDir::new(root, location, disk))
}

/// The process id of the server that has `dir`, as it sees itself.
pub fn server_of(dir: &Path) -> Option<u32> {
    let own = dir.join(RESERVED);
    // Behind the last server its number stays.
    let pid = is_in_use(&own).then(|| fs::read_to_string(own.join("lock")));
    pid?.ok()?.trim().parse().ok()
}

/// Takes the lock for as long as the file stays open, and writes our process id into it for the error message of the
/// next server.
fn lock(dir: &Path, mut file: fs::File, within: Duration) -> Result<fs::File, OpenError> {
    let end = Instant::now() + within;
    let locked = loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(PAUSE),
            locked => break locked,
        }
    };
    if locked == Err(Errno::WOULDBLOCK) {
        let mut pid = String::new();
        let _ = file.read_to_string(&mut pid);
        let pid = Some(pid.trim()).filter(|pid| !pid.is_empty());
        return Err(OpenError::InUse {
            dir: dir.to_owned(),
            pid: pid.unwrap_or("unknown").to_owned(),
        });
    }
    locked.map_err(OpenError::failed("lock", dir))?;
    // The pid is a courtesy: a full disk must not keep the server, and with it DELETE, from starting.
    let note = file
        .set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    if let Err(error) = note {
        tracing::warn!(%error, "cannot note the process id in the lock file");
    }
    Ok(file)
}

/// Removes what a killed server was still writing. A folder, which another program had put in the place of a value
/// while that was [exchanged](super::publish_method::exchange), is set aside with all that is in it.
fn sweep(own: &OwnedFd, staging: &OwnedFd, clock: &mut Clock) -> Result<(), Errno> {
    let mut swept = 0;
    for name in names(staging)? {
        let name = name.to_string_lossy();
        match rustix::fs::unlinkat(staging, &*name, AtFlags::empty()) {
            Ok(()) => swept += 1,
            // A file system may remove the open files of a killed process by itself, and be quicker.
            Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => {
                let to = clock.next(None)?.nanos().to_string();
                set_aside(own, staging, &name, &to)?;
                tracing::warn!(%name, aside = format!("{ASIDE}/{to}"), "set aside: a folder in staging");
            }
            Err(errno) => return Err(errno),
        }
    }
    if swept > 0 {
        tracing::info!(files = swept, "removed what an earlier server had staged");
    }
    Ok(())
}

/// Tries what the store relies on, and logs what was found.
fn try_out(
    dir: &Path,
    root: &OwnedFd,
    staging: &OwnedFd,
    kind: Option<&str>,
) -> Result<PublishMethod, OpenError> {
    let tried = file_system::try_out(dir, root, staging);
    let (method, attributes) = tried.map_err(OpenError::Refused)?;
    let kept = match attributes {
        Some(true) => "kept",
        Some(false) => "not kept",
        None => "not tried",
    };
    let kind = kind.unwrap_or("unknown");
    tracing::info!(file_system = kind, publishing = %method, attributes = kept, "tried the directory");
    if attributes == Some(false) {
        tracing::warn!(
            "the file system keeps no extended attributes: media types are guessed from keys, and \
             other fields of values are lost"
        );
    }
    Ok(method)
}

/// Refuses a file system that cannot sync names, or of which the kernel cannot tell. A failing device is not refused:
/// the PUTs will report it.
fn prove_syncs(dir: &Path, root: &OwnedFd, kind: Option<&str>) -> Result<(), OpenError> {
    let why = match rustix::fs::fsync(root) {
        Err(errno) if is_unsyncable(errno) => {
            format!("its file system syncs no directories ({errno})")
        }
        _ => match kind {
            Some(kind) if !file_system::proves_syncs(kind) => format!(
                "the kernel cannot tell whether {kind}, a program, syncs directories, and some do not"
            ),
            _ => return Ok(()),
        },
    };
    let dir = dir.display();
    Err(OpenError::Refused(format!(
        "--durability disk cannot be promised in {dir}: {why}; give --durability os, or a directory on ext4, xfs or btrfs"
    )))
}

/// Makes `dir` if it is missing. The names of what it makes are as durable as the values are to be.
pub fn make(dir: &Path, durability: Durability) -> Result<(), OpenError> {
    let failed = |doing| OpenError::failed(doing, dir);
    match dir.metadata() {
        Ok(there) if there.is_dir() => return Ok(()),
        Ok(_) => return Err(OpenError::no_directory(dir)),
        Err(_) => {}
    }
    let absolute = std::path::absolute(dir).map_err(failed("name"))?;
    let there = absolute.ancestors().find(|path| path.exists());
    let there = there.unwrap_or(&absolute).to_owned();
    std::fs::create_dir_all(dir).map_err(failed("create"))?;
    if durability == Durability::Os {
        return Ok(());
    }
    match sync_names(&absolute, &there) {
        // A file system that syncs no directory is refused later, with what it means.
        Err(error) if Errno::from_io_error(&error).is_some_and(is_unsyncable) => Ok(()),
        synced => synced.map_err(failed("sync")),
    }
}

/// True if `errno` says that a file system syncs no directories.
fn is_unsyncable(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Syncs the names in `own`, and in each directory above it up to `there`: a sync of a directory does not cover the
/// directory's own name.
pub fn sync_names(own: &Path, there: &Path) -> std::io::Result<()> {
    for made in own.ancestors().take_while(|path| path.starts_with(there)) {
        std::fs::File::open(made)?.sync_all()?;
    }
    Ok(())
}

/// Whether a server that writes has the directory in which `own` lies.
pub fn is_in_use(own: &Path) -> bool {
    let lock = fs::File::open(own.join("lock"));
    lock.is_ok_and(|lock| {
        let locked = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared);
        locked == Err(Errno::WOULDBLOCK)
    })
}

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
    /// It cannot be served for the reason given, which names it.
    #[error("{0}")]
    Refused(String),
    /// Its journal is not where it is looked for, and the directory was not closed in order, or records are kept in the
    /// journal.
    #[error("the journal of the directory is not in {}, and may have changes that its files lack: it was in {}; give that as --journal-dir, or give those changes up with --journal discard", at.display(), noted.display())]
    NoJournal {
        /// Where it was looked for.
        at: PathBuf,
        /// Where it was.
        noted: PathBuf,
    },
    /// The note of the journal in the directory cannot be read.
    #[error("cannot read the journal's state in {}: {source}; a server that was not ended in order may have left changes in the journal alone: put the file back, or give them up with --journal discard", own.display())]
    BadNote {
        /// The server's directory beside the values.
        own: PathBuf,
        /// The cause.
        source: std::io::Error,
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
        _ => owner(path, error),
    }
}

impl OpenError {
    /// `dir` is no directory.
    pub fn no_directory(dir: &Path) -> Self {
        let why = "is no directory: give the directory of the values";
        Self::Refused(format!("{} {why}", dir.display()))
    }

    /// For `map_err`: a failure with no meaning of its own, met while `doing` with `path`.
    pub fn failed<E: Into<std::io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl Fn(E) -> Self + Copy {
        move |error| Self::Failed {
            doing,
            path: path.to_owned(),
            source: error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_server_that_looks_whether_another_writes_keeps_none_from_starting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let looking = fs::File::create(&path).unwrap();
        rustix::fs::flock(&looking, FlockOperation::NonBlockingLockShared).unwrap();
        let (says, hears) = mpsc::channel();
        let starting = std::thread::spawn({
            let dir = dir.path().to_owned();
            let file = fs::File::options().read(true).write(true).open(&path);
            move || {
                says.send(()).unwrap();
                lock(&dir, file.unwrap(), Duration::from_secs(120)).map(drop)
            }
        });
        hears.recv().unwrap();
        // Time to find it taken; with less, the test would see nothing, and pass.
        std::thread::sleep(Duration::from_millis(50));
        assert!(!starting.is_finished());
        drop(looking);
        starting.join().unwrap().unwrap();
        assert!(!is_in_use(dir.path()));
    }
}
