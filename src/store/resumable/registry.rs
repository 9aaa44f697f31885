//! The resumable uploads that there are, those received in part, and for a while those that were published; and their files: the bytes
//! in `ID`, and what is kept beside them in `ID.json`.
//!
//! Owns `.data-server/uploads`: what the start makes of it, which upload may be made, and when one expires. Their number is
//! bounded, and with it the memory that they take.
//!
//! Promises that a record is whole or absent: it is written aside and renamed. A sync that failed is not tried again. The two files say
//! where the upload stands. A record and a file are an upload to be resumed. A record alone is an upload that was published, which took
//! the file away. A file alone is nothing: the record is made last and removed first. All that touches them blocks.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::{Errno, retry_on_intr};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::store::clock;
use crate::store::directory_fd::open_beneath;
use crate::store::publish_method::{create_named, unlink_staged};
use crate::store::temp_file::{TempDir, VALUE_MODE};
use crate::store::upload_claim::{Claim, Entry, Progress, Standing, Touched, UploadId};
use crate::store::value_file::ValueFile;
use crate::store::writer::{Durability, Writer};
use crate::transfer::{Reservation, StagingQuota, Uploader, write_at};
use crate::value::{Error, Key, Meta, is_regular};

/// Uploads at once, those that were published among them.
const MOST: usize = 10_000;

/// How many of those that were published are forgotten when there is no room for another upload.
const FORGOTTEN_AT_ONCE: usize = MOST / 16;

/// The resumable uploads of a store.
#[derive(Debug)]
pub struct Registry {
    entries: Mutex<HashMap<UploadId, Arc<Entry>>>,
    /// How long one is kept after something was last done to it.
    expiry: Option<Duration>,
}

impl Registry {
    /// With what an earlier server left in `uploads`. What cannot be resumed is removed; what cannot be read now is left for the
    /// next start.
    pub fn load(
        uploads: &OwnedFd,
        quota: &Arc<StagingQuota>,
        expiry: Duration,
    ) -> Result<Self, Errno> {
        let (mut entries, mut seen) = (HashMap::new(), HashSet::new());
        for name in names(uploads)? {
            let id = name.to_str().ok().and_then(|name| {
                let id = name.strip_suffix(SUFFIX).unwrap_or(name);
                UploadId::parse(id)
            });
            match id {
                Some(id) if !seen.insert(id) => {}
                Some(id) => match left(uploads, id, quota) {
                    Ok(Some(entry)) => drop(entries.insert(id, entry)),
                    Ok(None) => remove_files(uploads, id),
                    Err(error) => tracing::warn!(
                        %error,
                        "an upload cannot be read: it is kept, and can be resumed only after another start"
                    ),
                },
                None => unlink(uploads, &name.to_string_lossy()),
            }
        }
        if !entries.is_empty() {
            tracing::info!(uploads = entries.len(), "found resumable uploads");
        }
        Ok(Self {
            entries: Mutex::new(entries),
            expiry: (!expiry.is_zero()).then_some(expiry),
        })
    }

    /// How many uploads are unfinished.
    pub fn unfinished(&self) -> usize {
        let is_open = |entry: &&Arc<Entry>| entry.progress().standing == Standing::Open;
        self.entries().values().filter(is_open).count()
    }

