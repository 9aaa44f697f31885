//! What a start makes of the journal that it finds: nothing where a server was ended in order, and a replay where the files may lack
//! what was acknowledged.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;

use super::super::layout::OpenError;
use super::super::writer::Writer;
use super::control::{Control, Position};
use super::log::{Log, Unreadable};
use super::note::{Mount, Note, State};
use super::place::{Place, failed, open_dir, read_id};
use super::replay::{Replay, ReplayError, Trust};

/// Where a journal goes on.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Recovered {
    pub(super) id: u128,
    pub(super) from: Position,
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

fn replay(log: &Log, writer: &Writer, trust: Trust) -> Result<(), ReplayError> {
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

fn unreplayed(place: &Place, error: impl Into<ReplayError>) -> OpenError {
    OpenError::Unreplayed {
        at: place.at.clone(),
        why: error.into().to_string(),
    }
}
