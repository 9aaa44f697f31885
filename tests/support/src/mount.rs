//! File systems of a test's own, which can do what an ordinary directory does not: fill up, become read-only, or lose
//! power.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use super::{DataDir, within};

/// How long the kernel may take to let go of a file system, whose disk may be slow or fail.
const UNMOUNT: Duration = Duration::from_secs(300);

/// A mount point, let go of when dropped.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Mounted {
    /// What `command` mounts at this directory, which is the last of its words; or why it does not.
    pub fn by(command: &[&str], at: &Path) -> Result<Self, String> {
        fs::create_dir_all(at).map_err(|error| error.to_string())?;
        run(command[0], &[&command[1..], &[text(at)]].concat())?;
        Ok(Self(at.to_owned()))
    }

    /// The file system in an image.
    pub fn image(image: &Path, at: &Path, options: &str) -> Result<Self, String> {
        let options = format!("loop,{options}");
        Self::by(&["mount", "-o", &options, text(image)], at)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Unmounts it, when the last file on it is closed. The kernel is asked itself: umount(8) fails also when it only
    /// could not read or write its list of mounts.
    pub fn end(self) {
        let mut outcome = Ok(());
        within(UNMOUNT, || {
            outcome = unmount(&self.0, UnmountFlags::empty());
            outcome != Err(Errno::BUSY)
        });
        assert_eq!(outcome, Ok(()), "{}: {:?}", self.0.display(), self.users());
        // A namespace that another test has made meanwhile may have it too: then the next mount would be of the same
        // file system, with all that the kernel remembers of it.
        let is_gone = within(UNMOUNT, || self.users().is_empty());
        assert!(is_gone, "{}: {:?}", self.0.display(), self.users());
        std::mem::forget(self);
    }

    /// Processes that have a file of it open, or a mount namespace of their own that has it.
    fn users(&self) -> Vec<String> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let uses = |process: &PathBuf| {
            let files = fs::read_dir(process.join("fd")).into_iter().flatten();
            let mut files = files.flatten();
            let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
            let has = |path: PathBuf| path.starts_with(&self.0);
            files.any(|file| fs::read_link(file.path()).is_ok_and(has))
                || mounts.contains(text(&self.0))
        };
        let found = processes.map(|process| process.path()).filter(uses);
        let name = |user: &PathBuf| fs::read_to_string(user.join("comm"));
        let told = found.map(|user| format!("{}: {:?}", user.display(), name(&user)));
        told.collect()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A small file system, unmounted when dropped.
pub struct Mount {
    // Dropped in this order.
    mounted: Mounted,
    _place: TempDir,
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
        let command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs"];
        let mounted = Mounted::by(&command, &place.path().join("mount"));
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
        let made = File::create(&image).and_then(|file| file.set_len(size));
        made.expect("an image");
        let made = run("mkfs.ext4", &["-q", "-F", text(&image)]);
        let mounted = made.and_then(|()| Mounted::image(&image, &at, "errors=remount-ro"));
        Self::or_left_out(place, mounted, left_out)
    }

    /// An ext4 that has what `fill` puts in its `data`, with a folder there whose names cannot be read, as its first
    /// block is zeroed, and a file whose inode is.
    pub fn damaged(
        fill: impl FnOnce(&Path),
        [folder, value]: [&str; 2],
        left_out: &str,
    ) -> Option<Self> {
        let place = TempDir::new().expect("a mount point");
        let path = |name: &str| place.path().join(name);
        let (from, image) = (path("from"), path("image"));
        fs::create_dir_all(from.join("data")).expect("a directory");
        fill(&from.join("data"));
        let made = File::create(&image).and_then(|file| file.set_len(32 << 20));
        made.expect("an image");
        let damage = |how: String| run("debugfs", &["-w", "-R", &how, text(&image)]);
        let mounted = run("mkfs.ext4", &["-q", "-F", "-d", text(&from), text(&image)])
            .and_then(|()| damage(format!("zap_block -f /data/{folder} 0")))
            .and_then(|()| damage(format!("clri /data/{value}")))
            .and_then(|()| Mounted::image(&image, &path("mount"), "errors=continue"));
        Self::or_left_out(place, mounted, left_out)
    }

    /// A FUSE file system of `program` over directories of the test. If it is not installed, or may not mount, prints
    /// what the test leaves out.
    pub fn fuse(program: Fuse, left_out: &str) -> Option<Self> {
        let place = TempDir::new().expect("a mount point");
        let path = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir(&path).expect("a directory");
            path.into_os_string().into_string().expect("text")
        };
        let (lower, upper, work) = (path("lower"), path("upper"), path("work"));
        let both = format!("{lower}:{upper}");
        let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let command = match program {
            // Without this it finds no space on a small disk.
            Fuse::Mergerfs => vec!["mergerfs", "-o", "minfreespace=0", &both],
            Fuse::Bindfs => vec!["bindfs", &lower],
            Fuse::Overlayfs => vec!["fuse-overlayfs", "-o", &layers],
        };
        let mounted = Mounted::by(&command, &place.path().join("mount"));
        Self::or_left_out(place, mounted, left_out)
    }

    /// An overlayfs of the kernel, or that of a FUSE program, over a lower layer that has what `fill` puts in its
    /// `data`.
    pub fn layers(is_fuse: bool, fill: impl FnOnce(&Path), left_out: &str) -> Option<Self> {
        let place = TempDir::new().expect("a mount point");
        let path = |name: &str| place.path().join(name);
        for dir in ["lower/data", "upper", "work"] {
            fs::create_dir_all(path(dir)).expect("a directory");
        }
        fill(&path("lower/data"));
        let layers = ["lower", "upper", "work"];
        let layers = layers.map(|name| format!("{name}dir={}", path(name).display()));
        let layers = layers.join(",");
        let command = if is_fuse {
            &["fuse-overlayfs", "-o", &layers][..]
        } else {
            &["mount", "-t", "overlay", "-o", &layers, "overlay"]
        };
        let mounted = Mounted::by(command, &path("mount"));
        Self::or_left_out(place, mounted, left_out)
    }

    fn or_left_out(
        place: TempDir,
        mounted: Result<Mounted, String>,
        left_out: &str,
    ) -> Option<Self> {
        let left_out = |why: String| crate::left_out(left_out, &why);
        let mounted = mounted.map_err(left_out).ok()?;
        Some(Self {
            mounted,
            _place: place,
        })
    }

    /// A data directory on it, not created yet.
    pub fn dir(&self) -> DataDir {
        DataDir::at(self.mounted.path().join("data"))
    }

    /// Makes a file system without open files read-only.
    pub fn remount_read_only(&self) {
        self.remount("ro");
    }

    /// Gives the file system this option.
    pub fn remount(&self, option: &str) {
        let options = format!("remount,{option}");
        let remounted = run("mount", &["-o", &options, text(self.mounted.path())]);
        assert_eq!(remounted, Ok(()));
    }

    /// Makes the ext4 report an error; it becomes read-only, also for open files.
    pub fn fail(&self) {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let here = format!(" {} ", text(self.mounted.path()));
        let device = mounts.lines().find_map(|line| line.split_once(&here));
        let device = device.and_then(|(device, _)| device.strip_prefix("/dev/"));
        let device = device.expect("a loop device");
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(trigger, "asked for by a test").expect("an error by order");
    }
}

/// A file or folder in which nothing can be changed, by root neither, until it is dropped.
pub struct Immutable(PathBuf);

impl Immutable {
    /// Makes it so, or prints what the test leaves out.
    pub fn new(path: PathBuf, left_out: &str) -> Option<Self> {
        let made = run("chattr", &["+i", text(&path)]);
        made.map_err(|why| crate::left_out(left_out, &why)).ok()?;
        Some(Self(path))
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = run("chattr", &["-i", text(&self.0)]);
    }
}

/// A path of a test, which is plain text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}

/// Why `program` was not started, as the list of reasons to leave a test out has it.
pub fn not_started(program: &str, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("there is no {program}"),
        _ => format!("{program}: {error}"),
    }
}

/// Runs a command to its end; or why that was not possible, in one line.
pub fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| not_started(program, &error))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or_default();
    let is_done = output.status.success();
    is_done.then_some(()).ok_or(format!("{program}: {first}"))
}
