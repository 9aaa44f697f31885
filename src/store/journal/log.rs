//! The journal as it is read: the whole frames that are not settled, in their order, and what is missing between them.
//!
//! A frame that is not whole ends the log, as one that was being written when the power was cut: it was not acknowledged. Where a
//! later frame says that it was on the disk already, or a segment is not what the control file says, the log is damaged. What lies
//! behind the damage is read all the same: the caller decides whether it counts.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::error::Error;
use super::control::{self, Live};
use super::format::{Head, Record};
use super::segment::{Segment, indices};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) frames: Vec<Frame>,
    /// Changes that are missing, by their sequence numbers.
    pub(super) gaps: Vec<Range<u64>>,
    /// Where something is missing first that may have been acknowledged, in words.
    pub(super) damage: Option<String>,
}

/// A frame that was whole when it was found.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: u64,
    pub(super) head: Head,
    /// Something is missing before it.
    pub(super) is_behind: bool,
}

/// A segment, if there is such a file.
pub(super) type Part = (Live, Option<Arc<Segment>>);

impl Frame {
    /// Its records.
    pub(super) fn read(&self) -> Result<Vec<Record>, Error> {
        let read = self.segment.read(self.offset);
        read.and_then(|read| Ok(read.ok_or(Errno::IO)?.1))
            .map_err(Error::errno_while("read the journal"))
    }
}

impl Log {
    /// The journal in `dir` as the run of a server left it that began with `epoch`.
    pub(super) fn open(
        dir: &OwnedFd,
        journal: u128,
        epoch: u64,
        control: Option<&control::State>,
    ) -> Result<Self, Errno> {
        let Some(control) = control else {
            return Self::search(dir, journal, epoch);
        };
        let open = |live: &Live| match Segment::open(dir, live.index, OFlags::RDONLY) {
            Err(Errno::NOENT) => Ok((*live, None)),
            segment => Ok((*live, Some(Arc::new(segment?)))),
        };
        let parts: Result<Vec<_>, Errno> = control.live.iter().map(open).collect();
        let all = control.settled..u64::MAX;
        Self::read(journal, &parts?, all, Some(control.size))
    }

    /// As [`Self::open`], where the control file says nothing: by the frames alone. Each says up to where the log was settled when
    /// it was written, and what was freed is not above that.
    fn search(dir: &OwnedFd, journal: u128, epoch: u64) -> Result<Self, Errno> {
        let (mut parts, mut settled) = (Vec::new(), None);
        for index in indices(dir)? {
            let segment = Arc::new(Segment::open(dir, index, OFlags::RDONLY)?);
            let mut frames = segment.frames(journal)?;
            let generation = frames.iter().map(|(_, head)| head.generation).max();
            let Some(generation) = generation.filter(|&of| of > epoch) else {
                continue;
            };
            frames.retain(|(_, head)| head.generation == generation);
            settled = settled.max(frames.iter().map(|(_, head)| head.settled).max());
            let first = frames.iter().map(|(_, head)| head.first).min();
            let live = Live {
                generation,
                index,
                first: first.unwrap_or(0),
            };
            parts.push((live, Some(segment)));
        }
        parts.sort_unstable_by_key(|(live, _)| live.generation);
        match settled {
            Some(settled) => Self::read(journal, &parts, settled..u64::MAX, None),
            None => Ok(Self {
                damage: Some("its file `control` is damaged, or of another version, and there is no frame of the last server".to_owned()),
                ..Self::default()
            }),
        }
    }

    /// Reads these changes, of which the last one is `u64::MAX` where it is not known, from all `parts`, oldest first. Where `size` is
    /// known each has so many bytes, and its first frame was on the disk.
    pub(super) fn read(
        journal: u128,
        parts: &[Part],
        changes: Range<u64>,
        size: Option<u64>,
    ) -> Result<Self, Errno> {
        let (mut log, mut at) = (Self::default(), changes.start);
        for (i, (live, segment)) in parts.iter().enumerate() {
            let next = parts.get(i + 1).map(|(next, _)| next.first);
            let end = next.unwrap_or(u64::MAX).min(changes.end);
            if at < end {
                at = log.add(journal, live, segment.as_ref(), at..end, size)?;
            }
        }
        if let Some(damage) = &mut log.damage {
            let behind = log.frames.iter().filter(|frame| frame.is_behind);
            let behind: u32 = behind.map(|frame| frame.head.records).sum();
            *damage = format!("{damage}, and {behind} changes lie behind it");
        }
        Ok(log)
    }

