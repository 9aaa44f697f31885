//! The tar format, by the headers of the crate `tar`: ustar, with records of pax for names that it has no room for; read also with the long
//! names of GNU.
//!
//! [`TarReader`] takes a tar as its bytes arrive, and holds one frame of the body and the names before one member, whatever a tar says
//! of its lengths. (The readers of crates take a name of any length into memory, and stop at attributes that hold a line break.)

use bytes::{Bytes, BytesMut};
use tar::{EntryType, Header};

use crate::http::archives::BadArchive;
use crate::http::forms::perform::Frames;
use crate::http::refusal::Refusal;

/// The length of a block, in bytes.
const BLOCK: usize = 512;

/// The longest records or name before a member, in bytes.
const MAX_RECORDS: u64 = 256 << 10;

/// The longest name in a header, in bytes.
const MAX_NAME: usize = 100;

/// A length from which on a header of ustar, with 11 digits to the base 8, has no room for it.
const LONG: u64 = 8 << 30;

/// A length that no member has: sums of shorter ones do not overflow.
const TOO_LONG: u64 = 1 << 62;

/// The first bytes of files that are compressed by gzip, zstd, xz and bzip2.
const COMPRESSED: [&[u8]; 4] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh"];

const MALFORMED: BadArchive = BadArchive::Tar("a header is malformed");
const CUT_OFF: BadArchive = BadArchive::Tar("it ends before its end mark");

/// Appends the header of a value.
pub fn begin(out: &mut BytesMut, name: &str, len: u64, modified: u64) {
    // Readers agree on the encoding of a name only in a record.
    let is_plain = name.is_ascii() && name.len() <= MAX_NAME;
    let (mut records, mut short, mut short_len) = (String::new(), name, len);
    if !is_plain {
        (records, short) = (record("path", name), "value");
    }
    if len >= LONG {
        records += &record("size", &len.to_string());
        short_len = 0;
    }
    if !records.is_empty() {
        let (name, len) = ("PaxHeaders/value", records.len() as u64);
        append(out, EntryType::XHeader, name, len, 0);
        out.extend_from_slice(records.as_bytes());
        end(out, len);
    }
    append(out, EntryType::Regular, short, short_len, modified);
}

/// A record, which begins with its own length.
fn record(name: &str, value: &str) -> String {
    let rest = format!(" {name}={value}\n");
    let digits = |len: usize| len.to_string().len();
    let len = rest.len() + digits(rest.len() + digits(rest.len()));
    format!("{len}{rest}")
}

fn append(out: &mut BytesMut, kind: EntryType, name: &str, len: u64, modified: u64) {
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

/// Appends the end mark.
pub fn finish(out: &mut BytesMut) {
    out.resize(out.len() + 2 * BLOCK, 0);
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
}

/// A tar as it arrives.
pub struct TarReader<'b, F> {
    pub body: &'b mut F,
    /// The bytes that came and were not taken.
    came: Bytes,
    /// The bytes of the member's data that were not taken, and of what follows it.
    left: u64,
    padding: usize,
    has_begun: bool,
}

impl<'b, F: Frames> TarReader<'b, F> {
    pub fn new(body: &'b mut F) -> Self {
        Self {
            body,
            came: Bytes::new(),
            left: 0,
            padding: 0,
            has_begun: false,
        }
    }

