//! The journal as it is read: the frames that follow the settled ones, in their order, and whether one is missing.
//!
//! A frame that is not whole ends the log, as one that was being written when the power was cut: it was not acknowledged. Where a
//! later frame says that it was on the disk already, or a segment is not what the control file says, the log is damaged.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;

use super::control::{self, Position};
use super::format::{Head, Record};
use super::history::History;
use super::pool::Used;
use super::segment::Segment;

/// Why the journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Unreadable {
    /// The device failed.
    #[error("{0}")]
    Failed(#[from] Errno),
    /// Changes are missing that may have been acknowledged.
    #[error(
        "segment {segment} is damaged: the frame at byte {offset}, of change {sequence}, is missing or not whole, and {behind} changes lie behind it"
    )]
    Damaged {
        /// The name of the file.
        segment: u32,
        /// Where the frame is to be.
        offset: u64,
        /// The sequence number of the first change that is missing.
        sequence: u64,
        /// How many changes are in whole frames behind it.
        behind: u64,
    },
    /// Where the changes begin is not known.
    #[error("its file `control` is damaged, and there is no frame of the last server")]
    NoControl,
}

/// The segments that hold frames which are not settled, oldest first, and where those begin.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) journal: u128,
    pub(super) used: Vec<Used>,
    pub(super) from: Position,
    /// The sequence number of the first change that does not count: it is not made yet.
    pub(super) until: u64,
    /// Bytes that each segment is to have, where that is known.
    pub(super) size: Option<u64>,
}

impl Log {
    /// Opens the journal `id` in `dir`, as the run of a server left it that began with `epoch`.
    pub(super) fn open(
        dir: &OwnedFd,
        journal: u128,
        epoch: u64,
        control: Option<control::State>,
    ) -> Result<Self, Unreadable> {
        let Some(state) = control else {
            return Self::search(dir, journal, epoch);
        };
        let live = state.live.iter();
        let live = live.filter(|live| live.generation >= state.settled.generation);
        let open = |live: &control::Live| {
            let segment = Segment::open(dir, live.index, OFlags::RDONLY);
            let missing = |errno| match errno {
                Errno::NOENT => Unreadable::Damaged {
                    segment: live.index,
                    offset: 0,
                    sequence: live.first,
                    behind: 0,
                },
                errno => errno.into(),
            };
            Ok::<_, Unreadable>(Used {
                generation: live.generation,
                first: live.first,
                segment: Arc::new(segment.map_err(missing)?),
            })
        };
        Ok(Self {
            journal,
            used: live.map(open).collect::<Result<_, _>>()?,
            from: state.settled,
            until: u64::MAX,
            size: Some(state.size),
        })
    }

    /// As [`Self::open`], where the control file says nothing: by the frames alone. Each says up to where the log was settled when
    /// it was written, and what was freed is not above that.
    fn search(dir: &OwnedFd, journal: u128, epoch: u64) -> Result<Self, Unreadable> {
        let (mut used, mut frames) = (Vec::new(), Vec::new());
        for index in indices(dir)? {
            let segment = Arc::new(Segment::open(dir, index, OFlags::RDONLY)?);
            let found = segment.search(journal, 0)?;
            let generation = found.iter().map(|(_, head)| head.generation).max();
            let Some(generation) = generation.filter(|&of| of > epoch) else {
                continue;
            };
            let current = found
                .iter()
                .filter(|(_, head)| head.generation == generation);
            let first = current.clone().map(|(_, head)| head.first).min();
            frames.extend(current);
            used.push(Used {
                generation,
                first: first.unwrap_or(0),
                segment,
            });
        }
        used.sort_unstable_by_key(|used| used.generation);
        let settled = frames.iter().map(|(_, head)| head.settled).max();
        let settled = settled.ok_or(Unreadable::NoControl)?;
        let later = frames.iter().filter(|(_, head)| head.first >= settled);
        let first = later.min_by_key(|(_, head)| (head.generation, head.first));
        let (offset, head) = first.ok_or(Unreadable::NoControl)?;
        let from = Position {
            generation: head.generation,
            offset: *offset,
            sequence: settled,
        };
        used.retain(|used| used.generation >= from.generation);
        Ok(Self {
            journal,
            used,
            from,
            until: u64::MAX,
            size: None,
        })
    }

