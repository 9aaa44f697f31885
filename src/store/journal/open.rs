//! How a server begins to write to the journal: its segments, its threads.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::error::Error;
use super::super::layout::OpenError;
use super::super::random::random;
use super::super::vital;
use super::super::writer::Writer;
use super::checkpoint::Checkpoint;
use super::control::Position;
use super::log::indices;
use super::place::{Closing, Mount, Note, Place, State};
use super::pool::Pool;
use super::recover::Recovered;
use super::segment::Segment;
use super::writer::{Journal, Syncer};

/// Segments: one is filled while another is settled, and two are for when that takes long.
const SEGMENTS: usize = 4;

/// A group fits in a segment of this size with room to spare, in bytes.
const MIN_SEGMENT: u64 = 4 << 20;

/// The journal takes at most one part in so many of its file system.
const SHARE: u64 = 8;

/// What segments are a multiple of, in bytes.
const STEP: u64 = 1 << 20;

impl Journal {
    /// Begins to journal, where the directory is in order, after what was `recovered`; `None` where there is no room.
    pub(in crate::store) fn start(
        place: &Place,
        recovered: Option<Recovered>,
        writer: &Arc<Writer>,
    ) -> Result<Option<Self>, OpenError> {
        std::fs::create_dir_all(&place.at)
            .map_err(|error| OpenError::io("create", &place.at, error))?;
        let (id, from, dir) = match recovered {
            Some(Recovered { id, from, dir }) => (id, from, dir),
            None => (begin(place)?, Position::START, None),
        };
        let dir = dir.map_or_else(|| place.lock(), Ok)?;
        place.claim(&dir, id)?;
        let Some(size) = segment_size(place, &dir) else {
            writer.set_unjournaled("its file system is too small for one");
            return Ok(None);
        };
        let mut free = recycle(&dir, size).map_err(place.failed("open"))?;
        if free.is_empty() {
            match Segment::create(&dir, 0, size) {
                Ok(segment) => free.push(Arc::new(segment)),
                Err(Errno::NOSPC | Errno::DQUOT) => {
                    writer.set_unjournaled("there is no room for one");
                    return Ok(None);
                }
                Err(errno) => return Err(place.failed("make a segment in")(errno)),
            }
        }
        let epoch = epoch(writer)
            .map_err(|error| OpenError::io("begin", &place.at, std::io::Error::other(error)))?;
        let pool = Pool::new(free, SEGMENTS, size, epoch, from, &dir);
        let pool = Arc::new(pool.map_err(place.failed("write"))?);
        let note = note(
            place,
            id,
            epoch,
            State::Open(Mount::of(writer.dir().root())),
        )?;
        let dir = Arc::new(dir);
        let checkpoint = Checkpoint {
            journal: id,
            dir: Arc::clone(&dir),
            segment_size: size,
            pool: Arc::clone(&pool),
            writer: Arc::clone(writer),
        };
        let threads = |error| OpenError::io("start threads for", &place.at, error);
        let checkpoint = vital::spawn("disk-checkpoint", move || checkpoint.run());
        let sync = {
            let writer = Arc::clone(writer);
            move |segment: &Segment| writer.timed(|| segment.sync())
        };
        let place = place.clone();
        let journal = Self {
            id,
            writer: Arc::clone(writer),
            pool,
            syncer: Syncer::start(sync).map_err(threads)?,
            checkpoint: checkpoint.map_err(threads)?,
            at: from,
            segment: None,
            synced: from,
            closing: Closing { place, note },
            _dir: dir,
        };
        writer.set_journaled();
        Ok(Some(journal))
    }
}

/// How large a segment is to be, on a file system of which the journal takes a small part; `None` where that is too small.
fn segment_size(place: &Place, dir: &OwnedFd) -> Option<u64> {
    let total = rustix::fs::fstatvfs(dir).map_or(u64::MAX, |fs| fs.f_blocks * fs.f_frsize);
    let size = (place.size.min(total / SHARE) / SEGMENTS as u64) / STEP * STEP;
    (size >= MIN_SEGMENT).then_some(size)
}

/// The identifier of a journal where there was none. The note of it is first: an identifier without a note would be that of another
/// directory.
fn begin(place: &Place) -> Result<u128, OpenError> {
    let id = random().map_err(place.failed("draw random bytes for"))?;
    note(place, id, 0, State::Clean)?;
    Ok(id)
}

/// Later than the generation of each segment that there was.
fn epoch(writer: &Writer) -> Result<u64, Error> {
    let version = writer.next_version(None)?;
    Ok(u64::try_from(version.nanos()).unwrap_or(0))
}

/// Notes which journal the directory has, and what is true of it.
fn note(place: &Place, id: u128, epoch: u64, state: State) -> Result<Note, OpenError> {
    let at = std::path::absolute(&place.at);
    let note = Note {
        id,
        epoch,
        at: at.map_err(|error| OpenError::io("name", &place.at, error))?,
        state,
    };
    place.write_note(&note)?;
    Ok(note)
}

/// The segments in `dir`, which hold nothing that counts; those of another size, or too many, are removed.
fn recycle(dir: &OwnedFd, size: u64) -> Result<Vec<Arc<Segment>>, Errno> {
    let mut free = Vec::new();
    for index in indices(dir)? {
        let segment = Segment::open(dir, index, OFlags::RDWR)?;
        if segment.size() == size && free.len() < SEGMENTS {
            free.push(Arc::new(segment));
        } else {
            segment.remove(dir)?;
        }
    }
    Ok(free)
}
