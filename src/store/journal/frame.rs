//! The form of the journal's frames: the changes of one group, under one checksum. Pure.
//!
//! A frame begins at a multiple of [`BLOCK`], so that no block which was acknowledged is ever written again. Its checksum
//! covers the journal's identifier, the generation of its segment and its number: what a recycled segment held before,
//! or another journal, is no frame of this one. A frame is whole or absent, and so is the group.

use bytes::{Buf, BufMut, Bytes};
use crc64fast_nvme::Digest;

use super::super::attributes::Attributes;
use super::super::digest::Digests;
use super::super::meta::Version;

/// What a frame is a multiple of, in bytes: what devices and page caches write at once.
pub(super) const BLOCK: usize = 4096;

/// The longest payload, in bytes: twice what closes a group, so that the last change of a group fits.
pub(super) const MAX_PAYLOAD: usize = 2 * GROUP;

/// A group of so many bytes takes no further change.
pub(super) const GROUP: usize = 1 << 20;

const MAGIC: u64 = u64::from_le_bytes(*b"dsjrnl01");

/// Magic, identifier, generation, number, bytes of payload, records, checksum.
const HEAD: usize = 8 + 16 + 8 + 8 + 4 + 4 + 8;

/// The length that stands for no bytes at all, as an empty string is something.
const NONE: u16 = u16::MAX;

const PUT: u8 = 1;
const NAMED: u8 = 2;
const DELETED: u8 = 3;
const CANCELLED: u8 = 4;

/// Which frame of which journal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameId {
    pub(super) journal: u128,
    /// Of the segment that it lies in: higher each time that a segment is begun.
    pub(super) generation: u64,
    /// One more than that of the frame before.
    pub(super) number: u64,
}

/// A change as the journal holds it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) key: &'a str,
    pub(super) version: Version,
    pub(super) what: What<'a>,
}

/// What the change makes of its key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// The key stands for this value.
    Put(Attributes, &'a [u8]),
    /// The key stands for a value that is in its file, and synced with it.
    Named,
    /// The key stands for nothing.
    Deleted,
    /// It was not made: the record with this key and version before it does not count.
    Cancelled,
}

/// A change without a value, as it is written.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum Mark {
    Named,
    Deleted,
    Cancelled,
}

/// A frame being gathered.
#[derive(Debug)]
pub(in crate::store) struct FrameBuilder {
    bytes: Vec<u8>,
    records: u32,
}