    /// The key that the upload `id` will be the value of.
    pub fn key(&self, id: UploadId) -> Option<Key<'static>> {
        self.get(id).map(|entry| entry.key.clone())
    }

    pub fn get(&self, id: UploadId) -> Option<Arc<Entry>> {
        self.entries().get(&id).cloned()
    }

    /// Adds `entry`, if there is room; answers which were forgotten for it, whose files are to be removed.
    pub fn add(&self, entry: Arc<Entry>) -> Result<Vec<UploadId>, Error> {
        let mut entries = self.entries();
        let forgotten = if entries.len() < MOST {
            Vec::new()
        } else {
            oldest_published(&entries)
        };
        for id in &forgotten {
            entries.remove(id);
        }
        if entries.len() >= MOST {
            return Err(Error::Exhausted {
                reason: "room for unfinished uploads",
            });
        }
        entries.insert(entry.id, entry);
        Ok(forgotten)
    }

    /// Removes the upload that `claim` is on, and its files. Blocks.
    pub fn remove(&self, claim: &Claim, uploads: &OwnedFd) {
        claim.removed();
        self.entries().remove(&claim.entry().id);
        remove_files(uploads, claim.entry().id);
    }

    /// Removes the uploads that nothing was done to for long; how many of them were unfinished. Blocks.
    pub fn expire(&self, uploads: &OwnedFd) -> u64 {
        let Some(expiry) = self.expiry else { return 0 };
        let is_over = |entry: &&Arc<Entry>| entry.progress().touched.age() >= expiry;
        let over: Vec<_> = self.entries().values().filter(is_over).cloned().collect();
        let mut expired = 0;
        for claim in over.iter().filter_map(Entry::try_claim) {
            // A request may have had it in between.
            if !is_over(&claim.entry()) {
                continue;
            }
            if claim.entry().progress().standing == Standing::Open {
                expired += 1;
            }
            self.remove(&claim, uploads);
        }
        expired
    }

    /// Has the file system take back what was set aside for parts that broke off. Blocks.
    pub fn trim(&self, uploads: &OwnedFd) {
        let is_ahead = |entry: &&Arc<Entry>| entry.progress().is_ahead;
        let ahead: Vec<_> = self.entries().values().filter(is_ahead).cloned().collect();
        for claim in ahead.iter().filter_map(Entry::try_claim) {
            if let Err(error) = trimmed(uploads, &claim) {
                tracing::warn!(%error, "space stays set aside for an upload");
            }
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<UploadId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the files of `id`, the record first. Blocks.
pub fn remove_files(uploads: &OwnedFd, id: UploadId) {
    Record::remove(uploads, id);
    unlink(uploads, &id.to_string());
}

/// Those that were published, the ones first of which nothing was asked for the longest time.
fn oldest_published(entries: &HashMap<UploadId, Arc<Entry>>) -> Vec<UploadId> {
    let published = entries.values().filter_map(|entry| {
        let progress = entry.progress();
        (progress.standing == Standing::Complete).then_some((progress.touched.age(), entry.id))
    });
    let mut published: Vec<_> = published.collect();
    published.sort_unstable_by_key(|published| Reverse(*published));
    let oldest = published.into_iter().take(FORGOTTEN_AT_ONCE);
    oldest.map(|(_, id)| id).collect()
}

fn names(uploads: &OwnedFd) -> Result<Vec<std::ffi::CString>, Errno> {
    let is_name = |name: &CStr| name != c"." && name != c"..";
    let mut names = Vec::new();
    for entry in Dir::read_from(uploads)? {
        let entry = entry?;
        if is_name(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// The upload `id` that an earlier server left; `None` where it cannot be resumed.
fn left(
    uploads: &OwnedFd,
    id: UploadId,
    quota: &Arc<StagingQuota>,
) -> Result<Option<Arc<Entry>>, Error> {
    let record = Record::find(uploads, id)?;
    let key = record.as_ref().map(|record| Key::new(record.key.clone()));
    let (Some(record), Some(Ok(key))) = (record, key) else {
        tracing::warn!("removed an upload without a record that can be understood");
        return Ok(None);
    };
    let file = match open_beneath(uploads, &id.to_string(), OFlags::RDWR, Mode::empty()) {
        Err(Errno::NOENT) => None,
        Err(Errno::ISDIR | Errno::LOOP) => return Ok(None),
        opened => Some(opened.map_err(Error::errno_while("open an upload"))?),
    };
    let stat = file.as_ref().map(rustix::fs::fstat).transpose();
    let stat = stat.map_err(Error::errno_while("look at an upload"))?;
    let (len, standing) = match (&file, stat) {
        (Some(file), Some(stat)) if is_regular(&stat) && stat.st_nlink == 1 => {
            let Some(len) = trusted(file, &record, Meta::of(&stat).len)? else {
                return Ok(None);
            };
            (len, Standing::Open)
        }
        // It was published by a link, and the server ended before it took the first name away.
        (Some(_), Some(stat)) if is_regular(&stat) && record.is_of_this_start() => {
            unlink(uploads, &id.to_string());
            (0, Standing::Complete)
        }
        (None, _) if record.is_of_this_start() => (0, Standing::Complete),
        _ => return Ok(None),
    };
    let age = stat.map(|stat| age(&record, Meta::of(&stat).version.time()));
    let progress = Progress {
        length: record.length,
        synced: record.synced,
        received: len,
        is_ahead: true,
        touched: Touched::before(age.unwrap_or_default()),
        standing,
    };
    let reservation = match standing {
        Standing::Open => {
            let uploader = record.uploader.as_deref().map(Uploader::new);
            Reservation::of_left(quota, uploader, len)
        }
        _ => Reservation::new(quota, None),
    };
    Ok(Some(Entry::new(id, key, progress, reservation)))
}

/// How long nothing was done to an upload whose file was touched at that time of the clock. What the clock was put forward since
/// is no time that has passed: of this boot, that can be told.
fn age(record: &Record, touched: SystemTime) -> Duration {
    let age = SystemTime::now().duration_since(touched);
    age.unwrap_or_default().saturating_sub(record.put_forward())
}

/// How much of the `len` bytes of `file` is what the client sent; the rest is cut off. After a reboot that is what was
/// synced, and where nothing was promised, the upload is lost: a file may then have zeros where bytes had been written.
fn trusted(file: &OwnedFd, record: &Record, len: u64) -> Result<Option<u64>, Error> {
    if record.is_of_this_start() {
        return Ok(Some(len));
    }
    let Some(synced) = record.synced.filter(|&synced| synced <= len) else {
        return Ok(None);
    };
    let cut = retry_on_intr(|| rustix::fs::ftruncate(file, synced));
    cut.map_err(Error::errno_while("cut an upload"))?;
    Ok(Some(synced))
}

/// Longer than any record: of a key, and of fields that came in the head of a request.
const MAX_LEN: u64 = 1 << 20;

/// The end of the names of records.
const SUFFIX: &str = ".json";

/// How far apart two readings of [`started`] are at most, in seconds, that are of one start of the machine.
const SLACK: i64 = 2;

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: UTIME_NOW,
};

/// A field that is kept with an upload, for its publishing: its name and its value.
pub type Field = (String, String);

/// The record of an upload.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    pub key: String,
    /// How long it will be, where that is known.
    pub length: Option<u64>,
    pub fields: Vec<Field>,
    /// The client that it counts for.
    #[serde(default)]
    pub uploader: Option<String>,
    /// When the machine was started on which this was written, in seconds since 1970, by its clock of that time.
    started: i64,
    /// The kernel's name of that boot, where it could be seen.
    #[serde(default)]
    boot: Option<String>,
    /// How many of its bytes are known to be on the disk, where that is promised.
    pub synced: Option<u64>,
}

impl Record {
    fn new(entry: &Entry, fields: Vec<Field>) -> Self {
        Self {
            key: entry.key.as_str().to_owned(),
            length: None,
            fields,
            uploader: entry.uploader(),
            started: started(),
            boot: clock::boot_id().map(str::to_owned),
            synced: None,
        }
    }

    /// Brings it up to date.
    fn update(&mut self, length: Option<u64>, synced: Option<u64>) {
        (self.length, self.synced) = (length, synced);
        self.started = started();
        self.boot = clock::boot_id().map(str::to_owned);
    }

    /// Whether the machine has not rebooted since: what was written to a file then is still there.
    fn is_of_this_start(&self) -> bool {
        match (self.boot.as_deref(), clock::boot_id()) {
            (Some(then), Some(now)) => then == now,
            _ => (self.started - started()).abs() <= SLACK,
        }
    }

    /// By how much the clock was put forward since, as far as that can be told.
    fn put_forward(&self) -> Duration {
        if !self.is_of_this_start() {
            return Duration::ZERO;
        }
        Duration::from_secs(u64::try_from(started() - self.started).unwrap_or(0))
    }

    /// The record of `id`; `None` where what is there is none. Blocks.
    fn find(uploads: &OwnedFd, id: UploadId) -> Result<Option<Self>, Error> {
        match Self::text(uploads, id)? {
            Some(text) => Ok(serde_json::from_slice(&text).ok()),
            None => Ok(None),
        }
    }

    /// The record of `id`. Blocks.
    fn read(uploads: &OwnedFd, id: UploadId) -> Result<Self, Error> {
        let text = Self::text(uploads, id)?.unwrap_or_default();
        serde_json::from_slice(&text).map_err(|error| Error::failed("read a record")(error.into()))
    }

    /// The record that its file holds; `None` where there is none.
    fn text(uploads: &OwnedFd, id: UploadId) -> Result<Option<Vec<u8>>, Error> {
        let file = match open_beneath(uploads, &name(id), OFlags::RDONLY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened.map_err(Error::errno_while("open a record"))?),
        };
        let mut text = Vec::new();
        let failed = |error: std::io::Error| match Errno::from_io_error(&error) {
            Some(errno) => Error::new("read a record", errno),
            None => Error::failed("read a record")(error),
        };
        file.take(MAX_LEN).read_to_end(&mut text).map_err(failed)?;
        Ok(Some(text))
    }

    /// Keeps it as the record of `id`, on the disk if it `is_synced`. Blocks.
    fn write(&self, dir: &TempDir, id: UploadId, is_synced: bool) -> Result<(), Error> {
        let (staging, staged) = (dir.staging(), dir.new_name());
        let file = create_named(staging, &staged, Mode::from(0o600));
        let file = file.map_err(Error::errno_while("create a record"))?;
        let written = write(&file, self, is_synced).and_then(|()| {
            let rename = || rustix::fs::renameat(staging, &staged, dir.uploads(), name(id));
            retry_on_intr(rename).map_err(Error::errno_while("keep a record"))
        });
        if written.is_err() {
            unlink_staged(staging, &staged);
        }
        written?;
        if is_synced {
            sync_names(dir.uploads())?;
        }
        Ok(())
    }

    /// Removes that of `id`. Blocks.
    fn remove(uploads: &OwnedFd, id: UploadId) {
        unlink(uploads, &name(id));
    }
}

fn write(file: &OwnedFd, record: &Record, is_synced: bool) -> Result<(), Error> {
    let text = serde_json::to_vec(record).unwrap_or_default();
    write_at(file, 0, &[text.into()])?;
    if is_synced {
        rustix::fs::fsync(file).map_err(Error::errno_while("sync a record"))?;
    }
    Ok(())
}

/// Puts the names in `uploads` on the disk.
fn sync_names(uploads: &OwnedFd) -> Result<(), Error> {
    rustix::fs::fsync(uploads).map_err(Error::errno_while("sync the uploads"))
}

/// Removes `name`. Where that fails, the start of the next server tries again.
fn unlink(uploads: &OwnedFd, name: &str) {
    match retry_on_intr(|| rustix::fs::unlinkat(uploads, name, AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => tracing::warn!(error = %errno, "a file of an upload stays"),
    }
}

fn name(id: UploadId) -> String {
    format!("{id}{SUFFIX}")
}

/// When the machine was started, by its clock. It tells starts apart only where the kernel's name of them is hidden: a step of the
/// clock then looks like another start, which costs what was received of an upload.
fn started() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec - clock_gettime(ClockId::Boottime).tv_sec
}

/// Makes the files of the upload that `claim` is on.
pub fn create(writer: &Writer, claim: &Claim, fields: Vec<Field>) -> Result<ValueFile, Error> {
    writer.dir().location().check()?;
    let length = claim.entry().progress().length;
    drop(writer.take_space(length.unwrap_or(0))?);
    let (uploads, name) = (writer.temp_dir().uploads(), claim.entry().id.to_string());
    let file = create_named(uploads, &name, Mode::from(VALUE_MODE));
    let file = file.map_err(Error::errno_while("create an upload"))?;
    let record = Record::new(claim.entry(), fields);
    write_record(record, writer, claim)?;
    Ok(ValueFile::new(file, writer.disk().clone()))
}

/// The file of the upload that `claim` is on, and its length.
pub fn open(writer: &Writer, claim: &Claim) -> Result<Option<(ValueFile, u64)>, Error> {
    writer.dir().location().check()?;
    let Some((file, len)) = trimmed(writer.temp_dir().uploads(), claim)? else {
        return Ok(None);
    };
    // When it was asked for last, for the next server. A failure makes it expire a little sooner.
    let now = Timestamps {
        last_access: NOW,
        last_modification: NOW,
    };
    let _ = rustix::fs::futimens(&file, &now);
    let file = ValueFile::new(file, writer.disk().clone());
    Ok(Some((file, len)))
}

/// The file of the upload that `claim` is on, and its length, without the space that was set aside for what has not come.
fn trimmed(uploads: &OwnedFd, claim: &Claim) -> Result<Option<(OwnedFd, u64)>, Error> {
    let name = claim.entry().id.to_string();
    let file = match open_beneath(uploads, &name, OFlags::RDWR, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened.map_err(Error::errno_while("open an upload"))?,
    };
    let stat = retry_on_intr(|| rustix::fs::fstat(&file));
    let len = Meta::of(&stat.map_err(Error::errno_while("look at an upload"))?).len;
    claim.has_received(len);
    if std::mem::take(&mut claim.entry().progress().is_ahead) {
        // Also where the length stays, the file system frees what lies behind it.
        let cut = retry_on_intr(|| rustix::fs::ftruncate(&file, len));
        cut.map_err(Error::errno_while("trim an upload"))?;
    }
    Ok(Some((file, len)))
}

/// The record of the upload that `claim` is on. Memory has only what changes, for fields may be long.
pub fn record(writer: &Writer, claim: &Claim) -> Result<Record, Error> {
    Record::read(writer.temp_dir().uploads(), claim.entry().id)
}

/// Brings the record of the upload that `claim` is on up to date.
pub fn keep_record(writer: &Writer, claim: &Claim) -> Result<(), Error> {
    write_record(record(writer, claim)?, writer, claim)
}

fn write_record(mut record: Record, writer: &Writer, claim: &Claim) -> Result<(), Error> {
    let Progress { length, synced, .. } = *claim.entry().progress();
    record.update(length, synced);
    let is_synced = writer.durability() == Durability::Disk;
    record.write(writer.temp_dir(), claim.entry().id, is_synced)
}
