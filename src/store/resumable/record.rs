//! The files of a resumable upload: its bytes in `ID`, and what is kept beside them in `ID.json`. All of it blocks.
//!
//! Promises that a record is whole or absent: it is written aside and renamed. A sync that failed is not tried again.
//!
//! The two files say where the upload stands. A record and a file are an upload to be resumed. A record alone is an
//! upload that was published, which took the file away. A file alone is nothing: the record is made last and removed
//! first.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::store::clock;
use crate::store::directory_fd::{open_beneath, times};
use crate::store::publish::may_publish;
use crate::store::publish_method::create_named;
use crate::store::small_file;
use crate::store::temp_file::VALUE_MODE;
use crate::store::upload_claim::{Claim, Progress, UploadEntry, UploadId};
use crate::store::value_file::ValueFile;
use crate::store::write_context::{Durability, WriteContext};
use crate::transfer::Uploader;
use crate::value::{Error, Key, Meta, Version};

/// Longer than any record: of a key, and of fields that came in the head of a request.
const MAX_LEN: u64 = 1 << 20;

/// The files of an upload: its bytes, its record, and for a moment the next record beside that.
pub const FILES: u64 = 3;

/// The end of the names of records.
pub const SUFFIX: &str = ".json";

/// How far apart two readings of [`started`] are at most, in seconds, that are of one start of the machine.
const SLACK: i64 = 2;

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
    /// The record of `entry` as it is now.
    fn of(entry: &UploadEntry, fields: Vec<Field>) -> Self {
        let Progress { length, synced, .. } = *entry.progress();
        Self {
            length,
            synced,
            ..Self::new(&entry.key, fields, entry.uploader().as_ref())
        }
    }

    /// The record of an upload that has just begun, of which nothing is known to be on the disk.
    pub fn new(key: &Key<'_>, fields: Vec<Field>, uploader: Option<&Uploader>) -> Self {
        Self {
            key: key.as_str().to_owned(),
            length: None,
            fields,
            uploader: uploader.map(|it| it.0.to_string()),
            started: started(),
            boot: clock::boot_id().map(str::to_owned),
            synced: None,
        }
    }

    /// Keeps it as that of an upload whose files lie in this directory. Blocks.
    pub fn keep(&self, (dir, id): (&OwnedFd, UploadId), is_synced: bool) -> Result<(), Error> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let kept = small_file::replace((dir, &*name(id)), &text, is_synced, false);
        kept.map_err(Error::errno_while("keep a record"))
    }

    /// Whether the machine has not rebooted since: what was written to a file then is still there.
    pub fn is_of_this_start(&self) -> bool {
        match (self.boot.as_deref(), clock::boot_id()) {
            (Some(then), Some(now)) => then == now,
            _ => (self.started - started()).abs() <= SLACK,
        }
    }

    /// By how much the clock was put forward since, as far as that can be told.
    pub fn put_forward(&self) -> Duration {
        if !self.is_of_this_start() {
            return Duration::ZERO;
        }
        Duration::from_secs(u64::try_from(started() - self.started).unwrap_or(0))
    }

    /// The record of `id`; `None` where what is there is none. Blocks.
    pub fn find(uploads: &OwnedFd, id: UploadId) -> Result<Option<Self>, Error> {
        let text = small_file::read((uploads, &name(id)), MAX_LEN);
        let text = text.map_err(Error::errno_while("read a record"))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }
}

/// Removes the files of `id`, the record first. Blocks.
pub fn remove_files(uploads: &OwnedFd, id: UploadId) {
    unlink(uploads, &name(id));
    unlink(uploads, &id.to_string());
}

/// Removes `name`. Where that fails, the start of the next server tries again.
pub fn unlink(uploads: &OwnedFd, name: &str) {
    match retry_on_intr(|| rustix::fs::unlinkat(uploads, name, AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => tracing::warn!(error = %errno, "a file of an upload stays"),
    }
}

fn name(id: UploadId) -> String {
    format!("{id}{SUFFIX}")
}

/// When the machine was started, by its clock. It tells starts apart only where the kernel's name of them is hidden: a
/// step of the clock then looks like another start, which costs what was received of an upload.
fn started() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec - clock_gettime(ClockId::Boottime).tv_sec
}

