//! Which file system the directory lies on, by the name that the kernel or its program gives it.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, StatxFlags};

/// Those that run as programs (FUSE) and were seen to sync directories.
const SYNCING_PROGRAMS: &[&str] = &["fuse.fuse-overlayfs"];

/// The type of the file system that `root` lies on, as mounts are listed: `ext4`, `fuse.mergerfs`; `None` where `/proc`
/// does not tell.
pub(in crate::store) fn kind(root: &OwnedFd) -> Option<String> {
    let stat = rustix::fs::statx(root, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    kind_of(&mounts, stat.stx_mnt_id)
}

/// The type of the mount with this id (`proc_pid_mountinfo(5)`).
fn kind_of(mounts: &str, id: u64) -> Option<String> {
    let id = id.to_string();
    let is_it = |line: &&str| line.split(' ').next() == Some(id.as_str());
    let (_, rest) = mounts.lines().find(is_it)?.split_once(" - ")?;
    Some(rest.split(' ').next()?.to_owned())
}

/// Whether a sync of a directory that succeeds there proves anything. To a program that does not know how to, the kernel
/// calls the sync of a directory done.
pub(super) fn proves_syncs(kind: &str) -> bool {
    let is_program = kind == "fuseblk" || kind == "fuse" || kind.starts_with("fuse.");
    !is_program || SYNCING_PROGRAMS.contains(&kind)
}

/// Those whose `syncfs` was tried under cuts of power, and tells of what could not be written.
const JOURNALED: &[&str] = &["ext4", "xfs", "btrfs"];

/// Whether a checkpoint of a journal can rely on `syncfs` there: it tells of errors since Linux 5.8.
pub(in crate::store) fn may_be_journaled(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| JOURNALED.contains(&kind)) && is_kernel_at_least(5, 8)
}

/// Whether a rename over another file has the new one written at once there, and an exchange of names does not.
pub(in crate::store) fn flushes_at_rename(kind: Option<&str>) -> bool {
    kind == Some("ext4")
}

fn is_kernel_at_least(major: u32, minor: u32) -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next()) >= (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
    22 27 0:21 / /proc rw,relatime - proc proc rw
    27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw
    43 27 0:40 / /mnt/with\\040space rw,nosuid - fuse.mergerfs a:b rw,user_id=0
    44 27 0:41 / /mnt/b rw,nosuid - fuse /srv rw,user_id=0";

    #[test]
    fn the_type_stands_behind_the_optional_fields() {
        assert_eq!(kind_of(MOUNTS, 27).as_deref(), Some("ext4"));
        assert_eq!(kind_of(MOUNTS, 43).as_deref(), Some("fuse.mergerfs"));
        assert_eq!(kind_of(MOUNTS, 4), None);
    }

    #[test]
    fn a_program_must_have_been_seen_to_sync() {
        for (kind, proves) in [
            ("ext4", true),
            ("fusectl", true),
            ("fuse", false),
            ("fuseblk", false),
            ("fuse.mergerfs", false),
            ("fuse.fuse-overlayfs", true),
        ] {
            assert_eq!(proves_syncs(kind), proves, "{kind}");
        }
    }
}
