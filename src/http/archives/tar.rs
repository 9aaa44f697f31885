//! The tar format, by the headers of the crate `tar`: ustar, with records of pax for names and lengths that it has no room for; read also
//! with the long names of GNU.
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

/// A length from which on a header has no digits for it.
const LONG: u64 = 1 << 33;

/// The first bytes of files that are compressed by gzip, zstd, xz and bzip2.
const COMPRESSED: [&[u8]; 4] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh"];

/// Appends the header of a value.
pub fn begin(out: &mut BytesMut, name: &str, len: u64, modified: u64) {
    let mut header = Header::new_ustar();
    header.set_mode(0o644);
    header.set_mtime(modified);
    header.set_size(len);
    let mut records = String::new();
    // Readers agree on the encoding of a name only in a record.
    let fits = name.is_ascii() && name.len() <= MAX_NAME;
    if !fits {
        records += &record("path", name);
    }
    if len >= LONG {
        records += &record("size", &len.to_string());
    }
    if !records.is_empty() {
        let mut before = Header::new_ustar();
        before.set_entry_type(EntryType::XHeader);
        before.set_mode(0o644);
        before.set_size(records.len() as u64);
        set_name(&mut before, "PaxHeaders/value");
        append(out, &mut before);
        out.extend_from_slice(records.as_bytes());
        end(out, records.len() as u64);
    }
    set_name(&mut header, if fits { name } else { "value" });
    append(out, &mut header);
}

/// Appends what follows `len` bytes, up to the next header.
pub fn end(out: &mut BytesMut, len: u64) {
    out.resize(out.len() + padding(len), 0);
}

/// The end mark of a tar.
pub fn finish(out: &mut BytesMut) {
    out.resize(out.len() + 2 * BLOCK, 0);
}

fn set_name(header: &mut Header, name: &str) {
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
}

fn append(out: &mut BytesMut, header: &mut Header) {
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
}

/// A record of pax, which begins with its own length.
fn record(name: &str, value: &str) -> String {
    let rest = name.len() + value.len() + 3;
    let digits = |len: usize| len.to_string().len();
    let len = rest + digits(rest + digits(rest));
    format!("{len} {name}={value}\n")
}

/// The number of bytes from the end of `len` bytes to the next block.
fn padding(len: u64) -> usize {
    // Less than a block.
    let over = usize::try_from(len % BLOCK as u64).unwrap_or_default();
    (BLOCK - over) % BLOCK
}

/// A member of a tar.
#[derive(Debug)]
pub struct Member {
    /// Its name, as bytes: what is no UTF-8 is no key.
    pub name: Vec<u8>,
    /// The length of its data, in bytes.
    pub len: u64,
    /// The kind of what is no plain file.
    pub other: Option<&'static str>,
}

/// The facts that the records before a member say of it.
#[derive(Debug, Default)]
struct Records {
    name: Option<Vec<u8>>,
    len: Option<u64>,
    is_sparse: bool,
}

