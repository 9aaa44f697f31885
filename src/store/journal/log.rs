//! The log of a journal, as its segments have it: the whole frames that are not settled, in their order, what is
//! missing between them, and for each key which of its changes counts.
//!
//! A frame that is not whole ends the log, as one that was being written when the power was cut: it was not
//! acknowledged. Where a later frame says that it was on the disk already, or a segment is not what the control file
//! says, the log is damaged. The frames behind the damage are read all the same: the caller decides whether they count.
//! Nothing here looks at the files of the values.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::control::{Control, LiveSegment};
use super::format::{ChangeRecord, Record};
use super::segment::{Frame, Segment};
use crate::value::{Error, Version};

/// The frames that are not settled, and what is missing of them.
#[derive(Debug, Default)]
pub struct UnsettledLog {
    pub frames: Vec<Frame>,
    /// How many of the frames lie before the first damage.
    whole: usize,
    /// Changes that are missing, by their sequence numbers.
    pub gaps: Vec<Range<u64>>,
    /// Describes the first gap that may contain acknowledged changes.
    pub damage: Option<String>,
    /// The time of the latest frame in these segments.
    pub latest: i64,
}

/// A segment, if there is such a file.
type Part = (LiveSegment, Option<Arc<Segment>>);

impl UnsettledLog {
    /// The journal in `dir` as the run of a server left it that began with `epoch`; where the control file says
    /// nothing, by the frames.
    pub fn open(
        dir: &OwnedFd,
        journal: u128,
        epoch: u64,
        control: Option<&Control>,
    ) -> Result<Self, Errno> {
        let found = control.map_or_else(
            || search(dir, journal, epoch),
            |control| Ok(control.clone()),
        )?;
        if control.is_none() && found.live.is_empty() {
            let damage = "its file `control` is damaged, or of another version, and there is no frame of the last server";
            return Ok(Self {
                damage: Some(damage.to_owned()),
                ..Self::default()
            });
        }
        let segment = |live: &LiveSegment| {
            let found = Segment::find(dir, &live.index.to_string())?;
            Ok((*live, found))
        };
        let parts: Result<Vec<_>, Errno> = found.live.iter().map(segment).collect();
        Self::read(journal, &parts?, &found, found.settled)
    }

    /// Reads the unsettled frames, by `control`, from `parts`, oldest first. At least all changes before `synced` were
    /// on the disk.
    pub fn read(
        journal: u128,
        parts: &[Part],
        control: &Control,
        synced: u64,
    ) -> Result<Self, Errno> {
        let (mut log, mut at) = (Self::default(), control.settled);
        for (i, (live, segment)) in parts.iter().enumerate() {
            let next = parts.get(i + 1).map(|(next, _)| next.first);
            // It may be used anew already.
            if next.is_some_and(|next| next <= at) {
                continue;
            }
            let mut frames = segment
                .as_ref()
                .map_or(Ok(Vec::new()), |s| s.frames(journal))?;
            let latest = frames.iter().map(|frame| frame.head.time).max();
            log.latest = log.latest.max(latest.unwrap_or(0));
            // Frames that the next segment repeats were given up.
            let end = next.unwrap_or(u64::MAX);
            frames.retain(|f| f.head.generation == live.generation && f.head.first < end);
            let told = frames.iter().map(|frame| frame.head.synced).max();
            let synced = next.unwrap_or_else(|| synced.max(told.unwrap_or(0)));
            let is_cut = segment.as_ref().is_none_or(|s| s.size < control.size);
            at = log.add(live, frames, at..synced, is_cut);
        }
        let behind: u32 = log.behind().iter().map(|frame| frame.head.records).sum();
        if let Some(damage) = &mut log.damage {
            *damage = format!("{damage}, and {behind} changes lie behind it");
        }
        Ok(log)
    }

    /// The frames behind the damage.
    pub fn behind(&self) -> &[Frame] {
        match self.damage {
            Some(_) => &self.frames[self.whole..],
            None => &[],
        }
    }

