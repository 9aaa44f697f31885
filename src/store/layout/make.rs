//! The directory, made when it is missing, with those that it lies in.

use std::path::Path;

use rustix::io::Errno;

use super::super::writer::Durability;
use super::error::OpenError;

/// Makes `dir` if it is missing. The names of what it makes are as durable as the values are to be.
pub fn make(dir: &Path, durability: Durability) -> Result<(), OpenError> {
    let failed = |doing| {
        move |source| OpenError::Failed {
            doing,
            path: dir.to_owned(),
            source,
        }
    };
    match dir.metadata() {
        Ok(there) if there.is_dir() => return Ok(()),
        Ok(_) => {
            let dir = dir.to_owned();
            return Err(OpenError::NoDirectory { dir });
        }
        Err(_) => {}
    }
    let absolute = std::path::absolute(dir).map_err(failed("name"))?;
    let there = absolute.ancestors().find(|path| path.exists());
    let there = there.unwrap_or(&absolute).to_owned();
    std::fs::create_dir_all(dir).map_err(failed("create"))?;
    match durability {
        Durability::Disk => sync_names(&absolute, &there)
            .or_else(unless_unsyncable)
            .map_err(failed("sync")),
        Durability::Os => Ok(()),
    }
}

/// A file system that syncs no directory is refused later, with what it means.
fn unless_unsyncable(error: std::io::Error) -> std::io::Result<()> {
    match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        _ => Err(error),
    }
}

/// Puts names on the disk: those in `own`, and its own and those above it, as far as they lie in `there` or below. A
/// sync of a directory promises nothing of the directory's own name.
pub(super) fn sync_names(own: &Path, there: &Path) -> std::io::Result<()> {
    for made in own.ancestors().take_while(|path| path.starts_with(there)) {
        std::fs::File::open(made)?.sync_all()?;
    }
    Ok(())
}