/// Makes the files of the upload that `claim` is on.
pub fn create(
    writer: &WriteContext,
    claim: &Claim,
    fields: Vec<Field>,
) -> Result<ValueFile, Error> {
    may_publish(writer, &claim.entry.key)?;
    let length = claim.entry.progress().length;
    writer.may_take(length.unwrap_or(0))?;
    let (uploads, name) = (&writer.temp_dir.uploads, claim.entry.id.to_string());
    let file = create_named(uploads, &name, Mode::from(VALUE_MODE));
    let file = file.map_err(Error::errno_while("create an upload"))?;
    write_record(writer, &claim.entry, fields)?;
    Ok(ValueFile::new(file, writer.dir().disk.clone(), false))
}

/// The file of the upload that `claim` is on, and its length.
pub fn open(writer: &WriteContext, claim: &Claim) -> Result<Option<(ValueFile, u64)>, Error> {
    writer.dir().location.check()?;
    let Some((file, len)) = trimmed(&writer.temp_dir.uploads, claim)? else {
        return Ok(None);
    };
    // When it was asked for last, for the next server. A failure makes it expire a little sooner.
    let now = Version::from_nanos(clock::now().into());
    let _ = rustix::fs::futimens(&file, &times(now));
    let file = ValueFile::new(file, writer.dir().disk.clone(), false);
    Ok(Some((file, len)))
}

/// The file of the upload that `claim` is on, and its length, without the space that was set aside for what has not
/// come.
pub fn trimmed(uploads: &OwnedFd, claim: &Claim) -> Result<Option<(OwnedFd, u64)>, Error> {
    let name = claim.entry.id.to_string();
    let file = match open_beneath(uploads, &name, OFlags::RDWR, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened.map_err(Error::errno_while("open an upload"))?,
    };
    let len = length(&file)?;
    claim.entry.progress().received = len;
    if std::mem::take(&mut claim.entry.progress().is_ahead) {
        // Also where the length stays, the file system frees what lies behind it.
        cut(&file, len)?;
    }
    Ok(Some((file, len)))
}

/// The length of the `file` of an upload.
pub fn length(file: impl AsFd) -> Result<u64, Error> {
    let stat = retry_on_intr(|| rustix::fs::fstat(&file));
    Ok(Meta::of(&stat.map_err(Error::errno_while("look at an upload"))?).len)
}

/// Cuts off what the `file` of an upload has beyond `len` bytes.
pub fn cut(file: impl AsFd, len: u64) -> Result<(), Error> {
    let cut = retry_on_intr(|| rustix::fs::ftruncate(&file, len));
    cut.map_err(Error::errno_while("cut an upload"))
}

/// The record of the upload that `claim` is on. Memory has only what changes, for fields may be long.
pub fn record(writer: &WriteContext, claim: &Claim) -> Result<Record, Error> {
    let record = Record::find(&writer.temp_dir.uploads, claim.entry.id)?;
    let missing = || std::io::Error::other("there is no record that can be understood");
    record.ok_or_else(|| Error::failed("read a record")(missing()))
}

/// Brings the record of the upload that `claim` is on up to date.
pub fn keep_record(writer: &WriteContext, claim: &Claim) -> Result<(), Error> {
    write_record(writer, &claim.entry, record(writer, claim)?.fields)
}

fn write_record(
    writer: &WriteContext,
    entry: &UploadEntry,
    fields: Vec<Field>,
) -> Result<(), Error> {
    let is_synced = writer.durability == Durability::Disk;
    Record::of(entry, fields).keep((&writer.temp_dir.uploads, entry.id), is_synced)
}

/// How much of the `len` bytes of `file` is what the client sent; the rest is cut off. After a reboot that is what was
/// synced, and where nothing was promised, the upload is lost: a file may then have zeros where bytes had been written.
pub fn trusted(file: &OwnedFd, record: &Record, len: u64) -> Result<Option<u64>, Error> {
    if record.is_of_this_start() {
        return Ok(Some(len));
    }
    let Some(synced) = record.synced.filter(|&synced| synced <= len) else {
        return Ok(None);
    };
    cut(file, synced)?;
    Ok(Some(synced))
}