    /// Adds the frames of one segment, whose changes `synced` were on the disk; returns the first change of the next
    /// segment.
    fn add(
        &mut self,
        live: &LiveSegment,
        frames: Vec<Frame>,
        synced: Range<u64>,
        is_cut: bool,
    ) -> u64 {
        let (mut at, synced) = (synced.start, synced.end);
        let mut end = 0;
        // The first frame was on the disk before the control file named the segment.
        if frames.first().is_none_or(|frame| frame.offset > 0) {
            self.miss(live, end, at..at);
        }
        for frame in frames {
            let first = frame.head.first;
            if first > at && at >= synced {
                break;
            }
            if first > at {
                self.miss(live, end, at..first);
            }
            end = frame.offset + frame.head.size() as u64;
            if first >= at {
                at = frame.head.end();
                self.frames.push(frame);
            }
        }
        if is_cut || at < synced {
            self.miss(live, end, at..at.max(synced));
        }
        at.max(synced)
    }

    /// These changes are missing, or it is not known which, in a frame at `offset`.
    fn miss(&mut self, live: &LiveSegment, offset: u64, changes: Range<u64>) {
        let (index, first) = (live.index, changes.start);
        if self.damage.is_none() {
            self.whole = self.frames.len();
            self.damage = Some(format!(
                "segment {index} is damaged: the frame at byte {offset}, of change {first}, is missing or not whole"
            ));
        }
        if !changes.is_empty() {
            self.gaps.push(changes);
        }
    }
}

/// The control file made up from the frames alone. Each frame says up to where the log was settled when it was written,
/// and no segment was freed above that.
fn search(dir: &OwnedFd, journal: u128, epoch: u64) -> Result<Control, Errno> {
    let mut found = Control::default();
    for segment in Segment::all(dir, OFlags::RDONLY)? {
        let heads = segment.frames(journal)?.into_iter().map(|frame| frame.head);
        let heads: Vec<_> = heads.filter(|head| head.generation > epoch).collect();
        let Some(generation) = heads.iter().map(|head| head.generation).max() else {
            continue;
        };
        let of_last = heads.iter().filter(|head| head.generation == generation);
        for head in of_last.clone() {
            found.settled = found.settled.max(head.settled);
        }
        found.live.push(LiveSegment {
            generation,
            index: segment.index,
            first: of_last.map(|head| head.first).min().unwrap_or(0),
        });
    }
    found.live.sort_unstable_by_key(|live| live.generation);
    Ok(found)
}

/// The changes of a log, by key.
#[derive(Debug, Default)]
pub struct History {
    keys: HashMap<Box<str>, Vec<Step>>,
    cancelled: HashSet<u64>,
}

/// A change, without its value.
#[derive(Clone, Copy, Debug)]
struct Step {
    sequence: u64,
    base: Option<Version>,
    result: Option<Version>,
    is_large: bool,
}

/// What a replay does with one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing: it is as the log says, or an earlier record is looked at.
    Keep,
    /// It has the version of the record: its bytes may be torn.
    Compare,
    /// The record is made of it.
    Apply,
    /// The log does not know it: a hand has placed it, or it is [older](History::is_older).
    Foreign,
}

impl History {
    /// Begins with these records cancelled, by their sequence numbers.
    pub fn without(cancelled: &HashSet<u64>) -> Self {
        Self {
            cancelled: cancelled.clone(),
            ..Self::default()
        }
    }

