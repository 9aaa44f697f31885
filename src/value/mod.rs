//! The words that all engines share: keys, versions, entity tags, preconditions, digests, pages of a listing, and
//! errors.
//!
//! Owns the metadata of a value, which is known without reading it: its length, its version and its validators. Pure:
//! it opens no file.

mod date;
mod digest;
mod end;
mod error;
mod key;
mod page;
mod preconditions;

use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use rustix::fs::{FileType, Stat, Timespec};

pub use date::{DATE, date, date_text, dated, parse_date, with_date};
pub use digest::{Checksum, ChecksumKind, Digest, Digests, Hasher, Wanted};
pub use end::{DELETE_AFTER, DELETE_AT, end, end_after, kept_lines, kept_value, now, parse_end};
pub use error::{CONTENDED, Error, TRIES};
pub use key::{
    BadKey, Key, MAX_LEN, MAX_SEGMENT, NamePattern, Prefixes, RESERVED, UNKNOWN_TYPE, check_prefix,
    folder_and_above, guessed_type, hide, may_have_keys,
};
pub use page::{ListedValue, Listing, Page};
pub use preconditions::{Current, MAX_LIST, Preconditions, Tags, Verdict, WriteCondition, second};

/// The last second of the year 9999, in nanoseconds since the epoch.
const LATEST: i128 = 253_402_300_799 * 1_000_000_000;

/// The version of a value: nanoseconds since the epoch, from a clock that never repeats.
/// The file carries it as its modification time, so a version written by hand is the hand's time of writing.
/// Aligned as 64 bits are: a [`Meta`] is moved often, and is not to have holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(8))]
pub struct Version(i128);

impl Version {
    /// Nanoseconds since 1970; negative for files dated earlier by hand.
    pub fn nanos(self) -> i128 {
        self.0
    }

    pub(crate) fn from_nanos(nanos: i128) -> Self {
        Self(nanos)
    }

    pub(crate) fn of(stat: &Stat) -> Self {
        Self(i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec))
    }

    pub(crate) fn timespec(self) -> Timespec {
        Timespec {
            tv_sec: i64::try_from(self.0.div_euclid(1_000_000_000)).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(self.0.rem_euclid(1_000_000_000)).unwrap_or(0),
        }
    }

    /// The time of this write, to the nearest that every form of a date can tell: from 1970 to the year 9999.
    pub fn time(self) -> SystemTime {
        let nanos = self.0.clamp(0, LATEST);
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(0);
        let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::new(seconds, rest)
    }
}

/// The metadata of a value, known without reading it. Two are equal that have the length and the version of one write.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// The value's length in bytes.
    pub len: u64,
    /// Which write it is.
    pub version: Version,
    /// When the file system last changed the file, in nanoseconds since 1970.
    changed: i64,
    /// The second since 1970 from which on it is absent; [`NEVER`] of most.
    end: u64,
}

/// The end of a value that has none.
const NEVER: u64 = u64::MAX;

impl PartialEq for Meta {
    fn eq(&self, other: &Self) -> bool {
        (self.len, self.version) == (other.len, other.version)
    }
}

impl Eq for Meta {}

impl Meta {
    /// A value that is being written now.
    pub(crate) fn new(len: u64, version: Version) -> Self {
        Self {
            len,
            version,
            changed: i64::MAX,
            end: NEVER,
        }
    }

    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            len: u64::try_from(stat.st_size).unwrap_or(0),
            version: Version::of(stat),
            changed: i64::try_from(changed(stat)).unwrap_or(i64::MAX),
            end: NEVER,
        }
    }

    /// The same with this end, if there is one.
    pub(crate) fn ending(self, end: Option<u64>) -> Self {
        let end = end.unwrap_or(NEVER);
        Self { end, ..self }
    }

    /// Its end, in seconds since 1970, if it has one.
    pub fn end(&self) -> Option<u64> {
        (self.end != NEVER).then_some(self.end)
    }

    /// True once its end has come, by the system's clock: it counts as absent. Costs a look at that clock only where it
    /// has one.
    pub fn has_ended(&self) -> bool {
        self.end != NEVER && self.end <= now()
    }

    /// When the value was written: between 1970 and now (RFC 9110, section 8.8.2.1). A file that is dated later was
    /// written when the file system says that it was changed, which stays the same for every client that asks.
    pub fn modified(&self) -> SystemTime {
        let (now, dated) = (SystemTime::now(), self.version.time());
        if dated <= now {
            return dated;
        }
        let changed = u64::try_from(self.changed).unwrap_or(0);
        // To the second.
        let changed = Duration::from_secs(changed / 1_000_000_000);
        let changed = SystemTime::UNIX_EPOCH.checked_add(changed);
        changed.map_or(now, |changed| changed.min(now))
    }

    /// True where what this file holds can have been made from `source` as it is now: it has the date of `source`, as
    /// compressors date what they make, or is of a later time than the last change of that file. Dates alone do not
    /// tell: a hand that restores a file restores its date too, and a hand can date a file ahead.
    pub fn is_made_from(&self, source: &Self) -> bool {
        let (made, dated) = (self.version.nanos(), source.version.nanos());
        let is_later = made > dated.max(i128::from(source.changed));
        made == dated || is_later && self.changed >= source.changed
    }
}

