//! A disk served by nbdkit: with a volatile write cache that a cut of power empties, with errors by order, or slow.
//!
//! nbdkit serves an image, nbdfuse shows that as a file, and an ext4 in this file is mounted through a loop device. A
//! sync of the file system reaches nbdkit as a flush.

use std::process::Child;

use crate::disk::{Disk, Kind, place};
use crate::support::prelude::*;

/// What is wrong with the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakness {
    /// It keeps what is written in memory until it is told to flush.
    VolatileCache,
    /// The same, and calls a flush done that it has not begun.
    LyingCache,
    /// Writes, or reads, fail with EIO while they are told to; so many of a hundred.
    Errors { percent: u8 },
    /// Writes of blocks that have [`BAD`] in them fail with EIO while they are told to: of values, not of what the file system
    /// records of them.
    Data,
    /// Each read takes 20 ms.
    SlowReads,
}

/// What a disk of [`Weakness::Data`] does not take.
pub(crate) const BAD: &str = "THIS IS NOT TAKEN";

pub(crate) struct Nbd {
    // Dropped in this order.
    mounted: Option<Mounted>,
    served: Option<Served>,
    kind: Kind,
    weakness: Weakness,
    place: TempDir,
}

impl Nbd {
    /// An ext4, in memory where there is such a place; or why it cannot be had here.
    pub(crate) fn new(weakness: Weakness) -> Result<Self, String> {
        Self::of(Kind::Ext4, weakness)
    }

    /// The same with this file system.
    pub(crate) fn of(kind: Kind, weakness: Weakness) -> Result<Self, String> {
        let place = place()?;
        kind.make(&place.path().join("image"))?;
        let mut disk = Self {
            mounted: None,
            served: None,
            kind,
            weakness,
            place,
        };
        disk.power_on()?;
        Ok(disk)
    }

    /// Has writes fail, or succeed again.
    pub(crate) fn fail_writes(&self, fail: bool) {
        self.order("write-errors", fail);
    }

    /// Has reads fail, or succeed again.
    pub(crate) fn fail_reads(&self, fail: bool) {
        self.order("read-errors", fail);
    }

