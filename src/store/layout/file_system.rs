//! The file system that the directory lies on: what is known of it by its name, and what it is tried for, as some say what they
//! cannot do only then.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, StatxFlags, Timespec, Timestamps};
use rustix::io::{Errno, retry_on_intr};

use crate::store::attributes;
use crate::store::publish_method::{PublishMethod, Unpublished, create_named, create_unnamed};
use crate::value::RESERVED;

/// File systems that run as programs (FUSE) and were seen to sync directories.
const SYNCING_PROGRAMS: &[&str] = &["fuse.fuse-overlayfs"];

/// File systems whose `syncfs` was tried under cuts of power, and reports failed writes.
const JOURNALED: &[&str] = &["ext4", "xfs", "btrfs"];

/// The names of the files that are tried, in staging, which the next start sweeps.
const FIRST: &str = "trial";

const SECOND_TRIAL: &str = "trial-2";

/// A time that no rounding leaves as it is: seconds and nanoseconds.
const ODD: (i64, u32) = (1_234_567_890, 123_456_789);

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

/// Whether a sync of a directory that succeeds there proves anything. To a program that does not know how to, the kernel
/// calls the sync of a directory done.
pub fn proves_syncs(kind: &str) -> bool {
    let is_program = kind == "fuseblk" || kind == "fuse" || kind.starts_with("fuse.");
    !is_program || SYNCING_PROGRAMS.contains(&kind)
}

/// Whether a checkpoint of a journal can rely on `syncfs` there: it tells of errors since Linux 5.8.
pub fn may_be_journaled(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| JOURNALED.contains(&kind)) && is_kernel_at_least(5, 8)
}

/// Whether a rename over another file has the new one written at once there, and an exchange of names does not.
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

/// The capabilities of the directory.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    pub method: PublishMethod,
    /// Whether media types and digests stay beside the values; unknown on a full disk.
    pub attributes: Option<bool>,
}

/// Why it cannot be served.
#[derive(Debug)]
pub enum Unsupported {
    /// It rounds times.
    CoarseTimes,
    /// Each method, and what came of it.
    NoMethod(String),
}

/// Why one method does not work.
enum Fault {
    CoarseTimes,
    /// The methods that were tried, and the cause of each failure.
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

/// Tries the methods in turn; those that follow one that works are not tried.
pub fn try_out(root: &OwnedFd, staging: &OwnedFd) -> Result<Capabilities, Unsupported> {
    let name = format!("{RESERVED}-trial");
    let trial = Trial {
        root,
        staging,
        name: &name,
    };
    trial.clear();
    let found = trial.find();
    trial.clear();
    found
}

struct Trial<'a> {
    root: &'a OwnedFd,
    staging: &'a OwnedFd,
    /// No key, and where the keys are.
    name: &'a str,
}

impl Trial<'_> {
    fn find(&self) -> Result<Capabilities, Unsupported> {
        let mut tried = Vec::new();
        for methods in [
            &[PublishMethod::LinkUnnamed, PublishMethod::LinkUnnamedByProc][..],
            &[PublishMethod::LinkNamed],
            &[PublishMethod::RenameNamed],
        ] {
            match self.try_methods(methods, &mut tried) {
                Ok(Some(capabilities)) => return Ok(capabilities),
                Ok(None) => {}
                Err(Fault::CoarseTimes) => return Err(Unsupported::CoarseTimes),
                Err(Fault::Full) => {
                    let method = methods[methods.len() - 1];
                    tracing::warn!(publishing = %method, "no room to try the directory: it is taken to publish so");
                    return Ok(Capabilities {
                        method,
                        attributes: None,
                    });
                }
                Err(Fault::Refused(doing, errno)) => {
                    tried.push(format!("{} ({doing}: {errno})", methods[0]));
                }
            }
        }
        Err(Unsupported::NoMethod(tried.join("; ")))
    }

    /// Tries `methods` with one file; records in `tried` why a method does not work.
    fn try_methods(
        &self,
        methods: &[PublishMethod],
        tried: &mut Vec<String>,
    ) -> Result<Option<Capabilities>, Fault> {
        let mode = Mode::from(0o600);
        let (file, name) = if methods[0].is_unnamed() {
            let file = create_unnamed(self.root, mode).map_err(fault("create"))?;
            (file, None)
        } else {
            let file = create_named(self.staging, FIRST, mode).map_err(fault("create"))?;
            (file, Some(FIRST))
        };
        // A write-back after the file is closed must not change its time, so something is written. A full disk is no fault here.
        let _ = rustix::io::pwrite(&file, b"can this be published?", 0);
        let attributes = Some(attributes::are_kept(&file));
        stamp(&file).map_err(fault("set the time"))?;
        for &method in methods {
            let unpublished = Unpublished {
                file: file.as_fd(),
                staging: self.staging,
                name,
            };
            match method.publish(unpublished, self.root.as_fd(), self.name) {
                Ok(()) => {
                    self.try_further(method, file, name)?;
                    return Ok(Some(Capabilities { method, attributes }));
                }
                Err(errno) => match fault("publish")(errno) {
                    Fault::Refused(doing, errno) => {
                        tried.push(format!("{method} ({doing}: {errno})"));
                    }
                    other => return Err(other),
                },
            }
        }
        self.clear();
        Ok(None)
    }

    /// Tries the rest that the contract needs of this `method`, once `file` has been published.
    fn try_further(
        &self,
        method: PublishMethod,
        file: OwnedFd,
        name: Option<&str>,
    ) -> Result<(), Fault> {
        let (root, staging) = (self.root, self.staging);
        let second =
            create_named(staging, SECOND_TRIAL, Mode::from(0o600)).map_err(fault("create"))?;
        let unpublished = Unpublished {
            file: name.map_or(file.as_fd(), |_| second.as_fd()),
            staging,
            name: name.map(|_| SECOND_TRIAL),
        };
        match method.publish(unpublished, root.as_fd(), self.name) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(fault("find that a name is taken")(errno)),
            Ok(()) => return Err(Fault::Refused("leave a name that is taken", Errno::EXIST)),
        }
        drop(file);
        let stat = || rustix::fs::statat(root, self.name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = retry_on_intr(stat).map_err(fault("look up"))?;
        if (stat.st_mtime, stat.st_mtime_nsec) != (ODD.0, u64::from(ODD.1)) {
            return Err(Fault::CoarseTimes);
        }
        retry_on_intr(|| rustix::fs::renameat(staging, SECOND_TRIAL, root, self.name))
            .map_err(fault("replace"))?;
        retry_on_intr(|| rustix::fs::unlinkat(root, self.name, AtFlags::empty()))
            .map_err(fault("remove"))
    }

    /// Removes what a trial may have left.
    fn clear(&self) {
        for (dir, name) in [
            (self.root, self.name),
            (self.staging, FIRST),
            (self.staging, SECOND_TRIAL),
        ] {
            let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        }
    }
}

fn stamp(file: &OwnedFd) -> Result<(), Errno> {
    let odd = Timespec {
        tv_sec: ODD.0,
        tv_nsec: ODD.1.into(),
    };
    let times = Timestamps {
        last_access: odd,
        last_modification: odd,
    };
    retry_on_intr(|| rustix::fs::futimens(file, &times))
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