impl FrameBuilder {
    pub(in crate::store) fn new() -> Self {
        Self {
            bytes: vec![0; HEAD],
            records: 0,
        }
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether it takes no further change.
    pub(in crate::store) fn is_full(&self) -> bool {
        self.bytes.len() >= GROUP
    }

    /// Bytes that the frame will take, whole blocks.
    pub(super) fn size(&self) -> u64 {
        self.bytes.len().next_multiple_of(BLOCK) as u64
    }

    /// Adds a value.
    pub(in crate::store) fn put(
        &mut self,
        key: &str,
        version: Version,
        attributes: &Attributes,
        value: &[Bytes],
    ) {
        self.begin(PUT, key, version);
        let digests = attributes.digests.as_deref();
        let digests = digests.copied().unwrap_or_default();
        self.optional(attributes.media_type.as_deref().map(str::as_bytes));
        self.optional(attributes.fields.as_deref());
        self.optional(digests.sha256.as_ref().map(|digest| &digest[..]));
        self.optional(digests.sha512.as_ref().map(|digest| &digest[..]));
        let len: usize = value.iter().map(Bytes::len).sum();
        self.bytes.put_u32_le(length(len));
        for run in value {
            self.bytes.put_slice(run);
        }
    }

    /// Adds a change without a value.
    pub(in crate::store) fn mark(&mut self, mark: Mark, key: &str, version: Version) {
        let kind = match mark {
            Mark::Named => NAMED,
            Mark::Deleted => DELETED,
            Mark::Cancelled => CANCELLED,
        };
        self.begin(kind, key, version);
    }

    /// The bytes of the frame, which is `id`, padded to whole blocks.
    pub(super) fn finish(mut self, id: FrameId) -> Vec<u8> {
        let payload = length(self.bytes.len() - HEAD);
        let mut head = &mut self.bytes[..HEAD];
        head.put_u64_le(MAGIC);
        head.put_u128_le(id.journal);
        head.put_u64_le(id.generation);
        head.put_u64_le(id.number);
        head.put_u32_le(payload);
        head.put_u32_le(self.records);
        let sum = checksum(&self.bytes);
        self.bytes[HEAD - 8..HEAD].copy_from_slice(&sum.to_le_bytes());
        self.bytes
            .resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        self.bytes
    }

    fn begin(&mut self, kind: u8, key: &str, version: Version) {
        self.records += 1;
        self.bytes.put_u8(kind);
        self.bytes.put_i128_le(version.nanos());
        self.optional(Some(key.as_bytes()));
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        let len = bytes.map_or(NONE, |bytes| u16::try_from(bytes.len()).unwrap_or(NONE - 1));
        self.bytes.put_u16_le(len);
        self.bytes
            .put_slice(bytes.map_or(&[], |bytes| &bytes[..usize::from(len)]));
    }
}

/// Lengths here are bounded by the small values and by [`GROUP`].
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Of all but the checksum itself.
fn checksum(frame: &[u8]) -> u64 {
    let mut digest = Digest::new();
    digest.write(&frame[..HEAD - 8]);
    digest.write(&frame[HEAD..]);
    digest.sum64()
}

/// What the head of a frame says, which is not proved yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) id: FrameId,
    payload: usize,
}

impl Head {
    /// The head that `block` begins with, if it is one.
    pub(super) fn parse(mut block: &[u8]) -> Option<Self> {
        let magic = block.try_get_u64_le().ok()?;
        let head = Self {
            id: FrameId {
                journal: block.try_get_u128_le().ok()?,
                generation: block.try_get_u64_le().ok()?,
                number: block.try_get_u64_le().ok()?,
            },
            payload: usize::try_from(block.try_get_u32_le().ok()?).ok()?,
        };
        (magic == MAGIC && head.payload <= MAX_PAYLOAD).then_some(head)
    }

    /// Bytes that the frame takes, whole blocks.
    pub(super) fn size(&self) -> usize {
        (HEAD + self.payload).next_multiple_of(BLOCK)
    }

    /// The records of `frame`, which begins with this head, if it is whole.
    pub(super) fn records<'a>(&self, frame: &'a [u8]) -> Option<Records<'a>> {
        let frame = frame.get(..HEAD + self.payload)?;
        let sum = frame[HEAD - 8..HEAD].try_into().ok()?;
        (checksum(frame) == u64::from_le_bytes(sum)).then_some(Records(&frame[HEAD..]))
    }
}

/// The records of a frame that is whole. One that this version does not know ends them.
#[derive(Debug)]
pub(super) struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let bytes = &mut self.0;
        let kind = bytes.try_get_u8().ok()?;
        let version = Version::from_nanos(bytes.try_get_i128_le().ok()?);
        let key = std::str::from_utf8(optional(bytes)?.present?).ok()?;
        let what = match kind {
            PUT => {
                let attributes = attributes(bytes)?;
                let len = usize::try_from(bytes.try_get_u32_le().ok()?).ok()?;
                What::Put(attributes, bytes.split_off(..len)?)
            }
            NAMED => What::Named,
            DELETED => What::Deleted,
            CANCELLED => What::Cancelled,
            _ => return None,
        };
        Some(Record { key, version, what })
    }
}