    /// Has the layers below the file system forget what they read ahead of it.
    pub(crate) fn forget(&self) {
        let device = fs::File::open(self.path("device")).expect("the device");
        rustix::fs::fadvise(device, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
    }

    fn order(&self, name: &str, fail: bool) {
        let order = self.path(name);
        if fail {
            fs::write(order, "")
        } else {
            fs::remove_file(order)
        }
        .expect("an order to fail");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// What nbdkit serves the image by.
    fn words(&self) -> Vec<String> {
        let order = |name| self.path(name).display().to_string();
        let filter = match self.weakness {
            Weakness::VolatileCache | Weakness::LyingCache => "--filter=cache",
            Weakness::Errors { .. } => "--filter=error",
            Weakness::SlowReads => "--filter=delay",
            Weakness::Data => return self.picky(),
        };
        let settings = match self.weakness {
            Weakness::Data => Vec::new(),
            Weakness::VolatileCache => vec!["cache=writeback".to_owned()],
            Weakness::LyingCache => vec!["cache=unsafe".to_owned()],
            Weakness::SlowReads => vec!["rdelay=20ms".to_owned()],
            Weakness::Errors { percent } => vec![
                "error=EIO".to_owned(),
                format!("error-pwrite-rate={percent}%"),
                format!("error-pwrite-file={}", order("write-errors")),
                format!("error-pread-rate={percent}%"),
                format!("error-pread-file={}", order("read-errors")),
            ],
        };
        let words = [filter.to_owned(), "file".to_owned(), order("image")];
        words.into_iter().chain(settings).collect()
    }

    /// A plugin in shell, for which of its filters looks into what is written.
    fn picky(&self) -> Vec<String> {
        let (image, order) = (self.path("image"), self.path("write-errors"));
        let (image, order) = (text(&image), text(&order));
        let pread = format!(
            "dd if={image} skip=$4 count=$3 iflag=count_bytes,skip_bytes bs=64K status=none"
        );
        // The block is looked into only while that is ordered.
        let refuse = format!(
            "if [ -e {order} ]; then cat > $tmpdir/$$; if grep -qaF '{BAD}' $tmpdir/$$; then echo EIO >&2; exit 1; fi; exec < $tmpdir/$$; rm $tmpdir/$$; fi"
        );
        let write = format!(
            "dd of={image} seek=$4 oflag=seek_bytes bs=64K iflag=fullblock conv=notrunc status=none"
        );
        let methods = [
            ("get_size", format!("stat -c %s {image}")),
            ("pread", pread),
            ("pwrite", format!("{refuse}; {write}")),
            ("flush", "true".to_owned()),
        ];
        let methods = methods.map(|(name, script)| format!("{name}={script}"));
        [vec!["eval".to_owned()], methods.to_vec()].concat()
    }

    fn power_on(&mut self) -> Result<(), String> {
        self.served = Some(Served::new(&self.place, self.words())?);
        // Its journal is written when a sync asks for it and not on a timer, which could fall into an error by order.
        let options = match self.kind {
            Kind::Ext4 => "commit=300,noinit_itable",
            Kind::Xfs | Kind::Btrfs => "defaults",
        };
        let (device, at) = (self.path("device"), self.path("mount"));
        self.mounted = Some(Mounted::image(&device, &at, options)?);
        write_in_one_piece(&device)
    }
}

impl Disk for Nbd {
    fn dir(&self) -> DataDir {
        DataDir::at(self.path("mount/data"))
    }

    fn cut(&mut self) {
        self.served.as_mut().expect("it is served").nbdkit.end();
    }

    fn revive(&mut self) {
        self.mounted.take().expect("it is mounted").end();
        self.served = None;
        self.power_on().expect("the disk again");
    }
}

/// Has the loop device of the file `shown` write no more at once than the layers below it write in one piece (1 MiB). Of a longer request
/// that fails behind its first piece, the loop device reports success.
fn write_in_one_piece(shown: &Path) -> Result<(), String> {
    let list = ["--noheadings", "--output", "NAME", "--associated"];
    let list = Command::new("losetup").args(list).arg(shown).output();
    let list = list.map_err(|error| error.to_string())?.stdout;
    let name = String::from_utf8_lossy(&list);
    let name = name.trim().trim_start_matches("/dev/");
    let most = format!("/sys/block/{name}/queue/max_sectors_kb");
    fs::write(&most, "128").map_err(|error| format!("{most}: {error}"))
}

/// An image shown as a file.
struct Served {
    nbdkit: Running,
    nbdfuse: Running,
    device: PathBuf,
}

impl Served {
    fn new(place: &TempDir, options: Vec<String>) -> Result<Self, String> {
        let [socket, listens, device] =
            ["socket", "listens", "device"].map(|name| place.path().join(name));
        for of_an_earlier_one in [&socket, &listens] {
            let _ = fs::remove_file(of_an_earlier_one);
        }
        fs::write(&device, "").map_err(|error| error.to_string())?;
        // The socket is there before anyone listens; this file is not.
        let serve = ["--foreground", "--pidfile", text(&listens)];
        let serve = [&serve[..], &["--unix", text(&socket)]].concat();
        let nbdkit = Command::new("nbdkit")
            .args(serve)
            .args(options)
            .env("TMPDIR", place.path())
            .spawn_quiet("nbdkit")?;
        let mut served = Self {
            nbdkit,
            nbdfuse: Running(None),
            device,
        };
        served.nbdkit.when("nbdkit", || listens.exists())?;
        let show = [text(&served.device), "--unix", text(&socket)];
        served.nbdfuse = Command::new("nbdfuse").args(show).spawn_quiet("nbdfuse")?;
        let device = served.device.clone();
        let is_shown = || fs::metadata(&device).is_ok_and(|file| file.len() > 0);
        served.nbdfuse.when("nbdfuse", is_shown)?;
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = run("umount", &["--lazy", text(&self.device)]);
        self.nbdfuse.end();
        self.nbdkit.end();
    }
}

/// A process that ends with its owner.
struct Running(Option<Child>);

impl Running {
    /// Waits until `is_ready`, or the process has given up.
    fn when(&mut self, name: &str, is_ready: impl Fn() -> bool) -> Result<(), String> {
        let child = self.0.as_mut().expect("it was started");
        let mut ended = None;
        eventually(name, || {
            ended = child.try_wait().expect("its state");
            is_ready() || ended.is_some()
        });
        ended.map_or(Ok(()), |status| Err(format!("{name}: {status}")))
    }

    /// Ends it at once.
    fn end(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

trait SpawnQuiet {
    fn spawn_quiet(&mut self, name: &str) -> Result<Running, String>;
}

impl SpawnQuiet for Command {
    fn spawn_quiet(&mut self, name: &str) -> Result<Running, String> {
        let child = self.stdin(Stdio::null()).stdout(Stdio::null());
        let child = child.stderr(Stdio::null()).spawn();
        child
            .map(|child| Running(Some(child)))
            .map_err(|error| format!("{name}: {error}"))
    }
}
