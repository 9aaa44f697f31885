//! Disks of a test's own that lose power: file systems on images, shut down by ioctl.
//!
//! `FS_IOC_SHUTDOWN` without a flush of the log stops a file system as it stands: what it has not sent to its device is
//! gone, as at a cut of power. btrfs knows it only since Linux 6.19, so its image lies on an xfs that is shut down in
//! its place: of what btrfs wrote, that leaves what btrfs had flushed, and little else.

use std::io::Write;

use crate::prelude::*;

/// How long the kernel may take to let go of a file system that another mount namespace had.
const RELEASE: Duration = Duration::from_secs(300);

/// A disk under a data directory, that a test can fail.
pub(crate) trait Disk {
    /// The data directory, made by the server.
    fn dir(&self) -> DataDir;

    /// Cuts the power.
    fn cut(&mut self);

    /// Gives power again, once no process has a file of the disk open. Nothing repairs it but the file system itself,
    /// and nothing that was in memory stays.
    fn revive(&mut self);

    /// Cuts the power under this server, and gives it again.
    fn cut_under(&mut self, server: &mut TestServer) {
        self.cut();
        server.kill();
        self.revive();
    }
}

/// A stranger syncs a file of its own: the file system may have recorded names by then whose bytes it has not.
pub(crate) fn sync_of_a_stranger(dir: &DataDir) {
    let mut file = File::create(dir.outside("stranger")).expect("a file");
    let synced = file.write_all(b"?").and_then(|()| file.sync_all());
    synced.expect("a stranger's sync");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ext4,
    Xfs,
    Btrfs,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Runs a test on a file system of each of these kinds, at the same time.
    pub(crate) fn each(kinds: &[Self], test: impl Fn(Self) + Sync) {
        thread::scope(|scope| {
            let run = |&kind| {
                let test = &test;
                scope.spawn(move || {
                    test(kind);
                    has_only_left_out()
                })
            };
            let runs: Vec<_> = kinds.iter().map(run).collect();
            for run in runs {
                let ended = run.join();
                part_ended(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Makes this file system in a new file, which takes room only as it fills.
    pub(crate) fn make(self, image: &Path) -> Result<(), String> {
        let made = File::create(image).and_then(|file| file.set_len(1 << 30));
        made.map_err(|error| error.to_string())?;
        let program = format!("mkfs.{}", self.name());
        let force = if self == Self::Ext4 { "-F" } else { "-f" };
        // That of btrfs looks whether any device of the machine is this one, also at those that fail for another test.
        let mut made = Ok(());
        within(Duration::from_secs(30), || {
            made = run(&program, &["-q", force, text(image)]);
            !matches!(&made, Err(why) if why.ends_with("Input/output error"))
        });
        made
    }
}

/// A disk whose file system is shut down.
pub(crate) struct Image {
    // Dropped in this order.
    mounted: Option<Mounted>,
    below: Option<Mounted>,
    pub(crate) kind: Kind,
    place: TempDir,
}

impl Image {
    /// Runs a test on a disk of each of these kinds, at the same time; it is told what it tests.
    pub(crate) fn each(kinds: &[Kind], what: &str, test: impl Fn(&str, Self) + Sync) {
        Kind::each(kinds, |kind| {
            let what = format!("{what}, {}", kind.name());
            test(&what, needed!(available(&what, Self::new(kind))));
        });
    }

    /// In memory where there is such a place; or why it cannot be had here.
    pub(crate) fn new(kind: Kind) -> Result<Self, String> {
        let place = place()?;
        let mut disk = Self {
            mounted: None,
            below: None,
            kind,
            place,
        };
        if kind == Kind::Btrfs {
            Kind::Xfs.make(&disk.place.path().join("below.image"))?;
            disk.mount_below()?;
        }
        kind.make(&disk.image())?;
        disk.mount()?;
        // Whether it can be shut down at all.
        disk.shut_down()?;
        disk.revive();
        Ok(disk)
    }

    fn image(&self) -> PathBuf {
        let below = self.below.as_ref().map_or(self.place.path(), Mounted::path);
        below.join("image")
    }

    fn mount_below(&mut self) -> Result<(), String> {
        let [image, at] = ["below.image", "below"].map(|name| self.place.path().join(name));
        self.below = Some(Mounted::image(&image, &at, "defaults")?);
        Ok(())
    }

    fn mount(&mut self) -> Result<(), String> {
        let at = self.place.path().join("mount");
        self.mounted = Some(Mounted::image(&self.image(), &at, "defaults")?);
        Ok(())
    }

    /// Mounts all anew; fails while that is not to be written to.
    fn mount_again(&mut self) -> Result<(), String> {
        self.mounted.take().into_iter().for_each(Mounted::end);
        if self.kind == Kind::Btrfs {
            self.below.take().into_iter().for_each(Mounted::end);
            self.mount_below()?;
        }
        self.mount()?;
        for mounted in self.below.iter().chain(&self.mounted) {
            let synced = File::open(mounted.path()).and_then(|dir| dir.sync_all());
            synced.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn shut_down(&self) -> Result<(), String> {
        let lowest = self.below.as_ref().or(self.mounted.as_ref());
        let at = lowest.expect("it is mounted").path();
        run("xfs_io", &["-x", "-c", "shutdown", text(at)])
    }
}

impl Disk for Image {
    fn dir(&self) -> DataDir {
        DataDir::at(self.place.path().join("mount/data"))
    }

    fn cut(&mut self) {
        self.shut_down().expect("a cut of power");
    }

    fn revive(&mut self) {
        // The kernel lets go of the mounts of a namespace some time after its last process, of another test or program:
        // till then a mount is of the file system that was shut down.
        let mut mounted = Ok(());
        within(RELEASE, || {
            mounted = self.mount_again();
            mounted.is_ok()
        });
        mounted.unwrap_or_else(|why| panic!("{:?} after a cut of power: {why}", self.kind));
    }
}

/// A directory for images, in memory where there is such a place.
pub(crate) fn place() -> Result<TempDir, String> {
    let place = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
    place.map_err(|error| error.to_string())
}
