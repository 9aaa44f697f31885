//! The journal at the start of a server: which one the directory has, whether it is to be replayed, and a new beginning.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::super::directory_fd::open_beneath;
use super::super::layout::OpenError;
use super::super::random::random;
use super::super::writer::{Durability, Writer};
use super::Journal;
use super::checkpoint::Checkpoint;
use super::control::{Control, Position};
use super::log::{Log, Unreadable};
use super::note::{Mount, Note, State};
use super::replay::{Replay, Trust};
use super::segment::Segment;
use super::shared::Shared;
use super::syncer::Syncer;

/// The file that says which journal it is.
const ID: &str = "id";

/// Segments: one is filled while another is settled, and two are for when that takes long.
const SEGMENTS: u64 = 4;

/// A group fits in a segment of this size with room to spare, in bytes.
const MIN_SEGMENT: u64 = 4 << 20;

/// Where the journal of a directory lies, and how large it is.
#[derive(Clone, Debug)]
pub(in crate::store) struct Place {
    /// The server's directory beside the values.
    pub(in crate::store) own: PathBuf,
    /// The directory of the journal.
    pub(in crate::store) at: PathBuf,
    /// All segments together, in bytes.
    pub(in crate::store) size: u64,
}

/// Where a journal goes on.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Recovered {
    id: u128,
    from: Position,
}

/// Makes in the files what they lack of what was acknowledged, if a server was not ended in order; what is then true is noted.
/// `None` where there never was a journal.
pub(in crate::store) fn recover(
    place: &Place,
    writer: &Writer,
) -> Result<Option<Recovered>, OpenError> {
    let Some(note) = read_note(place)? else {
        return Ok(None);
    };
    let State::Open(mount) = &note.state else {
        return Ok(Some(clean(place, &note)));
    };
    let dir = open_noted(place, &note)?;
    let failed = failed("replay", &place.at);
    let log = Log::open(&dir, note.id, OFlags::RDONLY).map_err(failed)?;
    let root = writer.dir().root();
    let is_same = mount.is_some() && *mount == Mount::of(root);
    if !is_same {
        // They hold nothing that counts, and the values to come need the room.
        for segment in &log.spare {
            segment.remove(&dir).map_err(failed)?;
        }
    }
    let end = if is_same && rustix::fs::syncfs(root).is_ok() {
        log.each(|_| Ok::<_, Unreadable>(()))
    } else {
        let trust = if is_same {
            Trust::Nothing
        } else {
            Trust::Files
        };
        replay(&log, writer, trust).map_err(|error| unreplayed(place, error))?;
        rustix::fs::syncfs(root).map_err(failed)?;
        log.each(|_| Ok::<_, Unreadable>(()))
    };
    let from = end.map_err(|error| unreplayed(place, error))?;
    let control = Control::open(&dir).and_then(|control| control.write(from));
    control.map_err(failed)?;
    let clean = Note {
        state: State::Clean,
        ..note
    };
    let noted = clean.write(&place.own);
    noted.map_err(|error| OpenError::io("note the journal of", &place.own, error))?;
    Ok(Some(Recovered { id: clean.id, from }))
}

/// Whether the files lack what the journal has, as far as a server that only reads can tell.
pub(in crate::store) fn needs_replay(place: &Place, root: &OwnedFd) -> Result<bool, OpenError> {
    let Some(note) = read_note(place)? else {
        return Ok(false);
    };
    let State::Open(mount) = &note.state else {
        return Ok(false);
    };
    if mount.is_some() && *mount == Mount::of(root) {
        return Ok(false);
    }
    let dir = open_noted(place, &note)?;
    let log = Log::open(&dir, note.id, OFlags::RDONLY).map_err(failed("read", &place.at))?;
    let mut records = 0_u64;
    let end = log.each(|_| {
        records += 1;
        Ok::<_, Unreadable>(())
    });
    Ok(end.is_err() || records > 0)
}

