//! The records of changes that cannot be made for their key alone: the file `kept`, of frames, one behind the other, as in a segment.
//!
//! A key that the server's user may not write, or whose folder is on another file system, does not keep all others waiting: its records
//! move from the segments to this file, and each start tries them again. Until then the key is not changed, so that they stay the last word.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::super::write_context::WriteContext;
use super::control;
use super::format::{ChangeRecord, FrameBuilder, Head};
use super::segment::{Frame, Segment};
use crate::value::Error;

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
    let (frames, _) = read(dir, journal).map_err(Error::errno_while("read the journal"))?;
    let mut changes = Vec::new();
    for frame in frames {
        changes.extend(frame.changes()?);
    }
    Ok(changes)
}

/// Replaces the file in `dir`, durably, by one with these changes. A change that is there twice, because a checkpoint was retried, is
/// written once.
pub fn write(dir: &OwnedFd, journal: u128, changes: &[ChangeRecord]) -> Result<(), Error> {
    let (mut frames, mut seen) = (Vec::new(), HashSet::new());
    let new = changes
        .iter()
        .filter(|change| seen.insert((change.key.as_str(), change.base, change.result)));
    for (n, change) in (1..).zip(new) {
        let mut frame = FrameBuilder::new(change.time);
        let small = change.small.as_ref();
        let small = small.map(|(attributes, value)| (attributes, std::slice::from_ref(value)));
        frame.add_change(&change.key, change.base, change.result, small);
        frames.extend(frame.finish(Head::new(journal, 0, n))?);
    }
    control::write(dir, KEPT, &frames).map_err(Error::failed("keep records of the journal"))
}

/// Replaces the keys that are not changed by the keys of `changes`.
pub fn refuse(writer: &WriteContext, changes: &[ChangeRecord]) {
    let mut kept = HashMap::<Box<str>, Vec<_>>::new();
    for change in changes {
        let versions = kept.entry(change.key.as_str().into()).or_default();
        versions.extend(change.result);
    }
    writer.journal.keep(kept);
}

/// Sets aside `change`, which failed with `error`; answers the error if it is not one of the change's key alone.
pub fn keep(kept: &mut Vec<ChangeRecord>, change: ChangeRecord, error: Error) -> Result<(), Error> {
    if !matches!(error, Error::Forbidden { .. } | Error::Occupied(_)) {
        return Err(error);
    }
    tracing::error!(key = %change.key, %error, "cannot make what the journal has of this key: its record is kept, and the key not changed, until a start can");
    kept.push(change);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Key, Version};

    #[test]
    fn what_is_kept_twice_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let change = |result: i128| ChangeRecord {
            sequence: 0,
            key: Key::new("k").unwrap().into_owned(),
            base: None,
            result: Some(Version::from_nanos(result)),
            time: 0,
            small: None,
        };
        for _round in 0..3 {
            let mut kept = changes(&dir, 7).unwrap();
            kept.extend([change(1), change(2)]);
            write(&dir, 7, &kept).unwrap();
        }
        let results: Vec<_> = changes(&dir, 7).unwrap().iter().map(|c| c.result).collect();
        assert_eq!(results, [1, 2].map(|n| Some(Version::from_nanos(n))));
    }
}
