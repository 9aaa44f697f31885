//! The tar format, by the headers of the crate `tar`: ustar, with records of pax for names that it has no room for;
//! read also with the long names of GNU.
//!
//! [`TarReader`] takes a tar as its bytes arrive, and holds one frame of the body and the names before one member,
//! whatever a tar says of its lengths. (The readers of crates take a name of any length into memory, and stop at
//! attributes that hold a line break: docs/experiments.md.)

use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use tar::{Builder, EntryType, Header};

use crate::http::archives::{BAD_ARCHIVE, NO_TAR};
use crate::http::body::request::FrameSource;
use crate::http::head::syntax::number;
use crate::http::refusal::Refusal;
use crate::store::parse_date;

/// The length of a block, in bytes.
const BLOCK: usize = 512;

/// The longest records or name before a member, in bytes.
const MAX_RECORDS: u64 = 256 << 10;

/// The longest name in a header, in bytes.
const MAX_NAME: usize = 100;

/// A length from which on a header of ustar, with 11 digits to the base 8, has no room for it.
const LONG: u64 = 8 << 30;

/// A length that no file has: sums of shorter ones do not overflow.
const TOO_LONG: u64 = 1 << 62;

/// The first bytes of files that are compressed by gzip, zstd, xz and bzip2, and of zips.
const COMPRESSED: [&[u8]; 5] = [
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ",
    b"BZh",
    b"PK\x03\x04",
];

const SPARSE: &str = "a sparse file (tar without --sparse packs all of its bytes)";

const MALFORMED: Refusal = Refusal::new(BAD_ARCHIVE, "bad tar: a header is malformed");
const CUT_OFF: Refusal = Refusal::new(BAD_ARCHIVE, "bad tar: it ends before its end mark");

/// Appends the header of a member, whose bytes follow.
pub fn begin(out: &mut BytesMut, mut name: &str, mut len: u64, modified: u64) {
    let (mut records, digits) = (Vec::new(), len.to_string());
    // Readers agree on the encoding of a name only in a record.
    if !name.is_ascii() || name.len() > MAX_NAME {
        records.push(("path", name.as_bytes()));
        name = "value";
    }
    if len >= LONG {
        records.push(("size", digits.as_bytes()));
        len = 0;
    }
    let mut pax = Builder::new(Vec::new());
    // Memory takes all that is written.
    let _ = pax.append_pax_extensions(records);
    out.extend_from_slice(pax.get_ref());
    header(out, name, EntryType::Regular, len, modified);
}

fn header(out: &mut BytesMut, name: &str, kind: EntryType, len: u64, modified: u64) {
    let mut header = Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(len);
    header.set_mtime(modified);
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
}

/// Appends what follows `len` bytes, up to the next header.
pub fn end(out: &mut BytesMut, len: u64) {
    out.resize(out.len() + padding(len), 0);
}

/// The end mark.
pub fn end_mark() -> Vec<Bytes> {
    vec![Bytes::from_static(&[0; 2 * BLOCK])]
}

/// Appends the header of records that do not come, between two members: every reader says that the tar is cut off, and
/// makes no file.
pub fn break_off(out: &mut BytesMut) {
    header(out, "broken-off", EntryType::XHeader, BLOCK as u64, 0);
}

/// The number of bytes from the end of `len` bytes to the next block.
fn padding(len: u64) -> usize {
    // Less than a block.
    let over = usize::try_from(len % BLOCK as u64).unwrap_or_default();
    (BLOCK - over) % BLOCK
}

/// A member of a tar.
#[derive(Debug, Default)]
pub struct Member {
    /// Its name, as bytes: what is no UTF-8 is no key.
    pub name: Vec<u8>,
    /// The length of its data, in bytes.
    pub len: u64,
    /// The kind of what is no plain file.
    pub other: Option<&'static str>,
    /// When it was modified, if the tar says it.
    pub date: Option<SystemTime>,
}

/// A tar as it arrives.
pub struct TarReader<'b, F> {
    pub body: &'b mut F,
    /// The bytes that came and were not taken.
    came: Bytes,
    /// The bytes of the member's data that were not taken, and of what follows it.
    left: u64,
    padding: usize,
}

impl<'b, F: FrameSource> TarReader<'b, F> {
    pub fn new(body: &'b mut F) -> Self {
        Self {
            body,
            came: Bytes::new(),
            left: 0,
            padding: 0,
        }
    }

