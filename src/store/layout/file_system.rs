//! The file system that the directory lies on: what is known of it by its name, and what it is tried for, as some say
//! what they cannot do only then.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, StatxFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::store::attributes;
use crate::store::directory_fd::times;
use crate::store::publish_method::{PublishMethod, create_named, create_unnamed, link_named};
use crate::value::{RESERVED, Version};

/// File systems that run as programs (FUSE) and were seen to sync directories.
const SYNCING_PROGRAMS: &[&str] = &["fuse.fuse-overlayfs"];

/// File systems whose `syncfs` was tried under cuts of power, and reports failed writes.
const JOURNALED: &[&str] = &["ext4", "xfs", "btrfs"];

/// The names of the files that are tried, in staging, which the next start sweeps.
const FIRST: &str = "trial";

const SECOND: &str = "trial-2";

/// A time that no rounding leaves as it is, in nanoseconds.
const ODD: i128 = 1_234_567_890_123_456_789;

/// The type of the file system that `root` lies on, as mounts are listed: `ext4`, `fuse.mergerfs`; `None` where `/proc`
/// does not tell.
pub fn kind(root: &OwnedFd) -> Option<String> {
    Some(mount_of(root)?.0)
}

/// Whether what is made in a folder there gets the folder's group, as in a setgid folder (`grpid` of mount(8)).
pub fn gives_groups(directory: &OwnedFd) -> bool {
    mount_of(directory).is_some_and(|(_, options)| options.split(',').any(|it| it == "grpid"))
}

/// The type and the options of the file system that `directory` lies on.
fn mount_of(directory: &OwnedFd) -> Option<(String, String)> {
    let stat = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (kind, options) = mount(&mounts, stat.stx_mnt_id)?;
    Some((kind.to_owned(), options.to_owned()))
}

/// The type and the options of the mount with this id (`proc_pid_mountinfo(5)`).
fn mount(mounts: &str, id: u64) -> Option<(&str, &str)> {
    let id = id.to_string();
    let is_it = |line: &&str| line.split(' ').next() == Some(id.as_str());
    let (_, rest) = mounts.lines().find(is_it)?.split_once(" - ")?;
    Some((rest.split(' ').next()?, rest.split(' ').next_back()?))
}

/// Whether a sync of a directory that succeeds there proves anything. To a program that does not know how to, the
/// kernel calls the sync of a directory done.
pub fn proves_syncs(kind: &str) -> bool {
    let is_program = kind == "fuseblk" || kind == "fuse" || kind.starts_with("fuse.");
    !is_program || SYNCING_PROGRAMS.contains(&kind)
}

/// True if a journal's checkpoint can rely on `syncfs` there, which reports errors since Linux 5.8.
pub fn may_be_journaled(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| JOURNALED.contains(&kind)) && is_kernel_at_least(5, 8)
}

/// True if a rename over another file starts to write the new file there, and an exchange of names does not.
pub fn flushes_at_rename(kind: Option<&str>) -> bool {
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

/// Why one method does not work.
enum Fault {
    CoarseTimes,
    /// The step that was tried, and its error.
    Refused(&'static str, Errno),
    /// There is no room to try anything.
    Full,
}

/// For `map_err`: met while `doing`.
fn fault(doing: &'static str) -> impl FnOnce(Errno) -> Fault {
    move |errno| match errno {
        // A full disk or table must not keep the server, and with it DELETE, from starting.
        Errno::NOSPC | Errno::DQUOT | Errno::ROFS => Fault::Full,
        errno => Fault::Refused(doing, errno),
    }
}

/// The first method that works in `dir`, and whether media types and digests stay beside the values, which is unknown
/// on a full disk; or why `dir` cannot be served.
pub fn try_out(
    dir: &Path,
    root: &OwnedFd,
    staging: &OwnedFd,
) -> Result<(PublishMethod, Option<bool>), String> {
    let dir = dir.display();
    let name = format!("{RESERVED}-trial");
    let trial = Trial {
        root,
        staging,
        name: &name,
    };
    let mut tried = Vec::new();
    for method in [
        PublishMethod::Unnamed,
        PublishMethod::UnnamedByProc,
        PublishMethod::Named,
    ] {
        trial.clear();
        let attributes = trial.try_method(method);
        trial.clear();
        match attributes {
            Ok(attributes) => return Ok((method, Some(attributes))),
            Err(Fault::CoarseTimes) => {
                return Err(format!(
                    "the file system of {dir} keeps no times in nanoseconds, so versions of values could repeat"
                ));
            }
            Err(Fault::Full) => {
                let method = match method {
                    PublishMethod::Unnamed => PublishMethod::UnnamedByProc,
                    method => method,
                };
                tracing::warn!(publishing = %method, "no room to try the directory: it is taken to publish so");
                return Ok((method, None));
            }
            Err(Fault::Refused(doing, errno)) => {
                tried.push(format!("{method} ({doing}: {errno})"));
            }
        }
    }
    let tried = tried.join("; ");
    Err(format!("values cannot be published in {dir}: {tried}"))
}

struct Trial<'a> {
    root: &'a OwnedFd,
    staging: &'a OwnedFd,
    /// No key, and where the keys are.
    name: &'a str,
}

impl Trial<'_> {
    /// Tries all that the contract needs of `method`; whether attributes are kept.
    fn try_method(&self, method: PublishMethod) -> Result<bool, Fault> {
        let (root, staging, mode) = (self.root, self.staging, Mode::from(0o600));
        let file = if method.is_unnamed() {
            create_unnamed(root, mode)
        } else {
            create_named(staging, FIRST, mode)
        };
        let file = file.map_err(fault("create"))?;
        // A write-back after the file is closed must not change its time, so something is written. A full disk is no
        // fault here.
        let _ = rustix::io::pwrite(&file, b"can this be published?", 0);
        let attributes = attributes::are_kept(&file);
        let odd = Version::from_nanos(ODD);
        let times = times(odd);
        retry_on_intr(|| rustix::fs::futimens(&file, &times)).map_err(fault("set the time"))?;
        let publish = |staged| {
            if method.is_unnamed() {
                method.link_unnamed(&file, root, self.name)
            } else {
                link_named(staging, staged, root, self.name)
            }
        };
        publish(FIRST).map_err(fault("publish"))?;
        let second = create_named(staging, SECOND, mode);
        drop(second.map_err(fault("create"))?);
        match publish(SECOND) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(fault("find that a name is taken")(errno)),
            Ok(()) => return Err(Fault::Refused("leave a name that is taken", Errno::EXIST)),
        }
        drop(file);
        let stat = || rustix::fs::statat(root, self.name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = retry_on_intr(stat).map_err(fault("look up"))?;
        if Version::of(&stat) != odd {
            return Err(Fault::CoarseTimes);
        }
        retry_on_intr(|| rustix::fs::renameat(staging, SECOND, root, self.name))
            .map_err(fault("replace"))?;
        retry_on_intr(|| rustix::fs::unlinkat(root, self.name, AtFlags::empty()))
            .map_err(fault("remove"))?;
        Ok(attributes)
    }

    /// Removes what a trial may have left.
    fn clear(&self) {
        let (root, staging) = (self.root, self.staging);
        for (dir, name) in [(root, self.name), (staging, FIRST), (staging, SECOND)] {
            let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        }
    }
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
        assert_eq!(mount(MOUNTS, 27), Some(("ext4", "rw")));
        assert_eq!(mount(MOUNTS, 43), Some(("fuse.mergerfs", "rw,user_id=0")));
        assert_eq!(mount(MOUNTS, 4), None);
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
