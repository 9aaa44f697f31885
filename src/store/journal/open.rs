//! How a server begins to write to it: its segments, its lock, its threads.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::super::directory_fd::open_beneath;
use super::super::layout::OpenError;
use super::super::random::random;
use super::super::writer::{Durability, Writer};
use super::append::Journal;
use super::checkpoint::Checkpoint;
use super::control::{Control, Position};
use super::log::Log;
use super::note::{Mount, Note, State};
use super::place::{ID, Place, failed, open_dir, read_id};
use super::recover::Recovered;
use super::segment::Segment;
use super::shared::Shared;
use super::syncer::Syncer;

/// Segments: one is filled while another is settled, and two are for when that takes long.
const SEGMENTS: u64 = 4;

/// A group fits in a segment of this size with room to spare, in bytes.
const MIN_SEGMENT: u64 = 4 << 20;

impl Journal {
    /// Begins to journal, where the directory is in order, after what was `recovered`; `None` where there is no room.
    pub(in crate::store) fn start(
        place: &Place,
        recovered: Option<Recovered>,
        writer: &Arc<Writer>,
    ) -> Result<Option<Self>, OpenError> {
        let failed = |doing| failed(doing, &place.at);
        std::fs::create_dir_all(&place.at)
            .map_err(|error| OpenError::io("create", &place.at, error))?;
        let dir = open_dir(&place.at)?;
        let Some(size) = segment_size(place, &dir) else {
            tracing::warn!("no journal: its file system is too small for one");
            return Ok(None);
        };
        let recovered = match recovered {
            Some(recovered) => recovered,
            None => begin(place)?,
        };
        claim(place, &dir, recovered.id)?;
        let mut free = recycle(&dir, recovered, size).map_err(failed("open"))?;
        if free.is_empty() {
            match Segment::create(&dir, 0, size) {
                Ok(segment) => free.push(Arc::new(segment)),
                Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                    tracing::warn!(error = %errno, "no journal: there is no room for one");
                    return Ok(None);
                }
                Err(errno) => return Err(failed("make a segment in")(errno)),
            }
        }
        let control = Control::open(&dir).map_err(failed("open"))?;
        control.write(recovered.from).map_err(failed("write"))?;
        let root = writer.dir().root();
        let note = note(place, recovered.id, State::Open(Mount::of(root)))?;
        let most = usize::try_from(SEGMENTS).unwrap_or(usize::MAX);
        let shared = Arc::new(Shared::new(free, most, recovered.from));
        let dir = Arc::new(dir);
        let checkpoint = Checkpoint {
            journal: recovered.id,
            dir: Arc::clone(&dir),
            control,
            segment_size: size,
            shared: Arc::clone(&shared),
            writer: Arc::clone(writer),
        };
        let threads = |error| OpenError::io("start threads for", &place.at, error);
        let thread = std::thread::Builder::new().name("disk-checkpoint".into());
        let checkpoint = thread.spawn(move || checkpoint.run()).map_err(threads)?;
        let sync = {
            let writer = Arc::clone(writer);
            move |segment: &Segment| writer.timed(|| segment.sync())
        };
        let syncer = match writer.durability() {
            Durability::Second => Syncer::each_second(sync),
            Durability::Os | Durability::Disk => Syncer::each(sync),
        };
        let (syncer, reports) = syncer.map_err(threads)?;
        writer.set_journaled();
        Ok(Some(Self {
            id: recovered.id,
            writer: Arc::clone(writer),
            names: Arc::default(),
            shared,
            syncer,
            reports,
            checkpoint,
            at: recovered.from,
            segment: None,
            synced: recovered.from,
            reserve: 0,
            own: place.own.clone(),
            note,
            _dir: dir,
        }))
    }
}

/// How large a segment is to be, on a file system of which the journal takes a small part; `None` where that is too small.
fn segment_size(place: &Place, dir: &OwnedFd) -> Option<u64> {
    let total = rustix::fs::fstatvfs(dir).map_or(u64::MAX, |fs| fs.f_blocks * fs.f_frsize);
    let size = (place.size.min(total / SHARE) / SEGMENTS) / STEP * STEP;
    (size >= MIN_SEGMENT).then_some(size)
}

/// The journal takes at most one part in so many of its file system.
const SHARE: u64 = 8;

/// What segments are a multiple of, in bytes.
const STEP: u64 = 1 << 20;

/// A journal where there was none. The note of it is first: an identifier without a note would be that of another directory.
fn begin(place: &Place) -> Result<Recovered, OpenError> {
    let id = random().map_err(failed("draw random bytes for", &place.at))?;
    note(place, id, State::Clean)?;
    let from = Position {
        generation: 0,
        offset: 0,
        number: 1,
    };
    Ok(Recovered { id, from })
}

/// Notes which journal the directory has, and what is true of it.
fn note(place: &Place, id: u128, state: State) -> Result<Note, OpenError> {
    let at = std::path::absolute(&place.at);
    let note = Note {
        id,
        at: at.map_err(|error| OpenError::io("name", &place.at, error))?,
        state,
    };
    let written = note.write(&place.own);
    written.map_err(|error| OpenError::io("note the journal of", &place.own, error))?;
    Ok(note)
}

/// Locks the journal in `dir` for this server, and makes it `id`. That of another directory is left alone.
fn claim(place: &Place, dir: &OwnedFd, id: u128) -> Result<(), OpenError> {
    match rustix::fs::flock(dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(_) => {
            return Err(OpenError::ForeignJournal {
                at: place.at.clone(),
            });
        }
    }
    match read_id(dir) {
        Some(there) if there == id => return Ok(()),
        Some(_) => {
            return Err(OpenError::ForeignJournal {
                at: place.at.clone(),
            });
        }
        None => {}
    }
    let write = || {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = open_beneath(dir, ID, flags, Mode::from(0o600))?;
        rustix::io::write(&file, format!("{id:032x}").as_bytes())?;
        rustix::fs::fsync(&file)?;
        rustix::fs::fsync(dir)
    };
    write().map_err(failed("make", &place.at))?;
    // One elsewhere was made with its name synced, before this process gave up the right to look there.
    if place.at.starts_with(&place.own) {
        let synced = std::fs::File::open(&place.own).and_then(|own| own.sync_all());
        synced.map_err(|error| OpenError::io("sync", &place.own, error))?;
    }
    Ok(())
}

/// The segments in `dir`, which hold nothing that counts; those of another size are removed.
fn recycle(dir: &OwnedFd, of: Recovered, size: u64) -> Result<Vec<Arc<Segment>>, Errno> {
    let log = Log::open(dir, of.id, OFlags::RDWR)?;
    // Where it is not known up to where the journal was settled, old frames must not be taken for new ones.
    let old = |generation| generation <= of.from.generation;
    let used = log
        .used
        .into_iter()
        .map(|used| (old(used.generation), used.segment));
    let spare = log
        .spare
        .into_iter()
        .map(|segment| (true, Arc::new(segment)));
    let mut free = Vec::new();
    for (is_settled, segment) in used.chain(spare) {
        if is_settled && segment.size() == size && (free.len() as u64) < SEGMENTS {
            free.push(segment);
        } else {
            segment.remove(dir)?;
        }
    }
    Ok(free)
}
