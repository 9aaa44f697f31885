//! A disk served by nbdkit: with a volatile write cache that a cut of power empties, with errors by order, or slow.
//!
//! nbdkit serves an image, nbdfuse shows that as a file, and an ext4 in this file is mounted through a loop device. A
//! sync of the file system reaches nbdkit as a flush.

use crate::disk::{Disk, Kind, place};
use crate::prelude::*;

/// What is wrong with the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakness {
    /// It keeps what is written in memory until it is told to flush.
    VolatileCache,
    /// The same, and calls a flush done that it has not begun.
    LyingCache,
    /// Writes, or reads, fail with EIO while they are told to; so many of a hundred.
    Errors { percent: u8 },
    /// Writes of blocks that have [`BAD`] in them fail with EIO while they are told to: of values, not of what the file
    /// system records of them.
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
        let done = if fail {
            fs::write(order, "")
        } else {
            fs::remove_file(order)
        };
        done.expect("an order to fail");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// What nbdkit serves the image by.
    fn words(&self) -> Vec<String> {
        let order = |name| self.path(name).display().to_string();
        let (writes, reads) = (order("write-errors"), order("read-errors"));
        let words = match self.weakness {
            Weakness::Data => return self.picky(),
            Weakness::VolatileCache => "--filter=cache cache=writeback".to_owned(),
            Weakness::LyingCache => "--filter=cache cache=unsafe".to_owned(),
            Weakness::SlowReads => "--filter=delay rdelay=20ms".to_owned(),
            Weakness::Errors { percent } => format!(
                "--filter=error error=EIO error-pwrite-rate={percent}% error-pwrite-file={writes} \
                 error-pread-rate={percent}% error-pread-file={reads}"
            ),
        };
        let words = format!("file {} {words}", order("image"));
        words.split(' ').map(str::to_owned).collect()
    }

    /// A plugin in shell, for which of its filters looks into what is written.
    fn picky(&self) -> Vec<String> {
        let (image, order) = (self.path("image"), self.path("write-errors"));
        let (image, order) = (text(&image), text(&order));
        let dd = "dd bs=64K status=none";
        let pread = format!("{dd} if={image} skip=$4 count=$3 iflag=count_bytes,skip_bytes");
        // The block is looked into only while that is ordered.
        let refuse = format!(
            "if [ -e {order} ]; then cat > $tmpdir/$$; if grep -qaF '{BAD}' $tmpdir/$$; then echo EIO >&2; exit 1; fi; exec < $tmpdir/$$; rm $tmpdir/$$; fi"
        );
        let write =
            format!("{dd} of={image} seek=$4 oflag=seek_bytes iflag=fullblock conv=notrunc");
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

/// Has the loop device of the file `shown` write no more at once than the layers below it write in one piece (1 MiB).
/// Of a longer request that fails behind its first piece, the loop device reports success.
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
        let names = ["socket", "listens", "device"];
        let [socket, listens, device] = names.map(|name| place.path().join(name));
        for of_an_earlier_one in [&socket, &listens] {
            let _ = fs::remove_file(of_an_earlier_one);
        }
        fs::write(&device, "").map_err(|error| error.to_string())?;
        // The socket is there before anyone listens; this file is not.
        let mut serve = Command::new("nbdkit");
        serve.args(["--foreground", "--pidfile", text(&listens)]);
        serve.args(["--unix", text(&socket)]).args(options);
        serve.env("TMPDIR", place.path()).stderr(Stdio::null());
        let mut nbdkit = Running::spawn(&mut serve)?;
        nbdkit.when("nbdkit", || listens.exists())?;
        let mut show = Command::new("nbdfuse");
        show.args([text(&device), "--unix", text(&socket)]);
        let mut served = Self {
            nbdkit,
            nbdfuse: Running::spawn(show.stderr(Stdio::null()))?,
            device,
        };
        let device = &served.device;
        let is_shown = || fs::metadata(device).is_ok_and(|file| file.len() > 0);
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
