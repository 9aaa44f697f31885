//! The records of a zip (APPNOTE 6.3), for values that are sent as they are read: the sum of a value follows it, in a
//! data descriptor.
//!
//! Values are not compressed, but in the blocks of deflate for that (RFC 1951, section 3.2.4): programs that read a zip
//! as a stream, such as those in Java, find the end of a member by its blocks, and refuse one that is stored without
//! them and whose length follows it.
//!
//! The crates that write zips keep more than the directory of each member until the end, or change names that another
//! system could not have (docs/experiments.md). Here the directory is kept as it will be sent. Times are in UTC. Pure:
//! knows no value and no socket.

use std::borrow::Cow;
use std::mem;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};

/// The bytes of the directory that are sent at once.
const CHUNK: usize = 64 << 10;

/// A number from which on a record has 64 bits for it.
const LONG: u64 = u32::MAX as u64;

/// Names are UTF-8, and the sum and the length of a member follow it.
const FLAGS: u64 = 0x0808;

/// The method deflate.
const DEFLATE: u64 = 8;

/// The most bytes of a block of deflate that is not compressed, and the bytes before it.
const BLOCK: u64 = u16::MAX as u64;
const BLOCK_HEAD: u64 = 5;

/// The versions of the format that a member needs, without and with numbers of 64 bits.
const VERSION: u64 = 20;
const LONG_VERSION: u64 = 45;

/// In the directory all is made by that version, on Unix, which has modes.
const MADE_BY: u64 = 3 << 8 | LONG_VERSION;

/// The most bytes that a member of this name has in the directory.
pub fn record_len(name: &str) -> usize {
    46 + name.len() + 9 + 28
}

/// A zip that is being sent.
#[derive(Debug, Default)]
pub struct Zip {
    /// The member whose bytes are being sent, the second in which it was written, and the place of its header.
    name: Box<str>,
    len: u64,
    /// Its bytes that did not come yet, and those of them in the block that has begun.
    left: u64,
    left_in_block: u64,
    modified: u64,
    header: u64,
    /// The bytes up to its end.
    sent: u64,
    members: u64,
    directory: Vec<Bytes>,
    /// The last records of the directory.
    records: BytesMut,
    /// The bytes of the directory.
    pub directory_len: usize,
}

impl Zip {
    /// Appends the header of a member, whose bytes follow.
    pub fn begin(&mut self, out: &mut BytesMut, name: &str, len: u64, modified: u64) {
        self.name = inside(name).into();
        (self.len, self.modified, self.header) = (len, modified, self.sent);
        let (before, is_short) = (out.len(), packed(len) < LONG);
        append(out, b"4", &[0x0403_4b50]);
        // The sum and the lengths are told behind the member, and with them how many bits they have.
        let told = if is_short { 0 } else { LONG };
        let long: &[u64] = if is_short { &[] } else { &[0, 0] };
        self.describe(out, 0, [told, told], &[], long);
        self.sent += (out.len() - before) as u64 + packed(len);
        (self.left, self.left_in_block) = (len, 0);
        if len == 0 {
            self.begin_block(out);
        }
    }

