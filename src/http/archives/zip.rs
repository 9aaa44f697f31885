//! The records of a zip (APPNOTE 6.3), for values that are stored as they are and sent as they are read: the sum and the length of a value
//! follow it, in a data descriptor.
//!
//! The crates that write zips keep a few hundred bytes of each member until the end, or change names that another system could not have. Here
//! the directory is kept as it will be sent. Times are in UTC. Pure: knows no value and no socket.

use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use crc32fast::Hasher;

/// The bytes of the directory that are sent at once.
const CHUNK: usize = 64 << 10;

/// A length from which on a record has 64 bits for it.
const LONG: u64 = u32::MAX as u64;

/// Names are UTF-8, and the sum and the length of a member follow it.
const FLAGS: u16 = 0x0808;

/// The version of the format that is needed to read a member, by its length: 4.5 has 64 bits.
fn version(is_long: bool) -> u16 {
    if is_long { 45 } else { 20 }
}

/// The most bytes that a member of this name has in the directory.
pub fn record_len(name: &str) -> usize {
    46 + name.len() + 9 + 28
}

/// A member whose bytes are being sent.
#[derive(Debug)]
struct Member {
    name: Box<str>,
    len: u64,
    modified: u64,
    /// The place of its header.
    offset: u64,
    sum: Hasher,
}

/// A zip that is being sent.
#[derive(Debug, Default)]
pub struct Zip {
    member: Option<Member>,
    /// The bytes that were sent.
    sent: u64,
    members: u64,
    directory: Vec<Bytes>,
    /// The last records of the directory.
    records: BytesMut,
    /// The bytes of the directory.
    pub directory_len: usize,
}

impl Zip {
    /// Appends the header of a member. Its bytes are then to be noted, as many as `len`.
    pub fn begin(&mut self, out: &mut BytesMut, name: &str, len: u64, modified: u64) {
        let (before, is_long) = (out.len(), len >= LONG);
        append(out, 4, 0x0403_4b50);
        append(out, 2, version(is_long).into());
        append(out, 2, FLAGS.into());
        append(out, 2, 0);
        append(out, 4, dos_time(modified));
        // The sum, and both lengths, which are told behind the member.
        append(out, 4, 0);
        append(out, 8, if is_long { u64::MAX } else { 0 });
        append(out, 2, name.len() as u64);
        append(out, 2, if is_long { 29 } else { 9 });
        out.extend_from_slice(name.as_bytes());
        append_time(out, modified);
        if is_long {
            append(out, 4, 0x0010_0001);
            append(out, 16, 0);
        }
        self.member = Some(Member {
            name: name.into(),
            len,
            modified,
            offset: self.sent,
            sum: Hasher::new(),
        });
        self.sent += (out.len() - before) as u64;
    }

    /// Notes the next bytes of the member.
    pub fn note(&mut self, bytes: &[u8]) {
        if let Some(member) = &mut self.member {
            member.sum.update(bytes);
        }
        self.sent += bytes.len() as u64;
    }

    /// Appends the end of the member.
    pub fn end(&mut self, out: &mut BytesMut) {
        let Some(member) = self.member.take() else {
            return;
        };
        let (before, is_long) = (out.len(), member.len >= LONG);
        let sum = member.sum.clone().finalize();
        append(out, 4, 0x0807_4b50);
        append(out, 4, sum.into());
        for _ in 0..2 {
            append(out, if is_long { 8 } else { 4 }, member.len);
        }
        self.sent += (out.len() - before) as u64;
        self.record(&member, sum);
    }

