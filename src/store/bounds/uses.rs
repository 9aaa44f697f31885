//! What an earlier process has left of the account: the last use of each value, and the bounds that may evict what was there before them.
//!
//! The uses are one file, `.data-server/uses`, written whole every hour and at an orderly end: so the disk is written once an hour for a
//! value, and after a kill the order of eviction is that of an hour ago or newer. A value that the file does not have counts from
//! its file's times. A damaged file is as none.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::rule::{Bound, Full};
use crate::store::small_file::{read, replace};

/// The first bytes of the file of uses.
const MAGIC: &[u8; 8] = b"dsuses1\n";

/// The last uses, in the order of their hashes: a map takes three times as much memory.
#[derive(Debug, Default)]
pub struct Uses(Vec<(u64, u32)>);

impl Uses {
    /// The second of the last use that is noted for `hash`.
    pub fn get(&self, hash: u64) -> Option<u32> {
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
    // The hash of a key, and a second since 1970, both with the lowest byte first.
    let record = |record: &[u8]| {
        let (hash, second) = record.split_first_chunk()?;
        let second = u32::from_le_bytes(second.try_into().ok()?);
        Some((u64::from_le_bytes(*hash), second))
    };
    Uses(records.chunks_exact(12).filter_map(record).collect())
}

/// Writes `uses`, hashes and seconds, to `own`.
pub fn save(own: &OwnedFd, mut uses: Vec<(u64, u32)>) -> Result<(), Errno> {
    uses.sort_unstable();
    let mut bytes = MAGIC.to_vec();
    for (hash, second) in uses {
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes.extend_from_slice(&second.to_le_bytes());
    }
    replace((own, "uses.new"), (own, "uses"), &bytes, false, false)
}

/// The end of the approval of a bound that removes by age alone; no prefix has it.
const BY_AGE: &str = "\tmax-age";

/// How it is noted that `bound` may remove what it finds.
pub fn approval(bound: &Bound) -> String {
    let kind = if bound.full == Full::Evict {
        ""
    } else {
        BY_AGE
    };
    format!("{}{kind}", bound.prefix)
}

/// True if `bound` may remove what it finds: one that holds all its keys, and removes as much, is `approved`.
pub fn is_approved(approved: &BTreeSet<String>, bound: &Bound) -> bool {
    let (prefix, evicts) = (bound.prefix.to_string(), bound.full == Full::Evict);
    let mut approved = approved.iter();
    approved.any(|known| match known.strip_suffix(BY_AGE) {
        Some(known) => !evicts && prefix.starts_with(known),
        None => prefix.starts_with(known),
    })
}

/// What bounds may remove of what they find, as [`approval`] writes it.
pub fn approved(own: &OwnedFd) -> BTreeSet<String> {
    let text = read_all(own, "bounds");
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

/// Writes what is `approved`. It survives the loss of power: a bound that lost its approval would refuse what it evicted before.
pub fn approve(own: &OwnedFd, approved: &BTreeSet<String>) -> Result<(), Errno> {
    let lines: String = approved.iter().flat_map(|line| [line, "\n"]).collect();
    replace(
        (own, "bounds.new"),
        (own, "bounds"),
        lines.as_bytes(),
        true,
        false,
    )
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
        save(&own, uses.clone()).unwrap();
        let loaded = load(&own);
        for (hash, second) in uses {
            assert_eq!(loaded.get(hash), Some(second));
        }
        assert_eq!(loaded.get(hash("absent")), None);
        std::fs::write(place.path().join("uses"), "dsuses0\n0123456789ab").unwrap();
        assert_eq!(load(&own).get(hash("1")), None);
        std::fs::write(place.path().join("uses"), "dsuses1\ncut").unwrap();
        assert_eq!(load(&own).get(hash("1")), None);
    }
}
