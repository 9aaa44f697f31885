//! The group, rights and lists of a file that it takes from the folder that it is published in, and from the value that
//! it replaces.
//!
//! A file that is made in a folder by hand gets the group of a setgid folder, of any on a mount with `grpid`, and the
//! folder's default ACL from the kernel (`inode(7)`, `acl(5)`). One that is made elsewhere and then linked or renamed
//! gets neither, so they are given to it here. The new file of a replaced value never has a right for group or others
//! that the old file lacked.

use std::fs;
use std::os::fd::AsFd;
use std::sync::Once;

use rustix::fs::{Gid, Mode, XattrFlags};
use rustix::io::{Errno, retry_on_intr};

const DEFAULT_ACL: &str = "system.posix_acl_default";
const ACL: &str = "system.posix_acl_access";

/// Bytes that hold the ACL of most folders; a longer ACL takes a second call.
const USUAL: usize = 512;

/// The largest size of an attribute (`XATTR_SIZE_MAX`).
const MOST: usize = 65_536;

/// The tags of the entries of an ACL (`linux/posix_acl.h`).
const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// An ACL in the form of its attribute: a version of 4 bytes, then entries of 2 for whom, 2 of rights and 4 of a user
/// or group.
const HEAD: usize = 4;
const ENTRY: usize = 8;

/// Values are not executable: read and write, as for `open(2)`.
const NOT_RUN: u16 = 6;

/// The mode that the umask leaves of `mode`.
pub fn unmasked(mode: u32) -> Mode {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    // An unknown umask counts as 0: then a mode is set once more than it must be.
    let umask = umask.and_then(|umask| u32::from_str_radix(umask.trim(), 8).ok());
    Mode::from(mode & !umask.unwrap_or(0))
}

/// Gives `file` the group and ACL of a file made in `folder`; returns whether that changed it, and its new mode. With
/// `gives_group` new files get the group of their folder.
pub fn of_folder(
    file: impl AsFd,
    folder: impl AsFd,
    gives_group: bool,
) -> Result<(bool, Option<Mode>), Errno> {
    let stat = retry_on_intr(|| rustix::fs::fstat(&folder))?;
    let gives_group = gives_group || Mode::from_raw_mode(stat.st_mode).contains(Mode::SGID);
    if gives_group {
        set_group(&file, Gid::from_raw(stat.st_gid))?;
    }
    let Some(mut acl) = default_acl(&folder)? else {
        return Ok((gives_group, None));
    };
    let mode = restrict(&mut acl);
    retry_on_intr(|| rustix::fs::fsetxattr(&file, ACL, &acl, XattrFlags::empty()))?;
    Ok((true, Some(mode)))
}

/// Removes from `file`, which has `mode`, the rights of group and others that `replaced` lacks; true if there were any.
pub fn of_value(file: impl AsFd, mode: Mode, replaced: Mode) -> Result<bool, Errno> {
    let kept = mode & (replaced | Mode::RWXU);
    if kept != mode {
        retry_on_intr(|| rustix::fs::fchmod(&file, kept))?;
    }
    Ok(kept != mode)
}

/// Makes `folder` private, and removes its default ACL: its files do not have the rights of their values yet.
pub fn keep_private(folder: impl AsFd) -> Result<(), Errno> {
    // Where there is no such attribute, this fails.
    let _ = rustix::fs::fremovexattr(&folder, DEFAULT_ACL);
    // It may be another user's, or on a file system that keeps no modes.
    if retry_on_intr(|| rustix::fs::fchmod(&folder, Mode::RWXU)).is_err() {
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode);
        if mode.intersects(Mode::RWXG | Mode::RWXO) {
            tracing::warn!(
                "others may read what is uploaded before it is stored: the .data-server of the directory is not of the server's user"
            );
        }
    }
    Ok(())
}

/// Only root may give a file to a group that it is not in.
fn set_group(file: impl AsFd, group: Gid) -> Result<(), Errno> {
    static TOLD: Once = Once::new();
    match retry_on_intr(|| rustix::fs::fchown(&file, None, Some(group))) {
        Err(Errno::PERM) => {
            TOLD.call_once(|| {
                tracing::warn!(
                    group = group.as_raw(),
                    "values do not get the group of their folder: the server's user is not in it"
                );
            });
            Ok(())
        }
        set => set,
    }
}

fn default_acl(folder: impl AsFd) -> Result<Option<Vec<u8>>, Errno> {
    let get = |room: &mut [u8]| {
        let got = retry_on_intr(|| rustix::fs::fgetxattr(&folder, DEFAULT_ACL, &mut *room));
        got.map(|len| Some(room[..len].to_vec()))
    };
    match get(&mut [0; USUAL]) {
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(Errno::RANGE) => get(&mut vec![0; MOST]),
        got => got,
    }
}

/// Removes the right to execute from `acl`; returns the remaining mode.
fn restrict(acl: &mut [u8]) -> Mode {
    let entries = acl.get_mut(HEAD..).unwrap_or_default();
    let of = |entry: &[u8]| u16::from_le_bytes([entry[0], entry[1]]);
    let has_mask = entries.chunks_exact(ENTRY).any(|entry| of(entry) == MASK);
    let mut mode = 0;
    for entry in entries.chunks_exact_mut(ENTRY) {
        let shift = match of(entry) {
            OWNER => 6,
            GROUP if !has_mask => 3,
            MASK => 3,
            OTHERS => 0,
            _ => continue,
        };
        let rights = u16::from_le_bytes([entry[2], entry[3]]) & NOT_RUN;
        entry[2..4].copy_from_slice(&rights.to_le_bytes());
        mode |= u32::from(rights) << shift;
    }
    Mode::from(mode)
}
