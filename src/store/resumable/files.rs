//! The files of a resumable upload: made, opened, and its record kept. All of it blocks.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::{Errno, retry_on_intr};

use super::super::directory_fd::open_beneath;
use super::super::publish_method::create_named;
use super::super::temp_dir::VALUE_MODE;
use super::super::upload_claim::{Claim, Progress};
use super::super::value_file::ValueFile;
use super::super::writer::{Durability, Writer};
use super::record::{Field, Record};
use crate::value::{Error, Meta};

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: UTIME_NOW,
};

/// Makes the files of the upload that `claim` is on.
pub(super) fn create(
    writer: &Writer,
    claim: &Claim,
    fields: Vec<Field>,
) -> Result<ValueFile, Error> {
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
pub(super) fn open(writer: &Writer, claim: &Claim) -> Result<Option<(ValueFile, u64)>, Error> {
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
pub(super) fn trimmed(uploads: &OwnedFd, claim: &Claim) -> Result<Option<(OwnedFd, u64)>, Error> {
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
pub(super) fn record(writer: &Writer, claim: &Claim) -> Result<Record, Error> {
    Record::read(writer.temp_dir().uploads(), claim.entry().id)
}

/// Brings the record of the upload that `claim` is on up to date.
pub(super) fn keep_record(writer: &Writer, claim: &Claim) -> Result<(), Error> {
    write_record(record(writer, claim)?, writer, claim)
}

fn write_record(mut record: Record, writer: &Writer, claim: &Claim) -> Result<(), Error> {
    let Progress { length, synced, .. } = *claim.entry().progress();
    record.update(length, synced);
    let is_synced = writer.durability() == Durability::Disk;
    record.write(writer.temp_dir(), claim.entry().id, is_synced)
}