    /// Adds a member to the directory.
    fn record(&mut self, member: &Member, sum: u32) {
        let out = &mut self.records;
        let before = out.len();
        let long = [member.len, member.len, member.offset];
        let is_long = long.map(|number| number >= LONG);
        let longs = 8 * is_long.iter().filter(|&&is_long| is_long).count();
        let needs = version(longs > 0);
        append(out, 4, 0x0201_4b50);
        // Of Unix, which has modes.
        append(out, 2, (3 << 8 | needs).into());
        append(out, 2, needs.into());
        append(out, 2, FLAGS.into());
        append(out, 2, 0);
        append(out, 4, dos_time(member.modified));
        append(out, 4, sum.into());
        append(out, 4, member.len.min(LONG));
        append(out, 4, member.len.min(LONG));
        append(out, 2, member.name.len() as u64);
        let extra = if longs > 0 { 4 + longs } else { 0 };
        append(out, 2, 9 + extra as u64);
        // No comment, the first disk, no attributes of DOS, a file with the mode 644.
        append(out, 6, 0);
        append(out, 4, 0o100_644 << 16);
        append(out, 4, member.offset.min(LONG));
        out.extend_from_slice(member.name.as_bytes());
        append_time(out, member.modified);
        if longs > 0 {
            append(out, 2, 1);
            append(out, 2, longs as u64);
        }
        for (number, is_long) in long.into_iter().zip(is_long) {
            if is_long {
                append(out, 8, number);
            }
        }
        self.directory_len += out.len() - before;
        self.members += 1;
        if out.len() >= CHUNK {
            self.directory.push(out.split().freeze());
        }
    }

    /// The directory, with which the zip ends.
    pub fn finish(&mut self) -> Vec<Bytes> {
        let (offset, len, members) = (self.sent, self.directory_len as u64, self.members);
        let out = &mut self.records;
        if members >= u16::MAX.into() || offset + len >= LONG {
            append(out, 4, 0x0606_4b50);
            append(out, 8, 44);
            append(out, 2, (3 << 8 | version(true)).into());
            append(out, 2, version(true).into());
            append(out, 8, 0);
            for number in [members, members, len, offset] {
                append(out, 8, number);
            }
            append(out, 4, 0x0706_4b50);
            append(out, 4, 0);
            append(out, 8, offset + len);
            append(out, 4, 1);
        }
        append(out, 4, 0x0605_4b50);
        append(out, 4, 0);
        for _ in 0..2 {
            append(out, 2, members.min(u16::MAX.into()));
        }
        append(out, 4, len.min(LONG));
        append(out, 4, offset.min(LONG));
        append(out, 2, 0);
        let last = out.split().freeze();
        let mut directory = std::mem::take(&mut self.directory);
        directory.push(last);
        directory
    }
}

/// Appends the low `width` bytes of a number; what has more than eight is filled with zeros.
fn append(out: &mut BytesMut, width: usize, number: u64) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&bytes[..width]);
}

/// Appends the second since 1970 in which the member was written, as long as 32 bits have it.
fn append_time(out: &mut BytesMut, modified: u64) {
    append(out, 2, 0x5455);
    append(out, 2, 5);
    append(out, 1, 1);
    append(out, 4, modified.min(i32::MAX as u64));
}

/// The time and the date of DOS, which begins in 1980 and ends in 2107, and knows every other second.
fn dos_time(modified: u64) -> u64 {
    const FIRST: u64 = 315_532_800;
    const LAST: u64 = 4_354_819_198;
    let time = UNIX_EPOCH + Duration::from_secs(modified.clamp(FIRST, LAST));
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let mut numbers = text.split(['-', 'T', ':', 'Z']).map(str::parse::<u64>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    let (year, month, day) = (next(), next(), next());
    let (hour, minute, second) = (next(), next(), next());
    let date = year.saturating_sub(1980) << 9 | month << 5 | day;
    date << 16 | hour << 11 | minute << 5 | second / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_one_of_dos_in_its_century() {
        // 2026-11-28 12:34:57
        let known = (46 << 9 | 11 << 5 | 28) << 16 | 12 << 11 | 34 << 5 | 28;
        assert_eq!(dos_time(1_795_869_297), known);
        assert_eq!(dos_time(0), (1 << 5 | 1) << 16);
        let last = (127 << 9 | 12 << 5 | 31) << 16 | 23 << 11 | 59 << 5 | 29;
        assert_eq!(dos_time(u64::MAX), last);
    }
}
