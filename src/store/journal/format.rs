//! The form of the journal's frames: the changes of one group, under one checksum. Pure.
//!
//! A frame begins at a multiple of [`BLOCK`], so that no block which was acknowledged is ever written again. Its checksum
//! covers the journal's identifier, the generation of its segment and the sequence numbers of its records: what a recycled segment
//! held before, or another journal, is no frame of this one. A frame is whole or absent, and so is the group. Each says up to where
//! the log was synced and settled when it was written, so that damage is told from a torn end, also without the control file.

use bytes::{Buf, BufMut, Bytes};
use crc64fast_nvme::Digest;

use super::super::attributes::Attributes;
use super::super::digest::Digests;
use super::super::error::Error;
use super::super::meta::Version;

/// What a frame is a multiple of, in bytes: what devices and page caches write at once.
pub(super) const BLOCK: usize = 4096;

/// The longest payload, in bytes: twice what closes a group, so that the last change of a group fits.
pub(super) const MAX_PAYLOAD: usize = 2 * GROUP;

/// A group of so many bytes takes no further change.
const GROUP: usize = 1 << 20;

const MAGIC: u64 = u64::from_le_bytes(*b"dsjrnl02");

/// Magic, identifier, generation, first, synced, settled, time, bytes of payload, records, checksum.
const HEAD: usize = 8 + 16 + 8 + 8 + 8 + 8 + 8 + 4 + 4 + 8;

/// The length that stands for no bytes at all, as an empty string is something.
const NONE: u16 = u16::MAX;

/// The version that stands for no value.
const NO_VERSION: i128 = i128::MIN;

const PUT: u8 = 1;
const LARGE: u8 = 2;
const DELETE: u8 = 3;
const CANCEL: u8 = 4;

/// What the head of a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Head {
    pub(in crate::store) journal: u128,
    /// Of the segment that it lies in: higher each time that a segment is begun.
    pub(in crate::store) generation: u64,
    /// The sequence number of its first record: the one after the last of the frame before.
    pub(in crate::store) first: u64,
    /// All records before this one were on the disk when the frame was written.
    pub(in crate::store) synced: u64,
    /// All before this one were in the files, on the disk.
    pub(in crate::store) settled: u64,
    /// When it was begun, by the system's clock, in nanoseconds since 1970.
    pub(in crate::store) time: i64,
    pub(in crate::store) records: u32,
    payload: usize,
}

/// A record of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) enum Record<'a> {
    Change(Change<'a>),
    /// The change with this sequence number, in a frame before, was not made.
    Cancel(u64),
}

/// A change as the journal holds it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) struct Change<'a> {
    pub(in crate::store) sequence: u64,
    /// When its frame was begun.
    pub(in crate::store) time: i64,
    pub(in crate::store) key: &'a str,
    /// What it replaces or removes.
    pub(in crate::store) base: Option<Version>,
    pub(in crate::store) operation: Operation<'a>,
}

/// What a change makes of its key.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) enum Operation<'a> {
    /// The key stands for this value.
    Put(Version, Attributes, &'a [u8]),
    /// The key stands for a value that is in its file, and synced with it.
    Large(Version),
    /// The key stands for nothing.
    Delete,
}

/// A frame being gathered. What adds a record answers which one of the frame it is.
#[derive(Debug)]
pub(in crate::store) struct FrameBuilder {
    bytes: Vec<u8>,
    records: u32,
    time: i64,
}