fn attributes(bytes: &mut &[u8]) -> Option<Attributes> {
    let media_type = optional(bytes)?
        .present
        .and_then(|text| std::str::from_utf8(text).ok());
    let fields = optional(bytes)?.present;
    let sha256 = optional(bytes)?
        .present
        .and_then(|digest| digest.try_into().ok());
    let sha512 = optional(bytes)?
        .present
        .and_then(|digest| digest.try_into().ok());
    let has_digests = sha256.is_some() || sha512.is_some();
    let digests = Digests {
        sha256,
        sha512,
        md5: None,
    };
    Some(Attributes {
        media_type: media_type.map(Into::into),
        fields: fields.map(Into::into),
        digests: has_digests.then(|| Box::new(digests)),
    })
}

/// Bytes that may have been left out.
struct Field<'a> {
    present: Option<&'a [u8]>,
}

/// `None` where the bytes end too early.
fn optional<'a>(bytes: &mut &'a [u8]) -> Option<Field<'a>> {
    let present = match bytes.try_get_u16_le().ok()? {
        NONE => None,
        len => Some(bytes.split_off(..usize::from(len))?),
    };
    Some(Field { present })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: FrameId = FrameId {
        journal: 7,
        generation: 3,
        number: 12,
    };

    fn frame(value: &[u8]) -> Vec<u8> {
        let mut builder = FrameBuilder::new();
        let attributes = Attributes {
            media_type: Some("text/plain".into()),
            fields: None,
            digests: None,
        };
        let value = [Bytes::copy_from_slice(value)];
        builder.put("a/b", Version::from_nanos(5), &attributes, &value);
        builder.mark(Mark::Deleted, "c", Version::from_nanos(-6));
        builder.finish(ID)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            key in "[a-z/]{1,40}",
            version: i64,
            media_type: Option<String>,
            fields: Option<Vec<u8>>,
            sha256: Option<[u8; 32]>,
            value in proptest::collection::vec(any::<u8>(), 0..9000),
            cut in 0_usize..9000,
        ) {
            let version = Version::from_nanos(version.into());
            let digests = sha256.map(|sha256| Box::new(Digests { sha256: Some(sha256), ..Digests::default() }));
            let attributes = Attributes { media_type: media_type.map(Into::into), fields: fields.map(Into::into), digests };
            let (first, second) = value.split_at(cut.min(value.len()));
            let runs = [Bytes::copy_from_slice(first), Bytes::copy_from_slice(second)];
            let mut builder = FrameBuilder::new();
            builder.put(&key, version, &attributes, &runs);
            builder.mark(Mark::Named, &key, version);
            builder.mark(Mark::Cancelled, &key, version);
            let frame = builder.finish(ID);
            let head = Head::parse(&frame).unwrap();
            prop_assert_eq!((head.id, head.size()), (ID, frame.len()));
            let record = |what| Record { key: &key, version, what };
            let expected = vec![record(What::Put(attributes, &value)), record(What::Named), record(What::Cancelled)];
            prop_assert_eq!(head.records(&frame).unwrap().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut frame = u64::to_le_bytes(MAGIC).to_vec();
            frame.extend(&bytes);
            if let Some(head) = Head::parse(&frame) {
                prop_assert!(head.records(&frame).is_none());
            }
            prop_assert!(Records(&bytes).count() <= bytes.len());
        }
    }

    #[test]
    fn a_frame_of_which_any_byte_is_another_is_none() {
        let frame = frame(b"value");
        let head = Head::parse(&frame).unwrap();
        assert!(head.records(&frame).is_some());
        for at in 0..HEAD + head.payload {
            let mut torn = frame.clone();
            torn[at] ^= 0x10;
            let is_read = Head::parse(&torn).is_some_and(|head| head.records(&torn).is_some());
            assert!(!is_read, "byte {at}");
        }
    }

    #[test]
    fn a_frame_takes_whole_blocks() {
        assert_eq!(frame(b"").len(), BLOCK);
        assert_eq!(frame(&[1; BLOCK]).len(), 2 * BLOCK);
    }
}
