//! The journal as it is read: the frames that follow the settled ones, in their order, up to the first that is not whole.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;

use super::control::{Control, Position};
use super::frame::Record;
use super::segment::Segment;

/// Why the journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Unreadable {
    /// The device failed.
    #[error("{0}")]
    Failed(#[from] Errno),
    /// Frames are missing in the middle, whose changes may have been acknowledged.
    #[error(
        "segment {segment} is damaged: frame {number} is missing or not whole, and later ones are there"
    )]
    Damaged {
        /// The name of the file.
        segment: u32,
        /// The first that is missing.
        number: u64,
    },
}

/// A segment with frames.
#[derive(Clone, Debug)]
pub(super) struct Used {
    pub(super) generation: u64,
    /// The number of its first frame.
    pub(super) first: u64,
    pub(super) segment: Arc<Segment>,
}

/// The segments that hold frames which are not settled, oldest first, and where those begin.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) journal: u128,
    pub(super) used: Vec<Used>,
    pub(super) from: Position,
    /// The number of the first frame that does not count: its changes are not published yet.
    pub(super) until: u64,
    /// Segments without any of them.
    pub(super) spare: Vec<Segment>,
}

impl Log {
    /// Opens the journal in `dir`, which is `journal` if it is ours at all.
    pub(super) fn open(dir: &OwnedFd, journal: u128, flags: OFlags) -> Result<Self, Errno> {
        let settled = Control::read(dir)?;
        let mut used = Vec::new();
        let mut spare = Vec::new();
        let mut buffer = Vec::new();
        for index in indices(dir)? {
            let segment = Segment::open(dir, index, flags)?;
            let first = segment.read(0, &mut buffer)?.map(|(head, _)| head.id);
            match first.filter(|id| id.journal == journal) {
                Some(id) if settled.is_none_or(|at| at.generation <= id.generation) => {
                    used.push(Used {
                        generation: id.generation,
                        first: id.number,
                        segment: Arc::new(segment),
                    });
                }
                _ => spare.push(segment),
            }
        }
        used.sort_unstable_by_key(|used| used.generation);
        let first = used.first().map(|used| Position {
            generation: used.generation,
            offset: 0,
            number: used.first,
        });
        let nothing = Position {
            generation: 0,
            offset: 0,
            number: 0,
        };
        let from = settled.or(first).unwrap_or(nothing);
        Ok(Self {
            journal,
            used,
            from,
            until: u64::MAX,
            spare,
        })
    }

    /// Shows each record, in order, with the number of its frame; answers where the next frame would begin. A frame that is not
    /// whole ends it: the last one may be torn. Those that a later segment repeats were never acknowledged, and do not count.
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
                    number: at.number,
                };
            }
            let next = self.used.get(i + 1).map(|next| next.first);
            let end = next.unwrap_or(u64::MAX).min(self.until);
            while at.number < end {
                let read = used.segment.read(at.offset, &mut buffer);
                let Some((head, records)) = read.map_err(Unreadable::from)? else {
                    break;
                };
                let is_next = head.id.journal == self.journal
                    && head.id.generation == used.generation
                    && head.id.number == at.number;
                if !is_next {
                    break;
                }
                for record in records {
                    show(record)?;
                }
                at.number += 1;
                at.offset += head.size() as u64;
            }
            if next == Some(end) && at.number != end {
                let damaged = Unreadable::Damaged {
                    segment: used.segment.index(),
                    number: at.number,
                };
                return Err(damaged.into());
            }
        }
        Ok(at)
    }
}

/// The names of the segments in `dir`.
fn indices(dir: &OwnedFd) -> Result<Vec<u32>, Errno> {
    let mut indices = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_str().map(str::parse::<u32>);
        indices.extend(name.ok().and_then(Result::ok));
    }
    indices.sort_unstable();
    Ok(indices)
}
