//! Small file systems of a test's own, for what an ordinary directory never does: fill up, or become read-only.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::DataDir;

/// A mounted file system, unmounted when dropped.
pub(crate) struct Mount {
    place: TempDir,
}

impl Mount {
    /// A file system in memory with these options; without the right to mount, says what the test leaves out.
    pub(crate) fn tmpfs(options: &str, left_out: &str) -> Option<Self> {
        let place = TempDir::new().expect("a mount point");
        let at = place.path().join("mount");
        fs::create_dir(&at).expect("a mount point");
        let mounted = run("mount", &["-t", "tmpfs", "-o", options, "tmpfs"], &at);
        Self::or_left_out(place, mounted, left_out)
    }

    /// An ext4 in a file, that becomes read-only at its first error.
    pub(crate) fn ext4(left_out: &str) -> Option<Self> {
        let place = TempDir::new().expect("a mount point");
        let (at, image) = (place.path().join("mount"), place.path().join("image"));
        fs::create_dir(&at).expect("a mount point");
        File::create(&image)
            .and_then(|file| file.set_len(16 << 20))
            .expect("an image");
        let source = image.to_str().expect("text");
        let mounted = run("mkfs.ext4", &["-q", "-F"], &image)
            && run("mount", &["-o", "loop,errors=remount-ro", source], &at);
        Self::or_left_out(place, mounted, left_out)
    }

    fn or_left_out(place: TempDir, mounted: bool, left_out: &str) -> Option<Self> {
        if !mounted {
            eprintln!("left out: {left_out}, for mounting is not permitted here");
        }
        mounted.then_some(Self { place })
    }

    /// A data directory on it, not made yet.
    pub(crate) fn dir(&self) -> DataDir {
        DataDir::at(self.place.path().join("mount/data"))
    }

    /// Makes a file system that is in use by nobody read-only.
    pub(crate) fn remount_read_only(&self) {
        let at = self.place.path().join("mount");
        assert!(run("mount", &["-o", "remount,ro"], &at), "a remount");
    }

    /// Has the ext4 believe that it met an error; it goes read-only, also under open files.
    pub(crate) fn fail(&self) {
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