/// A tar as it arrives.
pub struct TarReader<'b, F> {
    pub body: &'b mut F,
    /// The bytes that came and were not taken.
    came: Bytes,
    /// The bytes of the member's data that were not taken, and of what follows it.
    left: u64,
    padding: u64,
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
        let mut records = Records::default();
        while let Some(header) = self.header().await? {
            let kind = header.entry_type();
            let len = match header.entry_size() {
                Ok(len) if len < 1 << 62 => len,
                _ => return Err(BadArchive::Header.into()),
            };
            match kind {
                EntryType::XHeader => {
                    let text = self.text(len).await?;
                    records.read(&text).ok_or(BadArchive::Header)?;
                }
                EntryType::XGlobalHeader => {
                    let (text, mut of_all) = (self.text(len).await?, Records::default());
                    of_all.read(&text).ok_or(BadArchive::Header)?;
                    if of_all.name.is_some() || of_all.len.is_some() || of_all.is_sparse {
                        return Err(BadArchive::Header.into());
                    }
                }
                EntryType::GNULongName => {
                    let text = self.text(len).await?;
                    let end = text.iter().position(|&byte| byte == 0);
                    let name = text[..end.unwrap_or(text.len())].to_vec();
                    records.name.get_or_insert(name);
                }
                // The target of a link.
                EntryType::GNULongLink => drop(self.text(len).await?),
                _ => {
                    let records = std::mem::take(&mut records);
                    let name = records.name;
                    let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
                    let len = records.len.unwrap_or(len);
                    let other = if records.is_sparse {
                        Some("a sparse file")
                    } else {
                        other(kind)
                    };
                    let is_folder = kind.is_dir() || (other.is_none() && name.ends_with(b"/"));
                    if is_folder && len == 0 {
                        continue;
                    }
                    self.begin(len);
                    return Ok(Some(Member { name, len, other }));
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
        let data = self.take(self.left).await?.ok_or(BadArchive::Ends)?;
        self.left -= data.len() as u64;
        Ok(Some(data))
    }

    /// The next header, behind the data of the one before; `None` behind the last.
    async fn header(&mut self) -> Result<Option<Header>, Refusal> {
        while self.data().await?.is_some() {}
        while self.padding > 0 {
            let skipped = self.take(self.padding).await?.ok_or(BadArchive::Ends)?;
            self.padding -= skipped.len() as u64;
        }
        let mut block = Vec::with_capacity(BLOCK);
        while block.len() < BLOCK
            && let Some(data) = self.take((BLOCK - block.len()) as u64).await?
        {
            block.extend_from_slice(&data);
        }
        if !self.has_begun && COMPRESSED.iter().any(|magic| block.starts_with(magic)) {
            return Err(BadArchive::Compressed.into());
        }
        if block.len() < BLOCK {
            return Err(BadArchive::Ends.into());
        }
        if block.iter().all(|&byte| byte == 0) {
            self.end().await?;
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block);
        if header.cksum().ok() != Some(sum(&block)) {
            return Err(BadArchive::Sum.into());
        }
        self.has_begun = true;
        Ok(Some(header.clone()))
    }

    /// Receives what follows the end mark: zeros, which fill up a record of a tape.
    async fn end(&mut self) -> Result<(), Refusal> {
        while let Some(data) = self.take(u64::MAX).await? {
            if data.iter().any(|&byte| byte != 0) {
                return Err(BadArchive::Behind.into());
            }
        }
        Ok(())
    }

    /// All of the records, or of the name, of this length.
    async fn text(&mut self, len: u64) -> Result<Vec<u8>, Refusal> {
        if len > MAX_RECORDS {
            return Err(BadArchive::LongHeader.into());
        }
        self.begin(len);
        let mut text = Vec::new();
        while let Some(data) = self.data().await? {
            text.extend_from_slice(&data);
        }
        Ok(text)
    }

    fn begin(&mut self, len: u64) {
        (self.left, self.padding) = (len, padding(len) as u64);
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

impl Records {
    /// Reads records of pax; `None` where they are malformed. The last one of a name counts.
    fn read(&mut self, mut text: &[u8]) -> Option<()> {
        while !text.is_empty() {
            let space = text.iter().position(|&byte| byte == b' ')?;
            let len: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
            let record = text.get(space + 1..len)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|&byte| byte == b'=')?;
            let (name, value) = (&record[..equals], &record[equals + 1..]);
            match name {
                b"path" => self.name = Some(value.to_vec()),
                b"size" => {
                    let len = std::str::from_utf8(value).ok()?.parse().ok();
                    self.len = Some(len.filter(|&len: &u64| len < 1 << 62)?);
                }
                name => self.is_sparse |= name.starts_with(b"GNU.sparse."),
            }
            text = &text[len..];
        }
        Some(())
    }
}

/// The sum of a header, whose own field counts as spaces.
fn sum(block: &[u8]) -> u32 {
    let bytes = block.iter().enumerate();
    let counted = bytes.map(|(at, &byte)| if (148..156).contains(&at) { b' ' } else { byte });
    counted.map(u32::from).sum()
}

/// What a member of this kind is, unless it is a plain file.
fn other(kind: EntryType) -> Option<&'static str> {
    match kind {
        EntryType::Regular | EntryType::Continuous => None,
        EntryType::Link => Some("a hard link"),
        EntryType::Symlink => Some("a symbolic link"),
        EntryType::Char | EntryType::Block => Some("a device"),
        EntryType::Fifo => Some("a named pipe"),
        EntryType::Directory => Some("a folder with data"),
        EntryType::GNUSparse => Some("a sparse file"),
        _ => Some("of an unknown kind"),
    }
}
