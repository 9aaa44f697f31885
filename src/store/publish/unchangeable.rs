//! What keeps the names of a change as they are, whatever room there is: asked before values are removed to make room for it, as file systems
//! say so otherwise only when the change is made.

use rustix::fs::{Access, AtFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::commit::OTHER_FILE_SYSTEM;
use super::super::directory_fd::ValuesDir;
use super::super::publish_method::unpublished;
use super::change::ChangeRequest;
use crate::value::{Error, folder_and_above};

/// A file that has one of these keeps its name.
const FIXED: StatxAttributes = StatxAttributes::IMMUTABLE.union(StatxAttributes::APPEND);

/// Fails where a name of `change`, of a value that `replaces` another or not, cannot be changed, as far as the file system tells. Blocks.
pub fn may_change(dir: &ValuesDir, change: &ChangeRequest, replaces: bool) -> Result<(), Error> {
    let mut mounts = Vec::new();
    for key in change.keys() {
        let refused = |errno| unpublished(key, "change the folder", errno);
        let mut above = folder_and_above(key.folder());
        // In the first that is there, the others are made.
        let Some((folder, found)) = above.find_map(|path| Some((path, look(dir, path)?))) else {
            continue;
        };
        mounts.push(mount(&found));
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        let may = || rustix::fs::accessat(&dir.root, path(folder), wanted, AtFlags::EACCESS);
        retry_on_intr(may).map_err(refused)?;
        let is_there = replaces || *key != change.key;
        let file = is_there.then(|| look(dir, key.as_str())).flatten();
        match file.map(|file| file.stx_attributes) {
            Some(has) if has.intersects(FIXED) => return Err(refused(Errno::PERM)),
            Some(has) if has.contains(StatxAttributes::MOUNT_ROOT) => {
                return Err(refused(Errno::BUSY));
            }
            _ => {}
        }
    }
    let is_moved = change.source().is_some();
    if !is_moved {
        mounts.extend(look(dir, "").as_ref().map(mount));
    }
    match mounts[..] {
        [a, b] if a != b && is_moved => Err(Error::Occupied(OTHER_FILE_SYSTEM.to_owned())),
        [a, b] if a != b => Err(unpublished(&change.key, "link", Errno::XDEV)),
        _ => Ok(()),
    }
}

fn path(folder: &str) -> &str {
    if folder.is_empty() { "." } else { folder }
}

/// What is at `at`, without a descriptor of its own: nothing is opened by this path.
fn look(dir: &ValuesDir, at: &str) -> Option<Statx> {
    let (flags, mask) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID);
    retry_on_intr(|| rustix::fs::statx(&dir.root, path(at), flags, mask)).ok()
}

/// Names of different mounts are not those of one file.
fn mount(found: &Statx) -> (u32, u32, u64) {
    (found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id)
}
