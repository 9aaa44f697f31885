//! A segment of the journal, which is a file that is written with zeros once, and then again and again with frames; and the log, which is
//! what all of them say.
//!
//! Only a file whose blocks were written before is synced without a commit of the file system's own journal, which takes
//! three times as long: so a segment never grows or shrinks, and is recycled. Promises that one which is retired, as a write or sync of it
//! has failed, is never synced again: the kernel may have dropped what it could not write, and a second sync would prove nothing.
//!
//! The log is the whole frames that are not settled, in their order, and what is missing between them. A frame that is not whole ends it,
//! as one that was being written when the power was cut: it was not acknowledged. Where a later frame says that it was on the disk
//! already, or a segment is not what the control file says, the log is damaged. What lies behind the damage is read all the same: the
//! caller decides whether it counts.

use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};

use bytes::Bytes;
use rustix::fs::{AtFlags, Dir, FallocateFlags, IFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::directory_fd::open_beneath;
use super::format::{BLOCK, Head, Record};
use super::place::{Live, State};
use crate::value::Error;

/// What is written with zeros and synced at once, in bytes: a group that is synced meanwhile waits for no more.
const STEP: usize = 4 << 20;

/// A file of the journal.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    /// Its name in the directory of the journal.
    pub(super) index: u32,
    /// In bytes.
    pub(super) size: u64,
    is_retired: AtomicBool,
}

/// A frame that was whole when it was found.
#[derive(Debug)]
pub(super) struct Frame {
    segment: Arc<Segment>,
    pub(super) offset: u64,
    pub(super) head: Head,
}

impl Segment {
    /// A new one of `size` bytes in `dir`, on the disk with its name. A file with that name is no longer used.
    pub(super) fn create(dir: &OwnedFd, index: u32, size: u64) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let mut segment = Self::open(dir, &index.to_string(), flags)?;
        // Btrfs would write each frame elsewhere, for which a full disk has no room. Others know no such flag.
        if let Ok(flags) = rustix::fs::ioctl_getflags(&segment.file) {
            let _ = rustix::fs::ioctl_setflags(&segment.file, flags | IFlags::NOCOW);
        }
        segment.size = size;
        let written = segment.zero().and_then(|()| rustix::fs::fsync(dir));
        if written.is_err() {
            let _ = segment.remove(dir);
        }
        written.map(|()| segment)
    }

    /// The file `name` of `dir`, which has frames.
    pub(super) fn open(dir: &OwnedFd, name: &str, flags: OFlags) -> Result<Self, Errno> {
        // A mode goes with a file that may be made, and with no other.
        let mode = if flags.contains(OFlags::CREATE) {
            0o600
        } else {
            0
        };
        let file = open_beneath(dir, name, flags, Mode::from(mode))?;
        let size = retry_on_intr(|| rustix::fs::fstat(&file))?.st_size;
        Ok(Self {
            file: file.into(),
            index: name.parse().unwrap_or(0),
            size: u64::try_from(size).unwrap_or(0),
            is_retired: AtomicBool::new(false),
        })
    }

    /// All in `dir`, by their names.
    pub(super) fn all(dir: &OwnedFd, flags: OFlags) -> Result<Vec<Arc<Self>>, Errno> {
        let mut indices = Vec::new();
        for entry in Dir::read_from(dir)? {
            let name = entry?.file_name().to_str().map(str::parse::<u32>);
            indices.extend(name.ok().and_then(Result::ok));
        }
        indices.sort_unstable();
        let indices = indices.into_iter();
        let open = |index: u32| Self::open(dir, &index.to_string(), flags).map(Arc::new);
        indices.map(open).collect()
    }

    /// Removes its file.
    pub(super) fn remove(&self, dir: &OwnedFd) -> Result<(), Errno> {
        let name = self.index.to_string();
        retry_on_intr(|| rustix::fs::unlinkat(dir, &name, AtFlags::empty()))
    }

    /// It is used no more; false if it was not before.
    pub(super) fn retire(&self) -> bool {
        !self.is_retired.swap(true, AcqRel)
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.load(Acquire)
    }

    /// Writes all of `frame` at `offset`.
    pub(super) fn write(&self, frame: &[u8], offset: u64) -> Result<(), Errno> {
        let written = self.file.write_all_at(frame, offset);
        written.map_err(|error| errno(&error))
    }

    /// Puts what was written on the disk.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        if self.is_retired() {
            return Err(Errno::IO);
        }
        rustix::fs::fdatasync(&self.file)
    }

    /// The frame at `offset`, if there is a whole one.
    fn read(&self, offset: u64) -> Result<Option<(Head, Vec<Record>)>, Errno> {
        let Some(head) = Head::parse(&self.bytes(offset, BLOCK)?) else {
            return Ok(None);
        };
        let records = head.read(self.bytes(offset, head.size())?);
        Ok(records.map(|records| (head, records)))
    }

    /// The whole frames of `journal`, wherever they lie.
    pub(super) fn frames(self: &Arc<Self>, journal: u128) -> Result<Vec<Frame>, Errno> {
        let (mut found, mut offset) = (Vec::new(), 0);
        while offset < self.size {
            let mut size = BLOCK;
            if let Some((head, _)) = self.read(offset)?
                && head.journal == journal
            {
                size = head.size();
                let segment = Arc::clone(self);
                found.push(Frame {
                    segment,
                    offset,
                    head,
                });
            }
            offset += size as u64;
        }
        Ok(found)
    }

    /// So many bytes at `offset`, as far as the file goes.
    fn bytes(&self, offset: u64, len: usize) -> Result<Bytes, Errno> {
        let left = usize::try_from(self.size - offset).unwrap_or(len);
        let mut bytes = vec![0; len.min(left)];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| errno(&error))?;
        Ok(bytes.into())
    }

    fn zero(&self) -> Result<(), Errno> {
        let all = FallocateFlags::empty();
        // So that a full disk is known before much is written.
        match retry_on_intr(|| rustix::fs::fallocate(&self.file, all, 0, self.size)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        let zeros = vec![0; STEP];
        for offset in (0..self.size).step_by(STEP) {
            let left = usize::try_from(self.size - offset).unwrap_or(STEP);
            self.write(&zeros[..left.min(STEP)], offset)?;
            rustix::fs::fsync(&self.file)?;
        }
        Ok(())
    }
}

