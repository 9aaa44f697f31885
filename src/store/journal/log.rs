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

    /// Shows each record that counts, in order; answers where the next frame would begin. A frame that is not
    /// whole ends it: the last one may be torn. Those that a later segment repeats were never acknowledged, and do not count.
    pub(super) fn each<E: From<Unreadable>>(
        &self,
        show: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<Position, E> {
        self.each_before(self.until, show)
    }

    /// Shows also the records of frames that do not count yet: they may cancel what does.
    pub(super) fn each_to_the_end<E: From<Unreadable>>(
        &self,
        show: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<Position, E> {
        self.each_before(u64::MAX, show)
    }

    fn each_before<E: From<Unreadable>>(
        &self,
        until: u64,
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
            let end = next.unwrap_or(u64::MAX).min(until);
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

#[cfg(test)]
mod tests {
    use super::super::super::meta::Version;
    use super::super::frame::{FrameBuilder, FrameId, Mark};
    use super::*;
    use std::fs::File;
    use tempfile::TempDir;

    const JOURNAL: u128 = 7;

    struct Place {
        dir: TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { dir }
        }

        fn fd(&self) -> OwnedFd {
            File::open(self.dir.path()).unwrap().into()
        }

        /// A segment with frames of one block: the generation and the number of each, which is also the version in it.
        fn segment(&self, index: u32, frames: &[(u64, u64)]) {
            let mut bytes = Vec::new();
            for &(generation, number) in frames {
                let mut frame = FrameBuilder::new();
                frame.mark(Mark::Deleted, "k", Version::from_nanos(number.into()));
                let journal = JOURNAL;
                bytes.extend(frame.finish(FrameId {
                    journal,
                    generation,
                    number,
                }));
            }
            bytes.resize(1 << 16, 0);
            std::fs::write(self.dir.path().join(index.to_string()), bytes).unwrap();
        }

        fn settle(&self, generation: u64, number: u64) {
            let control = Control::open(&self.fd()).unwrap();
            let settled = Position {
                generation,
                offset: 0,
                number,
            };
            control.write(settled).unwrap();
        }

        /// The versions of the records that count.
        fn read(&self) -> Result<Vec<i128>, Unreadable> {
            let log = Log::open(&self.fd(), JOURNAL, OFlags::RDONLY)?;
            let mut versions = Vec::new();
            log.each(|record| {
                versions.push(record.version.nanos());
                Ok::<_, Unreadable>(())
            })?;
            Ok(versions)
        }
    }

    #[test]
    fn frames_count_in_their_order_over_segments() {
        let place = Place::new();
        place.segment(0, &[(20, 4), (20, 5)]);
        place.segment(1, &[(10, 1), (10, 2), (10, 3)]);
        place.segment(2, &[]);
        assert_eq!(place.read().unwrap(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_a_recycled_segment_held_before_does_not_count() {
        let place = Place::new();
        place.settle(20, 1);
        // As after a frame that was given up and whose number was used again, in this segment a round before.
        place.segment(0, &[(20, 1), (10, 2), (10, 3)]);
        assert_eq!(place.read().unwrap(), [1]);
        place.segment(0, &[(10, 1), (10, 2)]);
        assert_eq!(place.read().unwrap(), [0; 0]);
    }

    #[test]
    fn frames_that_the_next_segment_repeats_were_given_up() {
        let place = Place::new();
        place.segment(0, &[(10, 1), (10, 2), (10, 3)]);
        place.segment(1, &[(20, 2)]);
        assert_eq!(place.read().unwrap(), [1, 2]);
    }

    #[test]
    fn a_frame_that_is_missing_in_the_middle_is_damage_and_at_the_end_is_none() {
        let place = Place::new();
        place.segment(0, &[(10, 1), (10, 2)]);
        place.segment(1, &[(20, 4), (20, 6)]);
        let damaged = place.read().unwrap_err();
        let is_third = matches!(
            damaged,
            Unreadable::Damaged {
                segment: 0,
                number: 3
            }
        );
        assert!(is_third, "{damaged}");
        place.segment(1, &[(20, 3), (20, 5)]);
        assert_eq!(place.read().unwrap(), [1, 2, 3]);
    }
}
