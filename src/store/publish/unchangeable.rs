//! What keeps the names of a change as they are, whatever room there is: asked before values are removed to make room for it, as most file
//! systems say so otherwise only when the change is made.

use rustix::fs::{Access, AtFlags, StatxAttributes, StatxFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::commit::OTHER_FILE_SYSTEM;
use super::super::publish_method::unpublished;
use super::super::write_context::WriteContext;
use super::change::ChangeRequest;
use crate::value::{Error, Key, folder_and_above};

/// Fails where a name of `change` cannot be changed, as far as the file system tells. Blocks.
pub fn may_change(writer: &WriteContext, change: &ChangeRequest) -> Result<(), Error> {
    match change.source() {
        Some(source) if writer.is_other_mount(source.key.folder(), change.key.folder()) => {
            return Err(Error::Occupied(OTHER_FILE_SYSTEM.to_owned()));
        }
        Some(_) => {}
        None => writer.may_move_to(&change.key)?,
    }
    for key in change.keys() {
        let refused = |errno| unpublished(key, "change the folder", errno);
        may_change_name(writer, key).map_err(refused)?;
    }
    Ok(())
}

fn may_change_name(writer: &WriteContext, key: &Key<'_>) -> Result<(), Errno> {
    let dir = writer.dir();
    let mut folders = folder_and_above(key.folder());
    let there = folders.find_map(|path| Some((path, dir.folder(path).ok()?)));
    let Some((path, folder)) = there else {
        return Ok(());
    };
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    retry_on_intr(|| rustix::fs::accessat(&folder, ".", wanted, AtFlags::EACCESS))?;
    if path != key.folder() {
        return Ok(());
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statx(&folder, key.name(), flags, StatxFlags::TYPE) {
        Ok(found) if found.stx_attributes.intersects(FIXED) => Err(Errno::PERM),
        Ok(found) if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) => Err(Errno::BUSY),
        // There is none, or it is not told.
        _ => Ok(()),
    }
}

/// A file that has one of these keeps its name.
const FIXED: StatxAttributes = StatxAttributes::IMMUTABLE.union(StatxAttributes::APPEND);