    /// Appends the next `bytes` of the member.
    pub fn append(&mut self, out: &mut BytesMut, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left_in_block == 0 {
                self.begin_block(out);
            }
            let most = usize::try_from(self.left_in_block).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(most.min(bytes.len()));
            out.extend_from_slice(now);
            self.left_in_block -= now.len() as u64;
            bytes = later;
        }
    }

    fn begin_block(&mut self, out: &mut BytesMut) {
        let len = self.left.min(BLOCK);
        self.left -= len;
        self.left_in_block = len;
        append(out, b"122", &[u64::from(self.left == 0), len, !len]);
    }

    /// Appends the end of the member, whose bytes have this `sum`, and adds it to the directory.
    pub fn end(&mut self, out: &mut BytesMut, sum: u32) {
        let (before, len, header, sum) = (out.len(), self.len, self.header, sum.into());
        let packed = packed(len);
        let widths: &[u8] = if packed < LONG { b"4444" } else { b"4488" };
        append(out, widths, &[0x0807_4b50, sum, packed, len]);
        self.sent += (out.len() - before) as u64;

        let mut long = vec![len, packed, header];
        long.retain(|&n| n >= LONG);
        let mut out = mem::take(&mut self.records);
        let before = out.len();
        append(&mut out, b"42", &[0x0201_4b50, MADE_BY]);
        // No comment, disk and attributes of DOS.
        let own = [0, 0, 0, 0o100_644 << 16, header.min(LONG)];
        let lens = [packed, len].map(|len| len.min(LONG));
        self.describe(&mut out, sum, lens, &own, &long);
        self.directory_len += out.len() - before;
        self.members += 1;
        if out.len() >= CHUNK {
            self.directory.push(out.split().freeze());
        }
        self.records = out;
    }

    /// Appends what the header of the member and its record in the directory have in common, with the fields of only
    /// one as its `own`.
    fn describe(&self, out: &mut BytesMut, sum: u64, lens: [u64; 2], own: &[u64], long: &[u64]) {
        let (mut needs, mut extra, long_len) = (VERSION, 9, 8 * long.len() as u64);
        if long_len > 0 {
            (needs, extra) = (LONG_VERSION, 13 + long_len);
        }
        let (time, name_len) = (dos_time(self.modified), self.name.len() as u64);
        append(out, b"22244", &[needs, FLAGS, DEFLATE, time, sum]);
        append(out, b"4422", &[lens[0], lens[1], name_len, extra]);
        append(out, b"22244", own);
        out.extend_from_slice(self.name.as_bytes());
        // The second since 1970, as far as 32 bits have it.
        let second = self.modified.min(i32::MAX as u64);
        append(out, b"2214", &[0x5455, 5, 1, second]);
        if long_len > 0 {
            append(out, b"22", &[1, long_len]);
            append(out, b"888", long);
        }
    }

    /// The directory, with which the zip ends.
    pub fn finish(self) -> Vec<Bytes> {
        let (offset, len, count) = (self.sent, self.directory_len as u64, self.members);
        let (mut directory, mut out) = (self.directory, self.records);
        if count >= u16::MAX.into() || offset + len >= LONG {
            append(&mut out, b"4822", &[0x0606_4b50, 44, MADE_BY, LONG_VERSION]);
            append(&mut out, b"448888", &[0, 0, count, count, len, offset]);
            append(&mut out, b"4484", &[0x0706_4b50, 0, offset + len, 1]);
        }
        let low = count.min(u16::MAX.into());
        append(&mut out, b"42222", &[0x0605_4b50, 0, 0, low, low]);
        append(&mut out, b"442", &[len.min(LONG), offset.min(LONG), 0]);
        directory.push(out.freeze());
        directory
    }
}

/// The length of `len` bytes in blocks.
fn packed(len: u64) -> u64 {
    len + BLOCK_HEAD * len.div_ceil(BLOCK).max(1)
}

/// The `name` of a key, as one that no program unpacks outside of its folder: programs of Windows take a `\` for a `/`,
/// and a letter with a `:` for a drive. Such a name has `_` in the place of each; others stay as they are.
fn inside(name: &str) -> Cow<'_, str> {
    let has_drive = name.get(1..2) == Some(":") && name.starts_with(|c: char| c.is_alphabetic());
    let leads_up = name.split(['/', '\\']).any(|segment| segment == "..");
    if !(has_drive || leads_up || name.starts_with('\\')) {
        return Cow::Borrowed(name);
    }
    let mut name = name.replace('\\', "_");
    if has_drive {
        name.replace_range(1..2, "_");
    }
    Cow::Owned(name)
}

/// Appends numbers of these widths in bytes.
fn append(out: &mut BytesMut, widths: &[u8], numbers: &[u64]) {
    for (number, width) in numbers.iter().zip(widths) {
        out.extend_from_slice(&number.to_le_bytes()[..usize::from(width - b'0')]);
    }
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
    fn a_name_that_leads_out_of_its_folder_on_windows_is_written_otherwise() {
        for (name, written) in [
            (r"..\..\evil.txt", ".._.._evil.txt"),
            (r"a/..\..\evil.txt", "a/.._.._evil.txt"),
            (r"a\..", "a_.."),
            (r"\evil.txt", "_evil.txt"),
            (r"\\host\evil.txt", "__host_evil.txt"),
            (r"C:\evil.txt", "C__evil.txt"),
            ("c:evil.txt", "c_evil.txt"),
            ("c:/evil.txt", "c_/evil.txt"),
            (r"b\c", r"b\c"),
            (r"a..\..b", r"a..\..b"),
            ("cc:d", "cc:d"),
            ("1:2", "1:2"),
            ("a/c:d", "a/c:d"),
            ("a", "a"),
            ("\u{e4}", "\u{e4}"),
        ] {
            assert_eq!(inside(name), written);
            assert_eq!(inside(name).len(), name.len());
        }
    }

    #[test]
    fn a_length_in_blocks_is_known_before_they_are_sent() {
        for len in [0, 1, 65_534, 65_535, 65_536, 131_070, 131_071, 1_000_000] {
            for chunk in [1_000, 65_535, 100_000] {
                let (mut zip, mut out) = (Zip::default(), BytesMut::new());
                zip.begin(&mut out, "a", len, 0);
                let value = vec![7; usize::try_from(len).unwrap()];
                value
                    .chunks(chunk)
                    .for_each(|part| zip.append(&mut out, part));
                assert_eq!(out.len() as u64, zip.sent, "{len} by {chunk}");
            }
        }
        assert_eq!(packed(LONG - 1) - (LONG - 1), 65_537 * BLOCK_HEAD);
    }

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