    /// Adds what one segment has of these `changes`; where the next one goes on.
    fn add(
        &mut self,
        journal: u128,
        live: &Live,
        segment: Option<&Arc<Segment>>,
        changes: Range<u64>,
        size: Option<u64>,
    ) -> Result<u64, Errno> {
        let mut frames = segment.map_or(Ok(Vec::new()), |segment| segment.frames(journal))?;
        frames.retain(|(_, head)| head.generation == live.generation && head.first < changes.end);
        // All before it was on the disk: the last segment may have a torn end behind it.
        let synced = match changes.end {
            u64::MAX => frames.iter().map(|(_, head)| head.synced).max(),
            end => Some(end),
        };
        let synced = synced.unwrap_or(0);
        let (mut at, mut offset) = (changes.start, 0);
        let is_opened = frames.first().is_some_and(|(offset, _)| *offset == 0);
        if size.is_some() && live.first >= at && !is_opened {
            self.miss(live, offset, at..at);
        }
        for (begin, head) in frames {
            if head.first > at && at >= synced {
                break;
            }
            if head.first > at {
                self.miss(live, offset, at..head.first);
            }
            offset = begin + head.size() as u64;
            if let (Some(segment), true) = (segment, head.first >= at) {
                self.frames.push(Frame {
                    segment: Arc::clone(segment),
                    offset: begin,
                    head,
                    is_behind: self.damage.is_some(),
                });
                at = head.end();
            }
        }
        let is_cut = size > Some(segment.map_or(0, |segment| segment.size()));
        if is_cut || at < synced {
            self.miss(live, offset, at..at.max(synced));
        }
        Ok(at.max(synced))
    }

    /// These changes are missing, or it is not known which, in a frame at `offset`.
    fn miss(&mut self, live: &Live, offset: u64, changes: Range<u64>) {
        let (index, first) = (live.index, changes.start);
        self.damage.get_or_insert_with(|| {
            format!("segment {index} is damaged: the frame at byte {offset}, of change {first}, is missing or not whole")
        });
        if !changes.is_empty() {
            self.gaps.push(changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::key::Key;
    use super::super::control::{Control, DirId, Live, State};
    use super::super::format::FrameBuilder;
    use super::*;
    use std::fs::File;
    use tempfile::TempDir;

    const JOURNAL: u128 = 7;
    const EPOCH: u64 = 5;
    const SIZE: u64 = 1 << 16;

    /// A frame: its generation, the sequence number of its one record, and up to where the log was synced.
    type Written = (u64, u64, u64);

    struct Place {
        dir: TempDir,
        state: State,
    }

    impl Place {
        /// Settled before change 1, with these segments.
        fn new(segments: &[(u32, &[Written])]) -> Self {
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
                settled: 1,
                size: SIZE,
                is_suspect: false,
                live,
            };
            Self { dir, state }
        }

        fn fd(&self) -> OwnedFd {
            File::open(self.dir.path()).unwrap().into()
        }

        /// The sequence numbers of the records that count, by the control file or, where it is lost, by the frames; what is damaged.
        fn read(&self, is_lost: bool) -> Result<Vec<u64>, String> {
            let control = Control::open(&self.fd()).unwrap();
            control.write_durably(&self.state).unwrap();
            let state = Control::read(&self.fd()).unwrap().filter(|_| !is_lost);
            let log = Log::open(&self.fd(), JOURNAL, EPOCH, state.as_ref()).unwrap();
            let records = log.frames.iter().flat_map(|frame| frame.read().unwrap());
            let sequence = |record| match record {
                Record::Change(change) => change.sequence,
                Record::Cancel(sequence) => sequence,
            };
            let sequences = records.map(sequence).collect();
            log.damage.map_or(Ok(sequences), Err)
        }
    }

    fn write(dir: &TempDir, index: u32, frames: &[Written]) {
        let mut bytes = Vec::new();
        for &(generation, first, synced) in frames {
            let mut frame = FrameBuilder::new(0);
            frame.change(&Key::new("k").unwrap(), None, None, None);
            let mut head = Head::new(JOURNAL, generation, first);
            (head.synced, head.settled) = (synced, 1);
            bytes.extend(frame.finish(head).unwrap());
        }
        bytes.resize(usize::try_from(SIZE).unwrap(), 0);
        std::fs::write(dir.path().join(index.to_string()), bytes).unwrap();
    }

    /// Whether it is the segment that is damaged, before this change, and so many changes lie behind it.
    #[track_caller]
    fn assert_damaged(read: Result<Vec<u64>, String>, segment: u32, change: u64, behind: u32) {
        let said = read.unwrap_err();
        for part in [
            format!("segment {segment} is damaged"),
            format!("of change {change},"),
            format!("{behind} changes lie behind it"),
        ] {
            assert!(said.contains(&part), "{part}: {said}");
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
        place.state.settled = 3;
        assert_eq!(place.read(false).unwrap(), [0; 0]);
    }

    #[test]
    fn frames_of_an_earlier_run_are_no_log_where_the_control_file_is_lost() {
        let place = Place::new(&[(0, &[(EPOCH - 1, 1, 1)])]);
        assert!(place.read(true).unwrap_err().contains("`control`"));
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
            assert_damaged(last.read(is_lost), 0, 2, 2);
            let between = Place::new(&[(0, &[(10, 1, 1)]), (1, &[(20, 3, 3)])]);
            assert_damaged(between.read(is_lost), 0, 2, 1);
        }
        let first = Place::new(&[(0, &[(10, 1, 1), (10, 2, 2), (10, 3, 3)])]);
        let segment = first.dir.path().join("0");
        let mut bytes = std::fs::read(&segment).unwrap();
        bytes[90] ^= 1;
        std::fs::write(&segment, bytes).unwrap();
        assert_damaged(first.read(false), 0, 1, 2);
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
        assert_damaged(place.read(false), 0, 2, 0);
        std::fs::remove_file(segment).unwrap();
        assert_damaged(place.read(false), 0, 1, 0);
    }
}