/// The validators of a value (RFC 9110, section 8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// The entity tag: strong, quotes included.
    pub etag: String,
    /// When the value was written.
    pub modified: SystemTime,
}

impl From<Meta> for Validators {
    fn from(meta: Meta) -> Self {
        Self {
            etag: etag(meta),
            modified: meta.modified(),
        }
    }
}

/// The attributes that are kept with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Its media type.
    pub media_type: Option<Box<str>>,
    /// Its fields, a line `name: value` for each.
    pub fields: Option<Box<[u8]>>,
}

impl Attributes {
    /// The end of the value, if its fields have one.
    pub(crate) fn end(&self) -> Option<u64> {
        end(self.fields.as_deref()?)
    }

    /// The date of the value, if its fields have one.
    pub(crate) fn date(&self) -> Option<SystemTime> {
        date(self.fields.as_deref()?)
    }
}

/// The entity tag of a file, quotes included: strong, as no two writes of a key share it. The length tells files apart
/// that were given the same date by hand.
pub fn etag(meta: Meta) -> String {
    let (mut version, mut len) = ([0; 32], [0; 16]);
    let version = hex(&meta.version.nanos().to_be_bytes(), &mut version);
    let len = hex(&meta.len.to_be_bytes(), &mut len);
    ["\"", version, "-", len, "\""].concat()
}

/// The number with these `bytes` in hexadecimal `digits`. Each PUT writes two such numbers: `format!` takes three times
/// as long.
fn hex<'d>(bytes: &[u8], digits: &'d mut [u8]) -> &'d str {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros.min(bytes.len() - 1)..];
    let text = HEXLOWER.encode_mut_str(bytes, &mut digits[..2 * bytes.len()]);
    &text[usize::from(bytes[0] < 0x10)..]
}

/// The content coding that the server can apply.
pub const GZIP: &str = "gzip";

/// The entity tag of the value of `etag` in a `coding`: each representation has its own (RFC 9110, section 8.8.3.3).
pub fn coded_tag(etag: &str, coding: &str) -> String {
    [etag.trim_end_matches('"'), "-", coding, "\""].concat()
}

/// The time at which the file system last changed the name or the bytes of a file, in nanoseconds since 1970. No
/// program can set it.
pub fn changed(stat: &Stat) -> i128 {
    i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec)
}

pub fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

pub fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_is_made_from_one_of_its_date_or_from_one_that_was_not_changed_since() {
        let meta = |version, changed| Meta {
            changed,
            ..Meta::new(1, Version::from_nanos(version))
        };
        for (made, source, is_made) in [
            (meta(10, 50), meta(10, 90), true),
            (meta(9, 50), meta(10, 11), false),
            (meta(10, 50), meta(9, 9), true),
            (meta(12, 50), meta(10, 11), true),
            (meta(99, 50), meta(10, 60), false),
            (meta(11, 50), meta(10, 11), false),
            (meta(i64::MAX.into(), 50), meta(10, i64::MAX), false),
        ] {
            assert_eq!(made.is_made_from(&source), is_made, "{made:?} {source:?}");
        }
    }

    proptest! {
        #[test]
        fn a_tag_is_the_version_and_the_length_in_hexadecimal_digits(
            nanos in prop_oneof![any::<i128>(), any::<i64>().prop_map(i128::from), Just(0)],
            len in prop_oneof![any::<u64>(), 0..300_u64],
        ) {
            let meta = Meta::new(len, Version::from_nanos(nanos));
            prop_assert_eq!(etag(meta), format!("\"{nanos:x}-{len:x}\""));
        }
    }
}
