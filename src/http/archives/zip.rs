//! The records of a zip (APPNOTE 6.3), for values that are stored as they are and sent as they are read: the sum of a value follows it, in a
//! data descriptor.
//!
//! The crates that write zips keep a few hundred bytes of each member until the end, or change names that another system could not have. Here
//! the directory is kept as it will be sent. Times are in UTC. Pure: knows no value and no socket.

use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use crc32fast::Hasher;

/// The bytes of the directory that are sent at once.
const CHUNK: usize = 64 << 10;

/// A number from which on a record has 64 bits for it.
const LONG: u64 = u32::MAX as u64;

/// Names are UTF-8, and the sum and the length of a member follow it.
const FLAGS: u64 = 0x0808;

/// The versions of the format without and with numbers of 64 bits. In the directory they are of Unix, which has modes.
const VERSION: u64 = 20;
const LONG_VERSION: u64 = 45;
const UNIX: u64 = 3 << 8;

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
        let (before, time, name_len) = (out.len(), dos_time(modified), name.len() as u64);
        // The sum and the lengths are told behind the member, and with them how many bits they have.
        let (needs, lens, extra) = if len < LONG {
            (VERSION, 0, 9)
        } else {
            (LONG_VERSION, LONG, 29)
        };
        let fields = [
            0x0403_4b50,
            needs,
            FLAGS,
            0,
            time,
            0,
            lens,
            lens,
            name_len,
            extra,
        ];
        append(out, b"4222444422", &fields);
        out.extend_from_slice(name.as_bytes());
        append_time(out, modified);
        if len >= LONG {
            append(out, b"2288", &[1, 16, 0, 0]);
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

    /// Appends the end of the member, and adds it to the directory.
    pub fn end(&mut self, out: &mut BytesMut) {
        let Some(member) = self.member.take() else {
            return;
        };
        let (before, len, offset) = (out.len(), member.len, member.offset);
        let sum = member.sum.finalize().into();
        let widths: &[u8] = if len < LONG { b"4444" } else { b"4488" };
        append(out, widths, &[0x0807_4b50, sum, len, len]);
        self.sent += (out.len() - before) as u64;

        let long: Vec<u64> = [len, len, offset]
            .into_iter()
            .filter(|&n| n >= LONG)
            .collect();
        let (needs, extra) = match 8 * long.len() as u64 {
            0 => (VERSION, 9),
            bytes => (LONG_VERSION, 9 + 4 + bytes),
        };
        let (time, name_len) = (dos_time(member.modified), member.name.len() as u64);
        let (low_len, low_offset, mode) = (len.min(LONG), offset.min(LONG), 0o100_644 << 16);
        let out = &mut self.records;
        let before = out.len();
        // No compression, comment, disk and attributes of DOS.
        append(
            out,
            b"422224",
            &[0x0201_4b50, UNIX | needs, needs, FLAGS, 0, time],
        );
        append(out, b"44422", &[sum, low_len, low_len, name_len, extra]);
        append(out, b"22244", &[0, 0, 0, mode, low_offset]);
        out.extend_from_slice(member.name.as_bytes());
        append_time(out, member.modified);
        if !long.is_empty() {
            append(out, b"22", &[1, 8 * long.len() as u64]);
            append(out, b"888", &long);
        }
        self.directory_len += out.len() - before;
        self.members += 1;
        if out.len() >= CHUNK {
            self.directory.push(out.split().freeze());
        }
    }

    /// The directory, with which the zip ends.
    pub fn finish(&mut self) -> Vec<Bytes> {
        let (offset, len, count) = (self.sent, self.directory_len as u64, self.members);
        let out = &mut self.records;
        if count >= u16::MAX.into() || offset + len >= LONG {
            append(out, b"48", &[0x0606_4b50, 44]);
            append(out, b"2244", &[UNIX | LONG_VERSION, LONG_VERSION, 0, 0]);
            append(out, b"8888", &[count, count, len, offset]);
            append(out, b"4484", &[0x0706_4b50, 0, offset + len, 1]);
        }
        let low = count.min(u16::MAX.into());
        append(out, b"42222", &[0x0605_4b50, 0, 0, low, low]);
        append(out, b"442", &[len.min(LONG), offset.min(LONG), 0]);
        let last = out.split().freeze();
        self.directory.push(last);
        std::mem::take(&mut self.directory)
    }
}

/// Appends numbers of these widths in bytes.
fn append(out: &mut BytesMut, widths: &[u8], numbers: &[u64]) {
    for (number, width) in numbers.iter().zip(widths) {
        out.extend_from_slice(&number.to_le_bytes()[..usize::from(width - b'0')]);
    }
}

/// Appends the second since 1970 in which the member was written, as far as 32 bits have it.
fn append_time(out: &mut BytesMut, modified: u64) {
    append(out, b"2214", &[0x5455, 5, 1, modified.min(i32::MAX as u64)]);
}

/// The time and the date of DOS, which begins in 1980 and ends in 2107, and knows every other second.
fn dos_time(modified: u64) -> u64 {
    let time = UNIX_EPOCH + Duration::from_secs(modified.clamp(315_532_800, 4_354_819_198));
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let mut numbers = text.split(['-', 'T', ':', 'Z']).map(str::parse::<u64>);
    let [year, month, day, hour, minute, second] =
        [(); 6].map(|()| numbers.next().and_then(Result::ok).unwrap_or_default());
    let date = year.saturating_sub(1980) << 9 | month << 5 | day;
    date << 16 | hour << 11 | minute << 5 | (second / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_one_of_dos_in_its_century() {
        let date = |year: u64, month: u64, day: u64| ((year - 1980) << 9) + (month << 5) + day;
        let time = |hour: u64, minute: u64, second: u64| (hour << 11) + (minute << 5) + second / 2;
        let known = (date(2026, 11, 28) << 16) + time(12, 34, 56);
        assert_eq!(dos_time(1_795_869_297), known);
        assert_eq!(dos_time(0), date(1980, 1, 1) << 16);
        let last = (date(2107, 12, 31) << 16) + time(23, 59, 58);
        assert_eq!(dos_time(u64::MAX), last);
    }
}
