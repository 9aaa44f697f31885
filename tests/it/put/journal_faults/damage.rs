//! A journal of which a part that was synced is damaged, or gone: the start says so and changes nothing. With the bytes back, nothing
//! is lost.

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

    /// Changes the bytes of the segment.
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.whole[self.segment_name()].clone();
        change(&mut bytes);
        fs::write(&self.segment, bytes).expect("written");
    }

    pub(super) fn flip(&self, frame: usize) {
        self.change(|bytes| bytes[self.frames[frame] + 70] ^= 1);
    }

    /// The start ends, says where, and leaves the journal as it is, and so does the check without a start. What both say.
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
    let used = blocks.filter(|(_, block)| block.iter().any(|&byte| byte != 0));
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

/// With all bytes back nothing is lost by the start that was refused.
#[track_caller]
fn assert_named_and_kept(damaged: &Damaged, what: &str) {
    damaged.refused(&DISK, what);
    damaged.refused(&["--durability", "os"], what);
    damaged.put_back();
    assert_eq!(check(&damaged.dir).code, Some(0), "{what}");
    assert_there(&start(&damaged.dir), 0..KEYS, what);
}

#[test]
fn a_bit_that_flips_in_a_synced_frame_ends_the_start() {
    journal_only!();
    for frame in [0, 1, 10, 18] {
        let what = format!("a bit of frame {frame}");
        let damaged = Damaged::new();
        damaged.flip(frame);
        let behind = format!("{} change", KEYS - 1 - frame as u64);
        for said in damaged.refused(&DISK, &what) {
            let is_right = said.contains("frame") && said.contains(&behind);
            assert!(is_right, "{behind}: {said}");
        }
        assert_named_and_kept(&damaged, &what);
    }
}

/// Pages of zeros, segments that are cut short, or gone, and those that some file systems bring back with zeros.
#[test]
fn a_segment_that_lacks_what_was_synced_ends_the_start() {
    journal_only!();
    for frame in [0, 10] {
        let damaged = Damaged::new();
        let at = damaged.frames[frame];
        damaged.change(|bytes| bytes[at..at + BLOCK].fill(0));
        assert_named_and_kept(&damaged, &format!("frame {frame} is zeros"));
        let damaged = Damaged::new();
        damaged.change(|bytes| bytes.truncate(damaged.frames[frame]));
        assert_named_and_kept(&damaged, &format!("cut short at frame {frame}"));
    }
    let damaged = Damaged::new();
    fs::remove_file(&damaged.segment).expect("it is there");
    assert_named_and_kept(&damaged, "removed");
    let damaged = Damaged::new();
    damaged.change(|bytes| bytes.fill(0));
    assert_named_and_kept(&damaged, "all zeros");
}

/// What no later frame vouches for may be torn: it was not acknowledged.
#[test]
fn a_last_frame_that_is_not_whole_is_no_damage() {
    journal_only!();
    let damaged = Damaged::new();
    damaged.flip(damaged.frames.len() - 1);
    let server = start(&damaged.dir);
    assert_there(&server, 0..KEYS - 1, "all but the last");
    assert_eq!(server.get(&key(KEYS - 1)).status, 404);
    let replayed = server.event("replayed the journal: a server was not ended in order");
    assert_eq!(replayed.number("records"), KEYS - 1);
}

/// Frames of an earlier run may still be in the segments; that they are settled is said elsewhere than in one file.
#[test]
fn removals_of_an_earlier_run_stay_when_it_is_not_known_up_to_where_the_journal_is_settled() {
    journal_only!();
    for is_removed in [false, true] {
        let dir = DataDir::temporary();
        let mut server = start(&dir);
        for n in 0..KEYS {
            server.store(&key(n), "value");
        }
        server.stop();
        let mut server = Launch::new(&["--durability", "os"]).on(&dir).start();
        for n in 0..KEYS {
            assert_eq!(server.ask("DELETE", &key(n)).status, 200);
        }
        server.stop();
        let mut server = start(&dir);
        server.store("later", "value");
        cut(&mut server);
        let control = dir.own("journal/control");
        let whole = fs::read(&control).expect("a file");
        if is_removed {
            fs::remove_file(&control).expect("it is there");
        } else {
            fs::write(&control, vec![0; whole.len()]).expect("written");
        }
        let started = Launch::new(&DISK).on(&dir).start_or_end();
        let server = started.unwrap_or_else(|ended| {
            ended.says(1, "control");
            fs::write(&control, &whole).expect("written");
            start(&dir)
        });
        let back = (0..KEYS).filter(|&n| server.get(&key(n)).status == 200);
        assert_eq!(back.count(), 0, "removed values are back: {is_removed}");
        assert_eq!(server.get("later").body, b"value");
    }
}