impl Journal {
    /// Begins to journal, where the directory is in order, after what was `recovered`.
    pub(in crate::store) fn start(
        place: &Place,
        recovered: Option<Recovered>,
        writer: Arc<Writer>,
    ) -> Result<Self, OpenError> {
        let failed = |doing| failed(doing, &place.at);
        std::fs::create_dir_all(&place.at)
            .map_err(|error| OpenError::io("create", &place.at, error))?;
        let dir = open_dir(&place.at)?;
        let recovered = match recovered {
            Some(recovered) => recovered,
            None => Recovered {
                id: random().map_err(failed("draw random bytes for"))?,
                from: Position {
                    generation: 0,
                    offset: 0,
                    number: 1,
                },
            },
        };
        claim(place, &dir, recovered.id)?;
        let size = (place.size / SEGMENTS).max(MIN_SEGMENT) / STEP * STEP;
        let free = recycle(&dir, recovered, size).map_err(failed("open"))?;
        let control = Control::open(&dir).map_err(failed("open"))?;
        control.write(recovered.from).map_err(failed("write"))?;
        let root = writer.dir().root();
        let note = Note {
            id: recovered.id,
            at: std::path::absolute(&place.at)
                .map_err(|error| OpenError::io("name", &place.at, error))?,
            state: State::Open(Mount::of(root)),
        };
        note.write(&place.own)
            .map_err(|error| OpenError::io("note the journal of", &place.own, error))?;
        let most = usize::try_from(SEGMENTS).unwrap_or(usize::MAX);
        let shared = Arc::new(Shared::new(free, most, recovered.from));
        let dir = Arc::new(dir);
        let checkpoint = Checkpoint {
            journal: recovered.id,
            dir: Arc::clone(&dir),
            control,
            segment_size: size,
            shared: Arc::clone(&shared),
            writer: Arc::clone(&writer),
        };
        let threads = |error| OpenError::io("start threads for", &place.at, error);
        let thread = std::thread::Builder::new().name("disk-checkpoint".into());
        let checkpoint = thread.spawn(move || checkpoint.run()).map_err(threads)?;
        let sync = {
            let writer = Arc::clone(&writer);
            move |segment: &Segment| writer.timed(|| segment.sync())
        };
        let syncer = match writer.durability() {
            Durability::Second => Syncer::each_second(sync),
            Durability::Os | Durability::Disk => Syncer::each(sync),
        };
        Ok(Self {
            id: recovered.id,
            writer,
            names: Arc::default(),
            shared,
            syncer: syncer.map_err(threads)?,
            checkpoint,
            at: recovered.from,
            segment: None,
            pending: 0,
            own: place.own.clone(),
            note,
            _dir: dir,
        })
    }
}

/// What segments are a multiple of, in bytes.
const STEP: u64 = 1 << 20;

/// A journal that was ended in order. If it has been removed since, it begins anew.
fn clean(place: &Place, note: &Note) -> Recovered {
    let nothing = Position {
        generation: 0,
        offset: 0,
        number: 1,
    };
    let settled = open_dir(&place.at).ok();
    let settled = settled.and_then(|dir| Control::read(&dir).ok().flatten());
    Recovered {
        id: note.id,
        from: settled.unwrap_or(nothing),
    }
}

fn replay(log: &Log, writer: &Writer, trust: Trust) -> Result<(), super::replay::ReplayError> {
    let began = std::time::Instant::now();
    let replayed = Replay::new(writer, trust).run(log)?;
    writer.counters().journal.replayed.add(replayed.records);
    tracing::info!(
        records = replayed.records,
        written = replayed.written,
        removed = replayed.removed,
        changed_by_hand = replayed.by_hand,
        milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "replayed the journal: a server was not ended in order"
    );
    Ok(())
}

fn read_note(place: &Place) -> Result<Option<Note>, OpenError> {
    Note::read(&place.own)
        .map_err(|error| OpenError::io("read the journal's state in", &place.own, error))
}

/// The directory of the journal that the note is of.
fn open_noted(place: &Place, note: &Note) -> Result<OwnedFd, OpenError> {
    let missing = || OpenError::NoJournal {
        at: place.at.clone(),
        noted: note.at.clone(),
    };
    let dir = open_dir(&place.at).map_err(|_| missing())?;
    match read_id(&dir) {
        Some(id) if id == note.id => Ok(dir),
        _ => Err(missing()),
    }
}

fn open_dir(at: &Path) -> Result<OwnedFd, OpenError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(at, flags, Mode::empty()).map_err(failed("open", at))
}

fn read_id(dir: &OwnedFd) -> Option<u128> {
    let file = open_beneath(dir, ID, OFlags::RDONLY, Mode::empty()).ok()?;
    let mut text = [0; 32];
    let n = rustix::io::pread(&file, &mut text, 0).ok()?;
    u128::from_str_radix(std::str::from_utf8(&text[..n]).ok()?, 16).ok()
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
    // Its own name, and those above it that were made with it.
    let parents = place.at.ancestors().skip(1).take(2);
    for parent in parents.filter(|parent| !parent.as_os_str().is_empty()) {
        let synced = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(|error| OpenError::io("sync", parent, error))?;
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

fn unreplayed(place: &Place, error: impl Into<super::replay::ReplayError>) -> OpenError {
    OpenError::Unreplayed {
        at: place.at.clone(),
        why: error.into().to_string(),
    }
}

fn failed(doing: &'static str, path: &Path) -> impl Fn(Errno) -> OpenError + Copy {
    let path: &Path = path;
    move |errno| OpenError::io(doing, path, errno.into())
}
