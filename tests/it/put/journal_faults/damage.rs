//! A journal of which a part that was synced is damaged, or gone: the start says so and changes nothing. With the bytes
//! back, nothing is lost.

use super::{DISK, check, cut, files, start};
use crate::support::prelude::*;

/// What frames begin at multiples of, in bytes.
const BLOCK: usize = 4096;

pub(super) const KEYS: u64 = 20;

pub(super) fn key(n: u64) -> String {
    format!("k{n:02}")
}

/// A directory after a cut of power, of which the journal alone has what was acknowledged.
pub(super) struct Damaged {
    pub(super) dir: DataDir,
    /// The segment with the changes.
    pub(super) segment: PathBuf,
    /// Where its frames lie, one for each change.
    pub(super) frames: Vec<usize>,
    /// The journal as it was before the damage.
    whole: BTreeMap<String, Vec<u8>>,
}

impl Damaged {
    pub(super) fn new() -> Self {
        let dir = DataDir::temporary();
        let mut server = start(&dir);
        for n in 0..KEYS {
            server.store(&key(n), pattern(n, 100));
        }
        cut(&mut server);
        for n in 0..KEYS {
            dir.remove(&key(n));
        }
        let whole = files(&dir.own("journal"));
        let segments = whole.keys().filter(|name| name.parse::<u32>().is_ok());
        let blocks = |name: &&String| used_blocks(&whole[*name]).len();
        let name = segments.max_by_key(blocks).expect("a segment");
        let mut frames = used_blocks(&whole[name]);
        // Each PUT was a group of its own, of one block.
        let others = frames.len();
        let others = others.checked_sub(usize::try_from(KEYS).expect("a few"));
        let frames = frames.split_off(others.expect("a frame for each PUT"));
        let segment = dir.own("journal").join(name);
        Self {
            dir,
            segment,
            frames,
            whole,
        }
    }

    pub(super) fn segment_name(&self) -> &str {
        let name = self.segment.file_name().and_then(|name| name.to_str());
        name.expect("a name")
    }

    /// Flips a bit of a frame.
    pub(super) fn flip(&self, frame: usize) {
        let mut bytes = self.whole[self.segment_name()].clone();
        bytes[self.frames[frame] + 70] ^= 1;
        fs::write(&self.segment, bytes).expect("written");
    }

    /// The start ends, says where, and leaves the journal as it is, and so does the check without a start. What both
    /// say.
    #[track_caller]
    pub(super) fn refused(&self, args: &[&str], what: &str) -> [String; 2] {
        let before = files(&self.dir.own("journal"));
        let started = Launch::new(args).on(&self.dir).start_or_end();
        let ended = started.err().unwrap_or_else(|| panic!("{what}: it serves"));
        let checked = check(&self.dir);
        let after = files(&self.dir.own("journal"));
        assert!(before == after, "{what}: the journal was changed");
        let segment = format!("segment {}", self.segment_name());
        [ended, checked].map(|ended| {
            let said = ended.stdout + &ended.stderr;
            assert_eq!(ended.code, Some(1), "{what}: {said}");
            assert!(said.contains(&segment), "{what}: {said}");
            said
        })
    }

    pub(super) fn put_back(&self) {
        for (name, bytes) in &self.whole {
            fs::write(self.dir.own("journal").join(name), bytes).expect("written");
        }
    }
}

/// Where blocks lie that are not all zeros.
fn used_blocks(segment: &[u8]) -> Vec<usize> {
    let blocks = segment.chunks(BLOCK).enumerate();
    let used = blocks.filter(|(_, block)| **block != [0; BLOCK][..block.len()]);
    used.map(|(n, _)| n * BLOCK).collect()
}

#[track_caller]
pub(super) fn assert_there(server: &TestServer, keys: std::ops::Range<u64>, what: &str) {
    for n in keys {
        let answer = server.get(&key(n));
        assert_eq!(answer.status, 200, "{what}: {}", key(n));
        assert!(answer.body == pattern(n, 100), "{what}: {}", key(n));
    }
}

/// With all bytes back nothing is lost by the start that was refused. src/store/journal/log.rs and `torture damage`
/// have other damage.
#[test]
fn a_bit_that_flips_in_a_synced_frame_ends_the_start() {
    journal_only!();
    for frame in [0, 1, 10, 18] {
        let what = format!("a bit of frame {frame}");
        let damaged = Damaged::new();
        damaged.flip(frame);
        let behind = format!("{} change", KEYS - 1 - frame as u64);
        let refused = damaged.refused(&DISK, &what).into_iter();
        for said in refused.chain(damaged.refused(&["--durability", "os"], &what)) {
            let is_right = said.contains("frame") && said.contains(&behind);
            assert!(is_right, "{behind}: {said}");
        }
        damaged.put_back();
        assert_eq!(check(&damaged.dir).code, Some(0), "{what}");
        assert_there(&start(&damaged.dir), 0..KEYS, &what);
    }
}
