//! The mark of a folder that was made for a value: it goes with its last value. A folder of MKCOL or of another program
//! has no mark, and stays.
//!
//! The mark is an extended attribute, so that it holds across restarts and goes with copies that keep attributes. What
//! a PUT makes has it, and not what stays: nothing else tells what a hand has made. A folder whose mark is lost, or was
//! made before there were marks, stays: an empty folder too many takes nothing from any value, and one too few may take
//! its owner's rights.

use std::os::fd::AsFd;

use rustix::fs::XattrFlags;
use rustix::io::{Errno, retry_on_intr};

const MARK: &str = "user.data-server.implicit";

/// Marks `folder`. Without the mark, as where the file system keeps no attributes, it stays.
pub fn mark_implicit(folder: impl AsFd) {
    let _ = retry_on_intr(|| rustix::fs::fsetxattr(&folder, MARK, b"1", XattrFlags::empty()));
}

/// Takes the mark from `folder`, which stays from now on; true if it had one. Where the file system keeps none, it
/// stays anyway.
pub fn unmark_implicit(folder: impl AsFd) -> Result<bool, Errno> {
    match retry_on_intr(|| rustix::fs::fremovexattr(&folder, MARK)) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// True if `folder` has the mark. One whose mark cannot be read stays.
pub fn is_implicit(folder: impl AsFd) -> bool {
    retry_on_intr(|| rustix::fs::fgetxattr(&folder, MARK, &mut [0; 1])).is_ok()
}
