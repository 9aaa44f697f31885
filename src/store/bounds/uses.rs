//! What an earlier process has left of the account: the last use of each value, and the bounds that may evict what was there before them.
//!
//! The uses are one file, `.data-server/uses`, written whole every hour and at an orderly end: so the disk is written once an hour for a
//! value, and after a kill the order of eviction is that of an hour ago or newer. A value that the file does not have counts from
//! its file's times. A damaged file is as none.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

use crate::store::directory_fd::open_beneath;

/// The seconds since 1970 in which values were used last, by the [`hash`] of the key.
pub type Uses = HashMap<u64, u32>;

/// The first bytes of the file of uses.
const MAGIC: &[u8; 8] = b"dsuses1\n";

/// A number for `key` that is the same in each process (FNV-1a). Two keys that share one share the later use.
pub fn hash(key: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    key.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Reads the uses in `own`, the server's directory.
pub fn load(own: &OwnedFd) -> Uses {
    let bytes = read(own, "uses").unwrap_or_default();
    let Some(records) = bytes.strip_prefix(MAGIC) else {
        return Uses::default();
    };
    let records = records.chunks_exact(12).filter_map(|record| {
        let (hash, second) = record.split_first_chunk()?;
        let second = u32::from_le_bytes(second.try_into().ok()?);
        Some((u64::from_le_bytes(*hash), second))
    });
    records.collect()
}

/// Writes `uses`, records of a hash and a second, to `own`.
pub fn save(own: &OwnedFd, uses: impl Iterator<Item = (u64, u32)>) -> std::io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    for (hash, second) in uses {
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes.extend_from_slice(&second.to_le_bytes());
    }
    replace(own, "uses", &bytes)
}

/// The prefixes of bounds that may evict what they find, as [`super::Prefix`] writes them.
pub fn approved(own: &OwnedFd) -> BTreeSet<String> {
    let text = read(own, "bounds").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

/// Writes the `approved` prefixes.
pub fn approve(own: &OwnedFd, approved: &BTreeSet<String>) -> std::io::Result<()> {
    let lines: String = approved.iter().flat_map(|line| [line, "\n"]).collect();
    replace(own, "bounds", lines.as_bytes())
}

fn read(own: &OwnedFd, name: &str) -> Option<Vec<u8>> {
    let file = open_beneath(own, name, OFlags::RDONLY, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Replaces the file `name` whole.
fn replace(own: &OwnedFd, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let new = format!("{name}.new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let mut file = File::from(open_beneath(own, &new, flags, Mode::from(0o644))?);
    file.write_all(bytes)?;
    rustix::fs::renameat(own, &new, own, name)?;
    Ok(())
}
