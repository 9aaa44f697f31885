//! What keeps the names of a change as they are, whatever room there is: asked before values are removed to make room
//! for it, before the journal has a record of it, and before a large value is received, as file systems say so
//! otherwise only when the change is made.

use rustix::fs::{Access, AtFlags, StatxAttributes, StatxFlags, statx};
use rustix::io::{Errno, retry_on_intr};

use super::super::commit::{OTHER_FILE_SYSTEM, find};
use super::super::directory_fd::{Folder, ValuesDir};
use super::super::publish_method::unpublished;
use super::super::write_context::WriteContext;
use super::change::ChangeRequest;
use crate::value::{Error, Key, folder_and_above};

/// A file that has one of these keeps its name.
const FIXED: StatxAttributes = StatxAttributes::IMMUTABLE.union(StatxAttributes::APPEND);

/// Fails where no value can be published under `key`. The publisher decides that again: this refuses a large value
/// before it is received, and before others are evicted for it. Blocks.
pub fn may_publish(writer: &WriteContext, key: &Key<'_>) -> Result<(), Error> {
    let dir = writer.dir();
    dir.location.check()?;
    writer.journal.may_change(key)?;
    let found = find(dir, key, true, false).map(|found| found.meta().is_some());
    let is_there = found.as_ref().is_ok_and(|is_there| *is_there);
    dir.unless_ended(key.as_str(), found.map(drop))?;
    may_link(dir, key, may_change_name(dir, key, is_there)?)
}

/// Fails where a name of `change`, of a value that `replaces` another or not, cannot be changed, as far as the file
/// system tells. Blocks.
pub fn may_change(dir: &ValuesDir, change: &ChangeRequest, replaces: bool) -> Result<(), Error> {
    let mut mounts = Vec::new();
    for key in change.keys() {
        let is_there = replaces || *key != change.key;
        mounts.push(may_change_name(dir, key, is_there)?);
    }
    match mounts[..] {
        [Some(a), Some(b)] if a != b => Err(Error::Occupied(OTHER_FILE_SYSTEM.to_owned())),
        [mount] if change.value().is_some() => may_link(dir, &change.key, mount),
        _ => Ok(()),
    }
}

/// Fails if the folder of `key`, is on another mount than the directory, in which files are made. If that is
/// unknown, the publisher checks it.
fn may_link(dir: &ValuesDir, key: &Key<'_>, folder: Option<Mount>) -> Result<(), Error> {
    match (folder, mount(&Folder::Root(&dir.root))) {
        (Some(folder), Some(root)) if folder != root => Err(unpublished(key, "link", Errno::XDEV)),
        _ => Ok(()),
    }
}

/// Fails where the name of `key`, which a value has if it `is_there`, cannot be changed; the mount that it lies in.
fn may_change_name(dir: &ValuesDir, key: &Key<'_>, is_there: bool) -> Result<Option<Mount>, Error> {
    // The first that is there: the others are made.
    let folder = folder_and_above(key.folder()).find_map(|path| dir.folder(path).ok());
    let Some(folder) = folder else {
        return Ok(None);
    };
    let refused = |errno| unpublished(key, "change the folder", errno);
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    retry_on_intr(|| rustix::fs::accessat(&folder, ".", wanted, AtFlags::EACCESS))
        .map_err(refused)?;
    if is_there {
        let file = statx(
            &folder,
            key.name(),
            AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::TYPE,
        );
        match file.map_or(StatxAttributes::empty(), |file| file.stx_attributes) {
            has if has.intersects(FIXED) => return Err(refused(Errno::PERM)),
            has if has.contains(StatxAttributes::MOUNT_ROOT) => return Err(refused(Errno::BUSY)),
            _ => {}
        }
    }
    Ok(mount(&folder))
}

/// Names of different mounts are not those of one file.
type Mount = (u32, u32, u64);

fn mount(folder: &Folder<'_>) -> Option<Mount> {
    let found = statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id))
}