    /// The next member that is no folder; `None` at the end of the tar, and of the body. Skips what was not taken of
    /// the one before.
    pub async fn next(&mut self) -> Result<Option<Member>, Refusal> {
        // What records say of the member behind them.
        let (mut name, mut len, mut sparse, mut date) = (None, None, None, None);
        while let Some(header) = self.header().await? {
            let kind = header.entry_type();
            let own_len = size(&header).ok_or(MALFORMED)?;
            match kind {
                EntryType::XHeader => {
                    let text = self.text(own_len).await?;
                    let mut rest = &*text;
                    while !rest.is_empty() {
                        let (key, value);
                        (key, value, rest) = record(rest).ok_or(MALFORMED)?;
                        match key {
                            b"path" => name = Some(value.to_vec()),
                            b"mtime" => date = parse_date(value),
                            b"size" => len = Some(file_len(number(value)).ok_or(MALFORMED)?),
                            _ if key.starts_with(b"GNU.sparse.") => sparse = Some(SPARSE),
                            _ => {}
                        }
                    }
                }
                EntryType::GNULongName => {
                    let text = self.text(own_len).await?;
                    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
                    name.get_or_insert(text.to_vec());
                }
                // Remarks, and the target of a link.
                EntryType::XGlobalHeader | EntryType::GNULongLink => {
                    self.text(own_len).await?;
                }
                _ => {
                    let name = name.take();
                    let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
                    let (len, other) = (len.take().unwrap_or(own_len), sparse.take());
                    let other = other.or(other_kind(kind));
                    (self.left, self.padding) = (len, padding(len));
                    let date = date.take().or_else(|| date_of(&header));
                    let is_folder = kind.is_dir() || (other.is_none() && name.ends_with(b"/"));
                    if !is_remark(kind) && (len > 0 || !is_folder) {
                        return Ok(Some(Member {
                            name,
                            len,
                            other,
                            date,
                        }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The next bytes of the member, or `None` once all have been taken.
    pub async fn data(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.left == 0 {
            return Ok(None);
        }
        let data = self.take(self.left).await?.ok_or(CUT_OFF)?;
        self.left -= data.len() as u64;
        Ok(Some(data))
    }

    /// The next header, behind the data of the one before; `None` behind the last, where only zeros may follow.
    async fn header(&mut self) -> Result<Option<Header>, Refusal> {
        while self.data().await?.is_some() {}
        let blocks = self.bytes((self.padding + BLOCK) as u64).await?;
        let block = blocks.get(self.padding..).unwrap_or_default();
        if block.len() == BLOCK {
            let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
            if is_zero(block) {
                while let Some(data) = self.take(u64::MAX).await? {
                    if !is_zero(&data) {
                        let why = "bad tar: it goes on behind its end mark";
                        return Err(BAD_ARCHIVE.because(why));
                    }
                }
                return Ok(None);
            }
            let mut header = Header::from_byte_slice(block).clone();
            let sum = header.cksum().ok();
            header.set_cksum();
            if sum == header.cksum().ok() {
                return Ok(Some(header));
            }
        }
        let why = if COMPRESSED.iter().any(|magic| blocks.starts_with(magic)) {
            NO_TAR
        } else if block.len() < BLOCK {
            CUT_OFF
        } else {
            BAD_ARCHIVE.because("bad tar: a header does not have its sum")
        };
        Err(why)
    }

    /// All of the records, or of the name, of this length.
    async fn text(&mut self, len: u64) -> Result<Vec<u8>, Refusal> {
        if len > MAX_RECORDS {
            let why = "bad tar: the attributes of a member are too long";
            return Err(BAD_ARCHIVE.because(why));
        }
        self.padding = padding(len);
        let text = self.bytes(len).await?;
        let is_whole = text.len() as u64 == len;
        is_whole.then_some(text).ok_or(CUT_OFF)
    }

    /// The next `len` bytes, or those that are left of the body.
    async fn bytes(&mut self, len: u64) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < len
            && let Some(data) = self.take(len - bytes.len() as u64).await?
        {
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }

    /// The next bytes, `most` at most; `None` at the end of the body.
    async fn take(&mut self, most: u64) -> Result<Option<Bytes>, Refusal> {
        while self.came.is_empty() {
            match self.body.next_frame().await? {
                Some(came) => self.came = came,
                None => return Ok(None),
            }
        }
        let len = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(Some(self.came.split_to(len.min(self.came.len()))))
    }
}

/// The name and the value of the first record of pax in `text`, and what follows it.
fn record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = text.iter().position(|&byte| byte == b' ')?;
    let len = usize::try_from(number(&text[..space])?).ok()?;
    let record = text.get(space + 1..len)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], &text[len..]))
}

/// The length of the data behind a header; `None` where it is malformed.
fn size(header: &Header) -> Option<u64> {
    file_len(field(&header.as_old().size))
}

/// The date in a header. Programs that know none write 0.
fn date_of(header: &Header) -> Option<SystemTime> {
    let seconds = field(&header.as_old().mtime).filter(|&seconds| seconds > 0)?;
    parse_date(seconds.to_string().as_bytes())
}

/// The number in a field of a header; `None` where it is malformed. The crate `tar` takes a negative number for one of
/// 64 bits, and refuses a field of zero bytes, which GNU tar writes for a label and all programs read as 0.
fn field(field: &[u8; 12]) -> Option<u64> {
    if let [0x80, digits @ ..] = field {
        // To the base 256, of 11 digits.
        let (high, low) = digits.split_at_checked(3)?;
        let low = u64::from_be_bytes(low.try_into().ok()?);
        return high.iter().all(|&digit| digit == 0).then_some(low);
    }
    let end = |byte: &u8| matches!(byte, 0 | b' ');
    let mut digits = field.split(end).skip_while(|part| part.is_empty());
    let Some(digits) = digits.next() else {
        return Some(0);
    };
    let digits = str::from_utf8(digits).ok()?;
    let is_octal = digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    u64::from_str_radix(digits, 8).ok().filter(|_| is_octal)
}

/// The length `len`, if a file can have it.
fn file_len(len: Option<u64>) -> Option<u64> {
    len.filter(|&len| len < TOO_LONG)
}

/// True for what GNU tar writes beside the members: the label of an archive (`--label`), and the names in a folder
/// (`--incremental`).
fn is_remark(kind: EntryType) -> bool {
    matches!(kind.as_byte(), b'V' | b'D')
}

/// What a member of this kind is, unless it is a plain file, and how tar packs the file that it stands for.
fn other_kind(kind: EntryType) -> Option<&'static str> {
    match kind {
        EntryType::Regular | EntryType::Continuous => None,
        EntryType::Link => Some("a hard link (tar --hard-dereference packs its file)"),
        EntryType::Symlink => Some("a symbolic link (tar --dereference packs its file)"),
        EntryType::Char | EntryType::Block => Some("a device"),
        EntryType::Fifo => Some("a named pipe"),
        EntryType::Directory => Some("a folder with data"),
        EntryType::GNUSparse => Some(SPARSE),
        _ => Some("of an unknown kind"),
    }
}

#[cfg(test)]
mod tests {
    use tar::Archive;

    use super::*;

    #[test]
    fn a_length_is_read_as_gnu_tar_reads_it_or_is_malformed() {
        let octal = |text: &[u8]| {
            let mut field = [0; 12];
            field[..text.len()].copy_from_slice(text);
            field
        };
        let base_256 = |first, high: u8, low: u64| {
            let mut field = [0; 12];
            (field[0], field[3]) = (first, high);
            field[4..].copy_from_slice(&low.to_be_bytes());
            field
        };
        let cases = [
            (octal(b""), Some(0)),
            (octal(b"            "), Some(0)),
            (octal(b"00000000017"), Some(15)),
            (octal(b"      17 "), Some(15)),
            (octal(b"17"), Some(15)),
            (octal(b"777777777777"), Some((1 << 36) - 1)),
            (octal(b"18"), None),
            (octal(b"-1"), None),
            (octal(b"+1"), None),
            (base_256(0x80, 0, 9 << 30), Some(9 << 30)),
            (base_256(0x80, 0, TOO_LONG - 1), Some(TOO_LONG - 1)),
            (base_256(0x80, 0, TOO_LONG), None),
            (base_256(0x80, 0, u64::MAX), None),
            // 2^70
            (base_256(0x80, 0x40, 0), None),
            ([0xff; 12], None),
            (base_256(0x81, 0, 1), None),
        ];
        for (field, expected) in cases {
            let mut header = Header::new_gnu();
            header.as_old_mut().size = field;
            assert_eq!(size(&header), expected, "{field:?}");
        }
    }

    #[test]
    fn a_length_that_a_header_has_no_room_for_is_in_a_record() {
        for (name, len) in [("a", LONG - 1), ("a", LONG), ("na\u{ef}ve", 9 << 30)] {
            let mut out = BytesMut::new();
            begin(&mut out, name, len, 0);
            let header = Header::from_byte_slice(&out[out.len() - BLOCK..]);
            let short_len = if len < LONG { len } else { 0 };
            assert_eq!(header.as_ustar().expect("ustar").size[0] & 0x80, 0);
            assert_eq!(header.entry_size().expect("a length"), short_len);
            let mut archive = Archive::new(&out[..]);
            let mut members = archive.entries().expect("members");
            let member = members
                .next()
                .expect("a member")
                .expect("it is well formed");
            assert_eq!(member.size(), len);
            assert_eq!(member.path_bytes(), name.as_bytes());
        }
    }
}
