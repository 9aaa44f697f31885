//! The records of changes that cannot be made for their key alone: the file `kept`, of frames, one behind the other, as
//! in a segment.
//!
//! A key that the server's user may not write, or whose folder is on another file system, does not keep all others
//! waiting: all its records move from the segments to this file, and each start tries them again. Until then the key is
//! not changed, so that they stay the last word, and its value is not answered, as its file may be older.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::super::temp_file::{Placement, TempFile};
use super::super::write_context::WriteContext;
use super::control;
use super::format::{ChangeRecord, FrameBuilder, Head};
use super::segment::{Frame, Segment};
use crate::value::{Error, Key};

pub const KEPT: &str = "kept";

/// The frames of the file in `dir`; whether it is whole.
pub fn read(dir: &OwnedFd, journal: u128) -> Result<(Vec<Frame>, bool), Errno> {
    let Some(segment) = Segment::find(dir, KEPT)? else {
        return Ok((Vec::new(), true));
    };
    let frames = segment.frames(journal)?;
    let whole: usize = frames.iter().map(|frame| frame.head.size()).sum();
    Ok((frames, whole as u64 == segment.size))
}

/// The changes of the file in `dir`.
pub fn changes(dir: &OwnedFd, journal: u128) -> Result<Vec<ChangeRecord>, Error> {
    let (frames, is_whole) = read(dir, journal).map_err(Error::errno_while("read the journal"))?;
    if !is_whole {
        let damage = std::io::Error::other("its file `kept` is damaged");
        return Err(Error::failed("read the journal")(damage));
    }
    let mut changes = Vec::new();
    for frame in frames {
        changes.extend(frame.changes()?);
    }
    Ok(changes)
}

/// Replaces the file in `dir`, durably, by one with these changes. A change that is there twice, because a checkpoint
/// was retried, is written once.
pub fn write(dir: &OwnedFd, journal: u128, changes: &[ChangeRecord]) -> Result<(), Error> {
    let (mut frames, mut seen) = (Vec::new(), HashSet::new());
    let new = changes
        .iter()
        .filter(|change| seen.insert((change.key.as_str(), change.base, change.result)));
    for (n, change) in (1..).zip(new) {
        let mut frame = FrameBuilder::new(change.time);
        let small = change.small.as_ref();
        let small = small.map(|(attributes, value)| (attributes, std::slice::from_ref(value)));
        frame.add_change(
            &change.key,
            change.base,
            change.result,
            small,
            change.source.as_deref(),
        );
        frames.extend(frame.finish(Head::new(journal, 0, n))?);
    }
    control::write(dir, KEPT, &frames).map_err(Error::failed("keep records of the journal"))
}

/// Replaces the keys that are neither changed nor answered by the keys of `changes`.
pub fn refuse(writer: &WriteContext, changes: &[ChangeRecord]) {
    let keys = changes.iter().flat_map(ChangeRecord::keys);
    let keys = keys.map(|key| key.as_str().into());
    writer.journal.refuse_keys(keys.collect());
}

/// Says that the records of `key` are kept, of which one failed with `error`; answers the error if it is not one of the
/// key alone.
pub fn keep(writer: &WriteContext, key: &Key<'_>, error: Error) -> Result<(), Error> {
    let is_of_key = match &error {
        Error::Forbidden { .. } | Error::Occupied(_) => true,
        // A folder of the key is a mount of its own. Where the server's own folder is read-only, the error is one of
        // all keys. A file system that has stopped itself after an error of its disk need not say that it is
        // read-only: so a file is made.
        Error::ReadOnly => TempFile::create(&writer.temp_dir, Placement::Present, None).is_ok(),
        _ => false,
    };
    if !is_of_key {
        return Err(error);
    }
    tracing::error!(%key, %error, "cannot make what the journal has of this key: its record is kept, and the key not changed, until a start can");
    Ok(())
}