    /// Shows each record that counts, in order; answers where the next frame would begin. Frames that a later segment repeats were never
    /// acknowledged, and do not count.
    pub(super) fn each<E: From<Unreadable>>(
        &self,
        mut show: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<Position, E> {
        let mut at = self.from;
        let mut buffer = Vec::new();
        for (i, used) in self.used.iter().enumerate() {
            if used.generation != at.generation {
                at = Position {
                    generation: used.generation,
                    offset: 0,
                    sequence: at.sequence,
                };
            }
            let next = self.used.get(i + 1).map(|next| next.first);
            let end = next.unwrap_or(u64::MAX).min(self.until);
            while at.sequence < end {
                let read = used.segment.read(at.offset, &mut buffer);
                let Some((head, records)) = read.map_err(Unreadable::from)? else {
                    break;
                };
                if !self.continues(&head, at) {
                    break;
                }
                for record in records {
                    show(record)?;
                }
                at.sequence = head.end();
                at.offset += head.size() as u64;
            }
            if at.sequence < self.until {
                self.prove_end(i, at)?;
            }
            at.sequence = at.sequence.min(next.unwrap_or(u64::MAX));
        }
        Ok(at)
    }

    /// As [`Self::each`], where the log is damaged: shows each record of each whole frame, in order, and the sequence number before which
    /// something is missing, each time that it is. Answers where the next frame would begin.
    pub(super) fn each_readable<E: From<Unreadable>>(
        &self,
        mut show: impl FnMut(Record<'_>) -> Result<(), E>,
        mut missing: impl FnMut(u64, u64),
    ) -> Result<Position, E> {
        let (mut at, mut buffer) = (self.from, Vec::new());
        for (i, used) in self.used.iter().enumerate() {
            let from = if used.generation == self.from.generation {
                self.from.offset
            } else {
                0
            };
            let next = self.used.get(i + 1).map_or(u64::MAX, |next| next.first);
            let frames = used
                .segment
                .search(self.journal, from)
                .map_err(Unreadable::from)?;
            for (offset, head) in frames {
                let is_next = head.generation == used.generation && head.first >= at.sequence;
                if !is_next || head.first >= next {
                    continue;
                }
                if head.first > at.sequence {
                    missing(at.sequence, head.first);
                }
                let read = used
                    .segment
                    .read(offset, &mut buffer)
                    .map_err(Unreadable::from)?;
                for record in read.into_iter().flat_map(|(_, records)| records) {
                    show(record)?;
                }
                at = Position {
                    generation: used.generation,
                    offset: offset + head.size() as u64,
                    sequence: head.end(),
                };
            }
        }
        Ok(at)
    }

    /// What is said of each key, by records that count.
    pub(super) fn history(&self) -> Result<(History, Position, u64), Unreadable> {
        let (mut history, mut records) = (History::default(), 0);
        let end = self.each(|record| {
            records += 1;
            history.add(&record);
            Ok::<_, Unreadable>(())
        })?;
        Ok((history, end, records))
    }

    fn continues(&self, head: &Head, at: Position) -> bool {
        head.journal == self.journal
            && head.generation == at.generation
            && head.first == at.sequence
    }

    /// Fails where the log of segment `i` cannot end `at` this place.
    fn prove_end(&self, i: usize, at: Position) -> Result<(), Unreadable> {
        let used = &self.used[i];
        let lies_behind = self
            .used
            .get(i + 1)
            .is_some_and(|next| at.sequence < next.first);
        let is_known_to_go_on = self.until != u64::MAX && i + 1 == self.used.len();
        let is_cut = self.size.is_some_and(|size| used.segment.size() < size);
        let behind = used.segment.search(self.journal, at.offset)?;
        let behind = behind.iter().map(|(_, head)| head);
        let behind =
            behind.filter(|head| head.generation == used.generation && head.first > at.sequence);
        let was_synced = behind.clone().any(|head| head.synced > at.sequence);
        if !(lies_behind || is_known_to_go_on || is_cut || was_synced) {
            return Ok(());
        }
        Err(Unreadable::Damaged {
            segment: used.segment.index(),
            offset: at.offset,
            sequence: at.sequence,
            behind: behind.map(|head| u64::from(head.records)).sum(),
        })
    }
}

/// The names of the segments in `dir`.
pub(super) fn indices(dir: &OwnedFd) -> Result<Vec<u32>, Errno> {
    let mut indices = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_str().map(str::parse::<u32>);
        indices.extend(name.ok().and_then(Result::ok));
    }
    indices.sort_unstable();
    Ok(indices)
}