impl Frame {
    /// Where it ends in its segment.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.head.size() as u64
    }

    /// Its records.
    pub(super) fn read(&self) -> Result<Vec<Record>, Error> {
        let read = self.segment.read(self.offset);
        read.and_then(|read| Ok(read.ok_or(Errno::IO)?.1))
            .map_err(Error::errno_while("read the journal"))
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// What the segments say, as far as it is not settled.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) frames: Vec<Frame>,
    /// How many of the frames lie before the first damage.
    whole: usize,
    /// Changes that are missing, by their sequence numbers.
    pub(super) gaps: Vec<Range<u64>>,
    /// Where something is missing first that may have been acknowledged, in words.
    pub(super) damage: Option<String>,
}

/// A segment, if there is such a file.
pub(super) type Part = (Live, Option<Arc<Segment>>);

impl Log {
    /// The journal in `dir` as the run of a server left it that began with `epoch`; where the control file says nothing, by the frames.
    pub(super) fn open(
        dir: &OwnedFd,
        journal: u128,
        epoch: u64,
        control: Option<&State>,
    ) -> Result<Self, Errno> {
        let found = control.map_or_else(|| search(dir, journal, epoch), |said| Ok(said.clone()))?;
        if control.is_none() && found.live.is_empty() {
            let damage = "its file `control` is damaged, or of another version, and there is no frame of the last server";
            return Ok(Self {
                damage: Some(damage.to_owned()),
                ..Self::default()
            });
        }
        let segment =
            |live: &Live| match Segment::open(dir, &live.index.to_string(), OFlags::RDONLY) {
                Err(Errno::NOENT) => Ok((*live, None)),
                segment => Ok((*live, Some(Arc::new(segment?)))),
            };
        let parts: Result<Vec<_>, Errno> = found.live.iter().map(segment).collect();
        Self::read(journal, &parts?, &found, found.settled)
    }

    /// Reads what is not settled, as `said`, from `parts`, oldest first. All before the change `synced` was on the disk, if not more.
    pub(super) fn read(
        journal: u128,
        parts: &[Part],
        said: &State,
        synced: u64,
    ) -> Result<Self, Errno> {
        let (mut log, mut at) = (Self::default(), said.settled);
        for (i, (live, segment)) in parts.iter().enumerate() {
            let next = parts.get(i + 1).map(|(next, _)| next.first);
            // It may be used anew already.
            if next.is_some_and(|next| next <= at) {
                continue;
            }
            let mut frames = segment
                .as_ref()
                .map_or(Ok(Vec::new()), |s| s.frames(journal))?;
            // What the next segment repeats was given up.
            let end = next.unwrap_or(u64::MAX);
            frames.retain(|f| f.head.generation == live.generation && f.head.first < end);
            let told = frames.iter().map(|frame| frame.head.synced).max();
            let synced = next.unwrap_or_else(|| synced.max(told.unwrap_or(0)));
            let is_cut = segment.as_ref().is_none_or(|s| s.size < said.size);
            at = log.add(live, frames, at..synced, is_cut);
        }
        let behind: u32 = log.behind().iter().map(|frame| frame.head.records).sum();
        if let Some(damage) = &mut log.damage {
            *damage = format!("{damage}, and {behind} changes lie behind it");
        }
        Ok(log)
    }

    /// The frames behind the damage.
    pub(super) fn behind(&self) -> &[Frame] {
        match self.damage {
            Some(_) => &self.frames[self.whole..],
            None => &[],
        }
    }

    /// Adds the frames of one segment, of which these changes were on the disk; where the next one goes on.
    fn add(&mut self, live: &Live, frames: Vec<Frame>, synced: Range<u64>, is_cut: bool) -> u64 {
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
            end = frame.end();
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
    fn miss(&mut self, live: &Live, offset: u64, changes: Range<u64>) {
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

/// What the control file would say, by the frames alone. Each says up to where the log was settled when it was written, and what was
/// freed is not above that.
fn search(dir: &OwnedFd, journal: u128, epoch: u64) -> Result<State, Errno> {
    let mut found = State::default();
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
        found.live.push(Live {
            generation,
            index: segment.index,
            first: of_last.map(|head| head.first).min().unwrap_or(0),
        });
    }
    found.live.sort_unstable_by_key(|live| live.generation);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::format::FrameBuilder;
    use super::super::place::DirId;
    use super::*;
    use crate::value::Key;
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
            self.state.write(&self.fd(), true).unwrap();
            let state = State::read(&self.fd()).unwrap().filter(|_| !is_lost);
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
