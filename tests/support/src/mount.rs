//! Small file systems for a test, which can do what an ordinary directory does not: fill up, or become read-only.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::DataDir;

/// A mounted file system, unmounted when dropped.
pub struct Mount {
    place: TempDir,
}

/// A FUSE program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuse {
    Mergerfs,
    Bindfs,
    Overlayfs,
}

impl Mount {
    /// A file system in memory with these options. Without the right to mount, prints what the test leaves out.
    pub fn tmpfs(options: &str, left_out: &str) -> Option<Self> {
        let place = TempDir::new().expect("a mount point");
        let at = place.path().join("mount");
        fs::create_dir(&at).expect("a mount point");
        let mounted = run("mount", &["-t", "tmpfs", "-o", options, "tmpfs"], &at);
        Self::or_left_out(place, mounted, left_out)
    }

    /// An ext4 in a file, which becomes read-only at its first error.
    pub fn ext4(left_out: &str) -> Option<Self> {
        Self::ext4_of(16 << 20, left_out)
    }

    /// As [`Self::ext4`], of so many bytes; the file has holes.
    pub fn ext4_of(size: u64, left_out: &str) -> Option<Self> {
        let place = TempDir::new().expect("a mount point");
        let (at, image) = (place.path().join("mount"), place.path().join("image"));
        fs::create_dir(&at).expect("a mount point");
        File::create(&image)
            .and_then(|file| file.set_len(size))
            .expect("an image");
        let source = image.to_str().expect("text");
        let mounted = run("mkfs.ext4", &["-q", "-F"], &image)
            && run("mount", &["-o", "loop,errors=remount-ro", source], &at);
        Self::or_left_out(place, mounted, left_out)
    }

    /// A FUSE file system of `program` over directories of the test. If it is not installed, or may not mount, prints what the
    /// test leaves out.
    pub fn fuse(program: Fuse, left_out: &str) -> Option<Self> {
        let place = TempDir::new().expect("a mount point");
        let path = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir(&path).expect("a directory");
            path.into_os_string().into_string().expect("text")
        };
        let (lower, upper, work, at) = (path("lower"), path("upper"), path("work"), path("mount"));
        let both = format!("{lower}:{upper}");
        let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let (name, args) = match program {
            // Without this it finds no space on a small disk.
            Fuse::Mergerfs => ("mergerfs", vec!["-o", "minfreespace=0", &both]),
            Fuse::Bindfs => ("bindfs", vec![lower.as_str()]),
            Fuse::Overlayfs => ("fuse-overlayfs", vec!["-o", &layers]),
        };
        let mounted = run(name, &args, Path::new(&at));
        Self::or_left_out(place, mounted, left_out)
    }

    fn or_left_out(place: TempDir, mounted: bool, left_out: &str) -> Option<Self> {
        if !mounted {
            eprintln!(
                "left out: {left_out}, for mounting is not permitted here, or its program not installed"
            );
        }
        mounted.then_some(Self { place })
    }

    /// A data directory on it, not created yet.
    pub fn dir(&self) -> DataDir {
        DataDir::at(self.place.path().join("mount/data"))
    }

    /// Makes a file system without open files read-only.
    pub fn remount_read_only(&self) {
        let at = self.place.path().join("mount");
        assert!(run("mount", &["-o", "remount,ro"], &at), "a remount");
    }

    /// Makes the ext4 report an error; it becomes read-only, also for open files.
    pub fn fail(&self) {
        let at = self.place.path().join("mount");
        let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let mounted_here = |line: &&str| line.split(' ').nth(1).map(Path::new) == Some(&at);
        let line = mounts.lines().find(mounted_here).expect("the mount");
        let device = line
            .strip_prefix("/dev/")
            .and_then(|rest| rest.split(' ').next());
        let device = device.expect("a loop device");
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(trigger, "asked for by a test").expect("an error by order");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &["--lazy"], &self.place.path().join("mount"));
    }
}

fn run(program: &str, args: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(args).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}