impl FrameBuilder {
    /// One that is begun at this time, in nanoseconds since 1970, before its changes are decided.
    pub(in crate::store) fn new(time: i64) -> Self {
        Self {
            bytes: vec![0; HEAD],
            records: 0,
            time,
        }
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether it takes no further change.
    pub(in crate::store) fn is_full(&self) -> bool {
        self.bytes.len() >= GROUP
    }

    pub(super) fn records(&self) -> u32 {
        self.records
    }

    /// Bytes that the frame will take, whole blocks.
    pub(super) fn size(&self) -> u64 {
        self.bytes.len().next_multiple_of(BLOCK) as u64
    }

    /// Adds a value.
    pub(in crate::store) fn put(
        &mut self,
        key: &str,
        base: Option<Version>,
        version: Version,
        attributes: &Attributes,
        value: &[Bytes],
    ) -> u32 {
        let record = self.change(PUT, key, base);
        let digests = attributes.digests.as_deref();
        let digests = digests.copied().unwrap_or_default();
        self.bytes.put_i128_le(version.nanos());
        self.optional(attributes.media_type.as_deref().map(str::as_bytes));
        self.optional(attributes.fields.as_deref());
        self.optional(digests.sha256.as_ref().map(|digest| &digest[..]));
        self.optional(digests.sha512.as_ref().map(|digest| &digest[..]));
        let len: usize = value.iter().map(Bytes::len).sum();
        self.bytes.put_u32_le(length(len));
        for run in value {
            self.bytes.put_slice(run);
        }
        record
    }

    /// Adds a value that is in its file.
    pub(in crate::store) fn large(
        &mut self,
        key: &str,
        base: Option<Version>,
        version: Version,
    ) -> u32 {
        let record = self.change(LARGE, key, base);
        self.bytes.put_i128_le(version.nanos());
        record
    }

    /// Adds a removal.
    pub(in crate::store) fn delete(&mut self, key: &str, base: Option<Version>) -> u32 {
        self.change(DELETE, key, base)
    }

    /// Takes a record of an earlier frame back.
    pub(in crate::store) fn cancel(&mut self, sequence: u64) -> u32 {
        let record = self.begin(CANCEL);
        self.bytes.put_u64_le(sequence);
        record
    }

    /// The bytes of the frame, padded to whole blocks. `head` says all but what is counted here. A frame that could not be read back
    /// is refused.
    pub(in crate::store) fn finish(mut self, head: Head) -> Result<Vec<u8>, Error> {
        let payload = self.bytes.len() - HEAD;
        if payload > MAX_PAYLOAD {
            let why = std::io::Error::other(format!("a frame of {payload} bytes"));
            return Err(Error::failed("write the journal")(why));
        }
        let mut bytes = &mut self.bytes[..HEAD];
        bytes.put_u64_le(MAGIC);
        bytes.put_u128_le(head.journal);
        bytes.put_u64_le(head.generation);
        bytes.put_u64_le(head.first);
        bytes.put_u64_le(head.synced);
        bytes.put_u64_le(head.settled);
        bytes.put_i64_le(self.time);
        bytes.put_u32_le(length(payload));
        bytes.put_u32_le(self.records);
        let sum = checksum(&self.bytes);
        self.bytes[HEAD - 8..HEAD].copy_from_slice(&sum.to_le_bytes());
        self.bytes
            .resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        Ok(self.bytes)
    }

    fn begin(&mut self, kind: u8) -> u32 {
        self.bytes.put_u8(kind);
        self.records += 1;
        self.records - 1
    }

    fn change(&mut self, kind: u8, key: &str, base: Option<Version>) -> u32 {
        let record = self.begin(kind);
        self.optional(Some(key.as_bytes()));
        self.bytes
            .put_i128_le(base.map_or(NO_VERSION, Version::nanos));
        record
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        let len = bytes.map_or(NONE, |bytes| u16::try_from(bytes.len()).unwrap_or(NONE - 1));
        self.bytes.put_u16_le(len);
        self.bytes
            .put_slice(bytes.map_or(&[], |bytes| &bytes[..usize::from(len)]));
    }
}

/// Lengths here are bounded by the small values and by [`MAX_PAYLOAD`].
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

impl Head {
    pub(in crate::store) fn new(journal: u128, generation: u64, first: u64) -> Self {
        Self {
            journal,
            generation,
            first,
            synced: first,
            settled: 0,
            time: 0,
            records: 0,
            payload: 0,
        }
    }

    /// The head that `block` begins with, if it is one; it is not proved yet.
    pub(in crate::store) fn parse(mut block: &[u8]) -> Option<Self> {
        let magic = block.try_get_u64_le().ok()?;
        let head = Self {
            journal: block.try_get_u128_le().ok()?,
            generation: block.try_get_u64_le().ok()?,
            first: block.try_get_u64_le().ok()?,
            synced: block.try_get_u64_le().ok()?,
            settled: block.try_get_u64_le().ok()?,
            time: block.try_get_i64_le().ok()?,
            payload: usize::try_from(block.try_get_u32_le().ok()?).ok()?,
            records: block.try_get_u32_le().ok()?,
        };
        (magic == MAGIC && head.payload <= MAX_PAYLOAD).then_some(head)
    }

    /// Bytes that the frame takes, whole blocks.
    pub(super) fn size(&self) -> usize {
        (HEAD + self.payload).next_multiple_of(BLOCK)
    }

    /// The sequence number after that of its last record.
    pub(in crate::store) fn end(&self) -> u64 {
        self.first + u64::from(self.records)
    }

    /// The records of `frame`, which begins with this head, if it is whole.
    pub(in crate::store) fn read<'a>(&self, frame: &'a [u8]) -> Option<Vec<Record<'a>>> {
        let frame = frame.get(..HEAD + self.payload)?;
        let sum = frame[HEAD - 8..HEAD].try_into().ok()?;
        if checksum(frame) != u64::from_le_bytes(sum) {
            return None;
        }
        let mut payload = &frame[HEAD..];
        (self.first..self.end())
            .map(|sequence| record(&mut payload, sequence, self.time))
            .collect()
    }
}

