//! The small files that the server keeps for itself: records, notes, the clock, and the control file of the journal.
//!
//! Promises that a file which is [replaced](replace) is old or new after a crash, and whole. One that is
//! [overwritten](overwrite) keeps its length, and needs no commit of the file system's own journal, but may be torn.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};

use super::directory_fd::open_beneath;

/// A name in a directory of the server's own.
pub type Name<'a> = (&'a OwnedFd, &'a str);

/// The first bytes of the file `name`, at most so many; `None` where there is none.
pub fn read(name: Name<'_>, most: u64) -> Result<Option<Vec<u8>>, Errno> {
    let file = match open_beneath(name.0, name.1, OFlags::RDONLY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        file => File::from(file?),
    };
    let mut content = Vec::new();
    let read = file.take(most).read_to_end(&mut content);
    read.map_err(|error| errno(&error))?;
    Ok(Some(content))
}

/// Has the file `name` hold `content`, durably if it `is_synced`: the file `NAME.new` is written, and takes its place.
/// Where it `exchanges` their names, the old file is the next `NAME.new`, so that a write needs no room on a full disk.
pub fn replace(
    (dir, name): Name<'_>,
    content: &[u8],
    is_synced: bool,
    exchanges: bool,
) -> Result<(), Errno> {
    let new = format!("{name}.new");
    let write = || {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = File::from(open_beneath(dir, &new, flags, Mode::from(0o600))?);
        // At an offset: strace fails calls by name, and `write` is also how the runtime wakes its threads.
        file.write_all_at(content, 0)?;
        file.set_len(content.len() as u64)?;
        if is_synced { file.sync_all() } else { Ok(()) }
    };
    let rename = |flags| retry_on_intr(|| rustix::fs::renameat_with(dir, &new, dir, name, flags));
    let written = write().map_err(|error| errno(&error));
    let renamed = written.and_then(|()| {
        // The first time there is nothing to exchange it with, and not every file system can.
        if exchanges && rename(RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
        rename(RenameFlags::empty())
    });
    if renamed.is_err() && !exchanges {
        let _ = retry_on_intr(|| rustix::fs::unlinkat(dir, &new, AtFlags::empty()));
    }
    renamed?;
    if is_synced {
        rustix::fs::fsync(dir)?;
        // An xfs that has shut down reports the failure to this alone.
        retry_on_intr(|| rustix::fs::fstat(dir))?;
    }
    Ok(())
}

/// Overwrites all of `file` with `content`, which has its length, durably if it `is_synced`.
pub fn overwrite(file: impl AsFd, content: &[u8], is_synced: bool) -> Result<(), Errno> {
    let written = retry_on_intr(|| rustix::io::pwrite(&file, content, 0))?;
    if written < content.len() {
        return Err(Errno::NOSPC);
    }
    if is_synced {
        rustix::fs::fdatasync(&file)?;
    }
    Ok(())
}

/// The number of a system call's `error`.
pub fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
