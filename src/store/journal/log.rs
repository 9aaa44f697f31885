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
        // Its first frame was on the disk before the control file named it.
        let is_unopened = self.size.is_some() && at.offset == 0;
        let behind = used.segment.search(self.journal, at.offset)?;
        let behind = behind.iter().map(|(_, head)| head);
        let behind =
            behind.filter(|head| head.generation == used.generation && head.first > at.sequence);
        let was_synced = behind.clone().any(|head| head.synced > at.sequence);
        if !(lies_behind || is_known_to_go_on || is_cut || is_unopened || was_synced) {
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

/// When the last frame of `journal` was begun that is in `dir`, of whatever run; 0 where there is none.
pub(super) fn last_written(dir: &OwnedFd, journal: u128) -> Result<i64, Errno> {
    let mut last = 0;
    for index in indices(dir)? {
        let frames = Segment::open(dir, index, OFlags::RDONLY)?.search(journal, 0)?;
        last = frames
            .iter()
            .fold(last, |last, (_, head)| last.max(head.time));
    }
    Ok(last)
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

#[cfg(test)]
mod tests {
    use super::super::control::{Control, DirId, Live, State};
    use super::super::format::FrameBuilder;
    use super::*;
    use std::fs::File;
    use tempfile::TempDir;

    const JOURNAL: u128 = 7;
    const EPOCH: u64 = 5;
    const SIZE: u64 = 1 << 16;

    /// A frame: its generation, the sequence number of its one record, and up to where the log was synced.
    type Frame = (u64, u64, u64);

    struct Place {
        dir: TempDir,
        state: State,
    }

    impl Place {
        /// Settled before change 1, with these segments.
        fn new(segments: &[(u32, &[Frame])]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut live: Vec<_> = segments
                .iter()
                .map(|(index, frames)| {
                    write(&dir, *index, frames);
                    Live {
                        generation: frames[0].0,
                        index: *index,
                        first: frames[0].1,
                    }
                })
                .collect();
            live.sort_unstable_by_key(|live| live.generation);
            let state = State {
                epoch: EPOCH,
                dir: DirId::default(),
                time: 0,
                settled: Position::START,
                size: SIZE,
                is_suspect: false,
                live,
            };
            Self { dir, state }
        }

        fn fd(&self) -> OwnedFd {
            File::open(self.dir.path()).unwrap().into()
        }

        /// The sequence numbers of the records that count, by the control file or, where it is lost, by the frames.
        fn read(&self, is_lost: bool) -> Result<Vec<u64>, Unreadable> {
            let control = Control::open(&self.fd()).unwrap();
            control.write_durably(&self.state).unwrap();
            let state = Control::read(&self.fd()).unwrap().filter(|_| !is_lost);
            let log = Log::open(&self.fd(), JOURNAL, EPOCH, state)?;
            let mut found = Vec::new();
            log.each(|record| {
                if let Record::Change(change) = record {
                    found.push(change.sequence);
                }
                Ok::<_, Unreadable>(())
            })?;
            Ok(found)
        }
    }

    fn write(dir: &TempDir, index: u32, frames: &[Frame]) {
        let mut bytes = Vec::new();
        for &(generation, first, synced) in frames {
            let mut frame = FrameBuilder::new(0);
            frame.delete("k", None);
            let mut head = Head::new(JOURNAL, generation, first);
            (head.synced, head.settled) = (synced, 1);
            bytes.extend(frame.finish(head).unwrap());
        }
        bytes.resize(usize::try_from(SIZE).unwrap(), 0);
        std::fs::write(dir.path().join(index.to_string()), bytes).unwrap();
    }

    fn damaged(read: &Result<Vec<u64>, Unreadable>) -> Option<(u32, u64, u64)> {
        match *read {
            Err(Unreadable::Damaged {
                segment,
                sequence,
                behind,
                ..
            }) => Some((segment, sequence, behind)),
            _ => None,
        }
    }

    #[test]
    fn frames_count_in_their_order_over_segments() {
        let place = Place::new(&[
            (0, &[(20, 4, 4), (20, 5, 5)]),
            (1, &[(10, 1, 1), (10, 2, 2), (10, 3, 3)]),
        ]);
        for is_lost in [false, true] {
            assert_eq!(place.read(is_lost).unwrap(), [1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn what_a_recycled_segment_held_before_does_not_count() {
        // As after a frame that was given up and whose number was used again, in this segment a round before.
        let place = Place::new(&[(0, &[(20, 1, 1), (10, 2, 2), (10, 3, 3)])]);
        for is_lost in [false, true] {
            assert_eq!(place.read(is_lost).unwrap(), [1]);
        }
        let mut place = Place::new(&[(0, &[(10, 1, 1), (10, 2, 2)])]);
        place.state.settled.sequence = 3;
        place.state.settled.generation = 10;
        place.state.settled.offset = 8192;
        assert_eq!(place.read(false).unwrap(), [0; 0]);
    }

    #[test]
    fn frames_of_an_earlier_run_are_no_log_where_the_control_file_is_lost() {
        let place = Place::new(&[(0, &[(EPOCH - 1, 1, 1)])]);
        assert!(matches!(place.read(true), Err(Unreadable::NoControl)));
    }

    #[test]
    fn frames_that_the_next_segment_repeats_were_given_up() {
        let place = Place::new(&[
            (0, &[(10, 1, 1), (10, 2, 2), (10, 3, 2)]),
            (1, &[(20, 2, 2)]),
        ]);
        for is_lost in [false, true] {
            assert_eq!(place.read(is_lost).unwrap(), [1, 2]);
        }
    }

    #[test]
    fn a_frame_that_is_missing_is_a_torn_end_unless_a_later_one_says_that_it_was_synced() {
        for is_lost in [false, true] {
            let torn = Place::new(&[(0, &[(10, 1, 1), (10, 3, 2)])]);
            assert_eq!(torn.read(is_lost).unwrap(), [1]);
            let last = Place::new(&[(0, &[(10, 1, 1), (10, 3, 3), (10, 4, 4)])]);
            assert_eq!(damaged(&last.read(is_lost)), Some((0, 2, 2)));
            let between = Place::new(&[(0, &[(10, 1, 1)]), (1, &[(20, 3, 3)])]);
            assert_eq!(damaged(&between.read(is_lost)), Some((0, 2, 0)));
        }
        let first = Place::new(&[(0, &[(10, 1, 1), (10, 2, 2), (10, 3, 3)])]);
        let segment = first.dir.path().join("0");
        let mut bytes = std::fs::read(&segment).unwrap();
        bytes[90] ^= 1;
        std::fs::write(&segment, bytes).unwrap();
        assert_eq!(damaged(&first.read(false)), Some((0, 1, 2)));
    }

    #[test]
    fn a_segment_that_is_gone_or_cut_short_is_damage() {
        let place = Place::new(&[(0, &[(10, 1, 1), (10, 2, 2)])]);
        let segment = place.dir.path().join("0");
        File::options()
            .write(true)
            .open(&segment)
            .unwrap()
            .set_len(4096)
            .unwrap();
        assert_eq!(damaged(&place.read(false)), Some((0, 2, 0)));
        std::fs::remove_file(segment).unwrap();
        assert_eq!(damaged(&place.read(false)), Some((0, 1, 0)));
    }
}