    /// Takes the next record of the log.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Cancel(sequence) => drop(self.cancelled.insert(*sequence)),
            Record::Change(change) => {
                self.add_step(change, change.base, change.is_large());
                if let Some(removal) = change.removal_of_source() {
                    // The file of a move has the new version before the new name; a disk may have written one of them
                    // alone.
                    self.add_step(change, removal.base, change.is_large());
                    self.add_step(&removal, removal.base, false);
                    self.add_step(&removal, change.result, false);
                }
            }
        }
    }

    /// Adds a step of the key of `change`, from this `base`.
    fn add_step(&mut self, change: &ChangeRecord, base: Option<Version>, is_large: bool) {
        let steps = self.keys.entry(change.key.as_str().into()).or_default();
        steps.push(Step {
            sequence: change.sequence,
            base,
            result: change.result,
            is_large,
        });
    }

    /// True if `change` decides the value of its key, as far as the log tells without the file.
    pub fn may_count(&self, change: &ChangeRecord) -> bool {
        let (_, later) = self.around(change);
        let is_over = |step: &Step| step.is_large || self.is_cancelled(step.sequence);
        !change.is_large() && !self.is_cancelled(change.sequence) && later.iter().all(is_over)
    }

    /// Decides about the file with the version `found`, where `change` [may count](Self::may_count).
    pub fn fate(&self, change: &ChangeRecord, found: Option<Version>) -> Fate {
        match (found, change.result) {
            (None, None) => return Fate::Keep,
            (None, Some(_)) => return Fate::Apply,
            (found, result) if found == result => return Fate::Compare,
            _ => {}
        }
        let (before, later) = self.around(change);
        let is_ours = |step: &Step| step.base == found || step.result == found;
        // A large value that came later, or what a later change was to replace.
        let stands =
            |step: &Step| step.base == found || is_ours(step) && !self.is_cancelled(step.sequence);
        if later.iter().any(stands) {
            Fate::Keep
        } else if before.iter().chain(later).any(is_ours) {
            Fate::Apply
        } else {
            Fate::Foreign
        }
    }

    /// True if a file that is [`Fate::Foreign`], and that the file system changed last at this time, stood there before
    /// `change`.
    pub fn is_older(change: &ChangeRecord, changed: i128) -> bool {
        changed <= change.time.into()
    }

    /// The changes of its key up to `change`, and those after it.
    fn around(&self, change: &ChangeRecord) -> (&[Step], &[Step]) {
        let steps = self.keys.get(change.key.as_str());
        let steps = steps.map_or(&[][..], Vec::as_slice);
        steps.split_at(steps.partition_point(|step| step.sequence <= change.sequence))
    }

    pub fn is_cancelled(&self, sequence: u64) -> bool {
        self.cancelled.contains(&sequence)
    }
}

/// The earliest version that `frames` give a value which is in them: no other value is older whose bytes they alone are
/// known to have.
pub fn first_small(frames: &[Frame]) -> Result<Option<Version>, Error> {
    let mut first = None;
    for frame in frames {
        let small = frame.changes()?.filter(|change| change.small.is_some());
        let versions = small.filter_map(|change| change.result);
        first = first.into_iter().chain(versions).min();
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::super::control::DirId;
    use super::super::format::{FrameBuilder, Head};
    use super::*;
    use crate::value::Key;
    use std::fs::File;
    use tempfile::TempDir;

    const JOURNAL: u128 = 7;
    const EPOCH: u64 = 5;
    const SIZE: u64 = 1 << 16;

    /// A frame: its generation, the sequence number of its one record, and up to where the log was synced.
    type Written = (u64, u64, u64);

    struct Place {
        dir: TempDir,
        state: Control,
    }

    impl Place {
        /// Settled before change 1, with these segments.
        fn new(segments: &[(u32, &[Written])]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut live: Vec<_> = segments
                .iter()
                .map(|(index, frames)| {
                    write(&dir, *index, frames);
                    LiveSegment {
                        generation: frames[0].0,
                        index: *index,
                        first: frames[0].1,
                    }
                })
                .collect();
            live.sort_unstable_by_key(|live| live.generation);
            let state = Control {
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

        /// The sequence numbers of the records that count, by the control file or, where it is lost, by the frames;
        /// what is damaged.
        fn read(&self, is_lost: bool) -> Result<Vec<u64>, String> {
            self.state.write(&self.fd(), true).unwrap();
            let state = Control::read(&self.fd()).unwrap().filter(|_| !is_lost);
            let log = UnsettledLog::open(&self.fd(), JOURNAL, EPOCH, state.as_ref()).unwrap();
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
            frame.add_change(&Key::new("k").unwrap(), None, None, None, None);
            let mut head = Head::new(JOURNAL, generation, first);
            (head.synced, head.settled) = (synced, 1);
            bytes.extend(frame.finish(head).unwrap());
        }
        bytes.resize(usize::try_from(SIZE).unwrap(), 0);
        std::fs::write(dir.path().join(index.to_string()), bytes).unwrap();
    }

    /// Whether the segment is the damaged one, before this change, with this number of changes behind it.
    #[track_caller]
    fn assert_damaged(read: Result<Vec<u64>, String>, segment: u32, change: u64, behind: u32) {
        let damage = read.unwrap_err();
        for part in [
            format!("segment {segment} is damaged"),
            format!("of change {change},"),
            format!("{behind} changes lie behind it"),
        ] {
            assert!(damage.contains(&part), "{part}: {damage}");
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
