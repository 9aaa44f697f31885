//! What an earlier process has left of the account: the last use of each value, and the bounds that may remove what was
//! there before them.
//!
//! The uses are one file, `.data-server/uses`. It is written whole once an hour and at an orderly end; in between, the
//! uses of the last minute are appended to it, so that a kill loses no more. A record is the hash of a key and
//! milliseconds since 1970, 8 bytes each, the lowest first; the last record of a hash counts. A value that the file
//! does not have counts from its file's times. A damaged file is as none.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::rule::{Bound, Full};
use crate::store::changes::Removal;
use crate::store::small_file::{read, replace};

/// The first bytes of the file of uses.
const MAGIC: &[u8; 8] = b"dsuses2\n";

/// A record in bytes.
const RECORD: usize = 16;

/// The last uses, in the order of their hashes: a map takes three times as much memory.
#[derive(Debug, Default)]
pub struct Uses(Vec<(u64, i64)>);

impl Uses {
    /// How many values there were, at least.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// When the key of `hash` was used last, in milliseconds since 1970.
    pub fn get(&self, hash: u64) -> Option<i64> {
        let at = self.0.binary_search_by_key(&hash, |(hash, _)| *hash);
        Some(self.0[at.ok()?].1)
    }
}

/// A number for `key` that is the same in each process (FNV-1a). Two keys that share one share a use.
pub fn hash(key: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    key.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Reads the uses in `own`, the server's directory.
pub fn load(own: &OwnedFd) -> Uses {
    let bytes = read_all(own, "uses");
    let records = bytes.strip_prefix(MAGIC).unwrap_or_default();
    let record = |record: &[u8]| {
        let (hash, millis) = record.split_first_chunk()?;
        let millis = i64::from_le_bytes(millis.try_into().ok()?);
        Some((u64::from_le_bytes(*hash), millis))
    };
    let mut uses: Vec<_> = records.chunks_exact(RECORD).filter_map(record).collect();
    // Stable, so that of one hash the last record comes last.
    uses.sort_by_key(|(hash, _)| *hash);
    uses.dedup_by(|later, kept| {
        let is_same = later.0 == kept.0;
        if is_same {
            kept.1 = later.1;
        }
        is_same
    });
    Uses(uses)
}

fn records(uses: &[(u64, i64)]) -> Vec<u8> {
    let record = |(hash, millis): &(u64, i64)| [hash.to_le_bytes(), millis.to_le_bytes()];
    uses.iter().flat_map(record).flatten().collect()
}

/// Writes `uses`, hashes and milliseconds, to `own`, as all that there are.
pub fn save(own: &OwnedFd, uses: &[(u64, i64)]) -> Result<(), Errno> {
    let bytes = [&MAGIC[..], &records(uses)].concat();
    replace((own, "uses"), &bytes, false, false)
}

/// Adds `uses` to those in `own`, of a file that this process has written whole.
pub fn append(own: &OwnedFd, uses: &[(u64, i64)]) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(own, "uses", flags, Mode::empty())?;
    File::from(file).write_all(&records(uses))
}

/// The end of the approval of a bound that removes by age; no prefix has it.
const BY_AGE: &str = "\tmax-age";

/// How it is noted that `bound` may remove what it finds, for the reason `why`; `None` where it removes nothing for it.
pub fn approval(bound: &Bound, why: Removal) -> Option<String> {
    match why {
        Removal::Age => bound.max_age.map(|_| format!("{}{BY_AGE}", bound.prefix)),
        _ => (bound.full == Full::Evict).then(|| bound.prefix.to_string()),
    }
}

/// True if `bound` may remove what it finds, for the reason `why`: a bound that holds all its keys, and removes for
/// that reason, is `approved`.
pub fn is_approved(approved: &BTreeSet<String>, bound: &Bound, why: Removal) -> bool {
    let prefix = bound.prefix.to_string();
    let mut approved = approved.iter();
    approved.any(|known| match known.strip_suffix(BY_AGE) {
        Some(known) => why == Removal::Age && prefix.starts_with(known),
        None => why != Removal::Age && prefix.starts_with(known),
    })
}

/// What bounds may remove of what they find, as [`approval`] writes it.
pub fn approved(own: &OwnedFd) -> BTreeSet<String> {
    let text = read_all(own, "bounds");
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

/// Writes what is `approved`. It survives the loss of power: a bound that lost its approval would refuse what it
/// evicted before.
pub fn approve(own: &OwnedFd, approved: &BTreeSet<String>) -> Result<(), Errno> {
    let lines: String = approved.iter().flat_map(|line| [line, "\n"]).collect();
    replace((own, "bounds"), lines.as_bytes(), true, false)
}

/// Ends what was approved, where there is no bound: what is stored from now on is of no cache.
pub fn approve_none(own: &OwnedFd) {
    let _may_not_be_there = rustix::fs::unlinkat(own, "bounds", AtFlags::empty());
}

fn read_all(own: &OwnedFd, name: &str) -> Vec<u8> {
    let read = read((own, name), u64::MAX);
    read.ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn what_is_noted_is_found_and_a_damaged_file_is_as_none() {
        let place = tempfile::tempdir().unwrap();
        let own = OwnedFd::from(File::open(place.path()).unwrap());
        let uses: Vec<_> = (0..1000).map(|n| (hash(&n.to_string()), n)).collect();
        save(&own, &uses).unwrap();
        append(
            &own,
            &[(hash("7"), 5000), (hash("8"), -1), (hash("7"), 6000)],
        )
        .unwrap();
        let loaded = load(&own);
        for (hash, used) in &uses[9..] {
            assert_eq!(loaded.get(*hash), Some(*used));
        }
        let late = ["7", "8"].map(|key| loaded.get(hash(key)));
        assert_eq!(late, [Some(6000), Some(-1)]);
        assert_eq!(loaded.get(hash("absent")), None);
        std::fs::write(place.path().join("uses"), "dsuses0\n0123456789ab").unwrap();
        assert_eq!(load(&own).get(hash("1")), None);
        std::fs::write(place.path().join("uses"), "dsuses2\ncut").unwrap();
        assert_eq!(load(&own).get(hash("1")), None);
    }
}