    /// The next member that is no folder; `None` at the end of the tar, and of the body. Skips what was not taken of the one before.
    pub async fn next(&mut self) -> Result<Option<Member>, Refusal> {
        // What records say of the member behind them.
        let (mut name, mut len, mut is_sparse) = (None, None, false);
        while let Some(header) = self.header().await? {
            let kind = header.entry_type();
            let own_len = header.entry_size().unwrap_or(TOO_LONG);
            if own_len >= TOO_LONG {
                return Err(MALFORMED.into());
            }
            match kind {
                EntryType::XHeader => {
                    let text = self.text(own_len).await?;
                    for (key, value) in records(&text)? {
                        match key {
                            b"path" => name = Some(value.to_vec()),
                            b"size" => {
                                let text = std::str::from_utf8(value).ok();
                                len = Some(
                                    text.and_then(|text| text.parse().ok()).unwrap_or(TOO_LONG),
                                );
                            }
                            key => is_sparse |= key.starts_with(b"GNU.sparse."),
                        }
                    }
                }
                EntryType::GNULongName => {
                    let mut text = self.text(own_len).await?;
                    let end = text.iter().position(|&byte| byte == 0);
                    text.truncate(end.unwrap_or(text.len()));
                    name.get_or_insert(text);
                }
                // Remarks, and the target of a link.
                EntryType::XGlobalHeader | EntryType::GNULongLink => {
                    self.text(own_len).await?;
                }
                _ => {
                    let other = if is_sparse {
                        Some("a sparse file")
                    } else {
                        other(kind)
                    };
                    let (name, len) = (name.take(), len.take().unwrap_or(own_len));
                    if len >= TOO_LONG {
                        return Err(MALFORMED.into());
                    }
                    let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
                    self.begin(len);
                    let is_folder = kind.is_dir() || (other.is_none() && name.ends_with(b"/"));
                    if len > 0 || !is_folder {
                        return Ok(Some(Member { name, len, other }));
                    }
                    is_sparse = false;
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
        self.block(self.padding).await?;
        let block = self.block(BLOCK).await?;
        self.padding = 0;
        if block.iter().any(|&byte| byte != 0) {
            let header = Header::from_byte_slice(&block);
            if header.cksum().ok() != Some(sum(&block)) {
                return Err(BadArchive::Tar("a header does not have its sum").into());
            }
            self.has_begun = true;
            return Ok(Some(header.clone()));
        }
        while let Some(data) = self.take(u64::MAX).await? {
            if data.iter().any(|&byte| byte != 0) {
                return Err(BadArchive::Tar("it goes on behind its end mark").into());
            }
        }
        Ok(None)
    }

    /// The next `len` bytes.
    async fn block(&mut self, len: usize) -> Result<Vec<u8>, Refusal> {
        let mut block = Vec::with_capacity(len);
        while block.len() < len
            && let Some(data) = self.take((len - block.len()) as u64).await?
        {
            block.extend_from_slice(&data);
        }
        if !self.has_begun && COMPRESSED.iter().any(|magic| block.starts_with(magic)) {
            return Err(BadArchive::Coding.into());
        }
        let is_whole = block.len() == len;
        Ok(is_whole.then_some(block).ok_or(CUT_OFF)?)
    }

    /// All of the records, or of the name, of this length.
    async fn text(&mut self, len: u64) -> Result<Vec<u8>, Refusal> {
        if len > MAX_RECORDS {
            return Err(BadArchive::Tar("the attributes of a member are too long").into());
        }
        self.begin(len);
        let mut text = Vec::new();
        while let Some(data) = self.data().await? {
            text.extend_from_slice(&data);
        }
        Ok(text)
    }

    fn begin(&mut self, len: u64) {
        (self.left, self.padding) = (len, padding(len));
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

/// The name and the value of a record.
type Record<'a> = (&'a [u8], &'a [u8]);

/// The records of pax in `text`, by their names.
fn records(mut text: &[u8]) -> Result<Vec<Record<'_>>, BadArchive> {
    let mut records = Vec::new();
    while !text.is_empty() {
        let record = || {
            let space = text.iter().position(|&byte| byte == b' ')?;
            let len: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
            let record = text.get(space + 1..len)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|&byte| byte == b'=')?;
            Some((&record[..equals], &record[equals + 1..], &text[len..]))
        };
        let (name, value, rest) = record().ok_or(MALFORMED)?;
        records.push((name, value));
        text = rest;
    }
    Ok(records)
}

/// The sum of a header, whose own field counts as spaces.
fn sum(block: &[u8]) -> u32 {
    let (before, behind) = (&block[..148], &block[156..]);
    let bytes = before.iter().chain(behind).map(|&byte| u32::from(byte));
    bytes.sum::<u32>() + 8 * u32::from(b' ')
}

/// What a member of this kind is, unless it is a plain file.
fn other(kind: EntryType) -> Option<&'static str> {
    match kind {
        EntryType::Regular | EntryType::Continuous => None,
        EntryType::Link | EntryType::Symlink => Some("a link"),
        EntryType::Char | EntryType::Block => Some("a device"),
        EntryType::Fifo => Some("a named pipe"),
        EntryType::Directory => Some("a folder with data"),
        EntryType::GNUSparse => Some("a sparse file"),
        _ => Some("of an unknown kind"),
    }
}

#[cfg(test)]
mod tests {
    use tar::Archive;

    use super::*;

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