fn record<'a>(bytes: &mut &'a [u8], sequence: u64, time: i64) -> Option<Record<'a>> {
    let kind = bytes.try_get_u8().ok()?;
    if kind == CANCEL {
        return Some(Record::Cancel(bytes.try_get_u64_le().ok()?));
    }
    let key = std::str::from_utf8(optional(bytes)?.present?).ok()?;
    let base = bytes.try_get_i128_le().ok()?;
    let operation = match kind {
        PUT => {
            let version = version(bytes)?;
            let attributes = attributes(bytes)?;
            let len = usize::try_from(bytes.try_get_u32_le().ok()?).ok()?;
            Operation::Put(version, attributes, bytes.split_off(..len)?)
        }
        LARGE => Operation::Large(version(bytes)?),
        DELETE => Operation::Delete,
        _ => return None,
    };
    Some(Record::Change(Change {
        sequence,
        time,
        key,
        base: (base != NO_VERSION).then(|| Version::from_nanos(base)),
        operation,
    }))
}

fn version(bytes: &mut &[u8]) -> Option<Version> {
    Some(Version::from_nanos(bytes.try_get_i128_le().ok()?))
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
        ..Digests::default()
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

    fn head() -> Head {
        Head::new(7, 3, 12)
    }

    fn frame(value: &[u8]) -> Vec<u8> {
        let mut builder = FrameBuilder::new(5);
        let attributes = Attributes {
            media_type: Some("text/plain".into()),
            fields: None,
            digests: None,
        };
        let value = [Bytes::copy_from_slice(value)];
        builder.put("a/b", None, Version::from_nanos(5), &attributes, &value);
        builder.delete("c", Some(Version::from_nanos(-6)));
        builder.finish(head()).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            key in "[a-z/]{1,40}",
            version: i64,
            base: Option<i64>,
            media_type: Option<String>,
            fields: Option<Vec<u8>>,
            sha256: Option<[u8; 32]>,
            value in proptest::collection::vec(any::<u8>(), 0..9000),
            cut in 0_usize..9000,
        ) {
            let version = Version::from_nanos(version.into());
            let base = base.map(|base| Version::from_nanos(base.into()));
            let digests = sha256.map(|sha256| Box::new(Digests { sha256: Some(sha256), ..Digests::default() }));
            let attributes = Attributes { media_type: media_type.map(Into::into), fields: fields.map(Into::into), digests };
            let (first, second) = value.split_at(cut.min(value.len()));
            let runs = [Bytes::copy_from_slice(first), Bytes::copy_from_slice(second)];
            let mut builder = FrameBuilder::new(5);
            builder.put(&key, base, version, &attributes, &runs);
            builder.large(&key, base, version);
            builder.delete(&key, base);
            builder.cancel(9);
            let frame = builder.finish(head()).unwrap();
            let parsed = Head::parse(&frame).unwrap();
            prop_assert_eq!((parsed.journal, parsed.generation, parsed.first, parsed.end(), parsed.size()), (7, 3, 12, 16, frame.len()));
            let change = |sequence, operation| Record::Change(Change { sequence, time: 5, key: &key, base, operation });
            let expected = vec![
                change(12, Operation::Put(version, attributes, &value)),
                change(13, Operation::Large(version)),
                change(14, Operation::Delete),
                Record::Cancel(9),
            ];
            prop_assert_eq!(parsed.read(&frame).unwrap(), expected);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut frame = u64::to_le_bytes(MAGIC).to_vec();
            frame.extend(&bytes);
            if let Some(head) = Head::parse(&frame) {
                prop_assert!(head.read(&frame).is_none());
            }
            let mut payload = &bytes[..];
            while record(&mut payload, 0, 0).is_some() {}
        }
    }

    #[test]
    fn a_frame_of_which_any_byte_is_another_is_none() {
        let frame = frame(b"value");
        let head = Head::parse(&frame).unwrap();
        assert!(head.read(&frame).is_some());
        for at in 0..HEAD + head.payload {
            let mut torn = frame.clone();
            torn[at] ^= 0x10;
            let is_read = Head::parse(&torn).is_some_and(|head| head.read(&torn).is_some());
            assert!(!is_read, "byte {at}");
        }
    }

    #[test]
    fn a_frame_takes_whole_blocks_and_none_is_longer_than_can_be_read() {
        assert_eq!(frame(b"").len(), BLOCK);
        assert_eq!(frame(&[1; BLOCK]).len(), 2 * BLOCK);
        let mut longest = FrameBuilder::new(5);
        while longest.bytes.len() - HEAD < MAX_PAYLOAD - 9 {
            longest.cancel(1);
        }
        let rest = MAX_PAYLOAD + HEAD - longest.bytes.len();
        longest.bytes.resize(longest.bytes.len() + rest, 0);
        let frame = longest.finish(head()).unwrap();
        assert!(Head::parse(&frame).unwrap().read(&frame).is_some());
        let mut too_long = FrameBuilder::new(5);
        too_long.bytes.resize(HEAD + MAX_PAYLOAD + 1, 0);
        assert!(too_long.finish(head()).is_err());
    }
}
