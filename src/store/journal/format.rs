//! The form of the journal's frames: the changes of one group, under one checksum. Pure.
//!
//! A frame begins at a multiple of [`BLOCK`], so that no block which was acknowledged is ever written again. Its
//! checksum covers the journal's identifier, the generation of its segment and the sequence numbers of its records:
//! what a recycled segment held before, or another journal, is no frame of this one. A frame is whole or absent, and so
//! is the group. Each says up to where the log was synced and settled when it was written, so that damage is told from
//! a torn end, also without the control file.

use bytes::{Buf, BufMut, Bytes};
use crc64fast_nvme::Digest;

use super::super::attributes::Attributes;
use super::super::new_value::Source;
use crate::value::{Error, Key, Version};

/// Bytes that a frame is a multiple of: the unit in which devices and page caches write.
pub const BLOCK: usize = 4096;

/// The longest payload, in bytes: twice what closes a group, so that the last change of a group fits.
const MAX_PAYLOAD: usize = 2 * GROUP;

/// A group of this many bytes takes no further change.
const GROUP: usize = 1 << 20;

// Numbers are little-endian, times are nanoseconds since 1970, and checksums are CRC-64/NVME. A frame is padded with
// zeros to the next multiple of `BLOCK`. `xxd -s 4096 -l 208 DIR/.data-server/journal/1` shows one; on the right is the
// offset+length of each part:
//
//     00: 6473 6a72 6e6c 3033 06cc c5c0 a99a 1281   0+8 "dsjrnl03",  8+16 journal, as in the file `id`
//     10: 1bf6 a318 2b41 1b21 3588 398c dddc eb18  24+8 generation of the segment, as in the file `control`
//     20: 0100 0000 0000 0000 0100 0000 0000 0000  32+8 number of the first record,  40+8 all before are synced
//     30: 0100 0000 0000 0000 15d1 328c dddc eb18  48+8 all before are settled,  56+8 time
//     40: 7100 0000 0100 0000 edf0 d1af 7d6f 360f  64+4 bytes of all records,  68+4 number of records,  72+8 checksum
//     50: 030c 0000 0066 6f6c 6465 722f 7479 7065  80+1 kind 3: a change with its value,  81+4 length of the key, key
//     60: 6400 0000 0000 0000 0000 0000 0000 0000  97+16 replaced version (none)
//     70: 8031 9038 8cdd dceb 1800 0000 0000 0000  113+16 version of the result
//     80: 000a 0000 0074 6578 742f 782d 6f77 6e15  129+4 length of the media type, media type
//     90: 0000 0063 6f6e 7465 6e74 2d6c 616e 6775  143+4 length of the fields, fields
//     a0: 6167 653a 2064 650a ffff ffff ffff ffff  168+8 two lengths of digests (none: earlier versions kept them)
//     b0: 0d00 0000 6120 736d 616c 6c20 7661 6c75  176+4 length of the value, value
//     c0: 6500 0000 0000 0000 0000 0000 0000 0000
//
// - The checksum covers bytes 0 to 71 and the records, without the padding. A frame with a wrong checksum does not
//   count.
// - Kind 2, a change without its value, ends after the two versions. Kind 1 cancels a change: 8 bytes, the number of
//   its record.
// - Kind 4 is a move: the length of the key that loses the value, that key, and 16 bytes, its version there. A change
//   of kind 2 or 3 follows in the same record. Servers before this kind take a frame with a move for damage.
// - The length `ffff ffff` is none, 0 is empty. The version `0000 ... 0080` is none; any other is the modification time
//   of the file.
// - The file `kept` has such frames, of generation 0, one after the other.

const MAGIC: u64 = u64::from_le_bytes(*b"dsjrnl03");

/// Magic, identifier, generation, first, synced, settled, time, bytes of payload, records, checksum.
const HEAD: usize = 8 + 16 + 8 + 8 + 8 + 8 + 8 + 4 + 4 + 8;

/// The length that stands for no bytes at all, as an empty string is something.
const NONE: u32 = u32::MAX;

/// The version that stands for no value.
const NO_VERSION: i128 = i128::MIN;

const CANCEL: u8 = 1;
/// A change of which the record has no value.
const CHANGE: u8 = 2;
/// A change with its value.
const SMALL: u8 = 3;
/// The key that the value of a change moves from, and its version there. The change follows, in the same record.
const MOVE: u8 = 4;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub journal: u128,
    /// The generation of its segment: higher each time that a segment is begun.
    pub generation: u64,
    /// The sequence number of its first record: it follows the last record of the frame before.
    pub first: u64,
    /// All records before this number were synced when the frame was written.
    pub synced: u64,
    /// All records before this number were settled: in the files, on the disk.
    pub settled: u64,
    /// When it was begun, by the system's clock, in nanoseconds since 1970.
    pub time: i64,
    pub records: u32,
    payload: usize,
}

/// A record of a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Record {
    Change(ChangeRecord),
    /// The change with this sequence number, in a frame before, was not made.
    Cancel(u64),
}

/// A change as the journal holds it.
#[derive(Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    pub sequence: u64,
    /// When its frame was begun.
    pub time: i64,
    pub key: Key<'static>,
    /// The version that it replaces or removes.
    pub base: Option<Version>,
    /// The version of the key after it.
    pub result: Option<Version>,
    /// The value, unless that is in its file, and synced with it.
    pub small: Option<(Attributes, Bytes)>,
    /// The key that the value moves from.
    pub source: Option<Box<Source>>,
}

impl ChangeRecord {
    /// True if its value is in its file, and not in the record.
    pub fn is_large(&self) -> bool {
        self.result.is_some() && self.small.is_none()
    }

    /// Its key, and the key that the value moves from.
    pub fn keys(&self) -> impl Iterator<Item = &Key<'static>> {
        let source = self.source.as_ref().map(|source| &source.key);
        [&self.key].into_iter().chain(source)
    }

    /// The removal of the key that the value moves from.
    pub fn removal_of_source(&self) -> Option<Self> {
        let source = self.source.as_ref()?;
        Some(Self {
            sequence: self.sequence,
            time: self.time,
            key: source.key.clone(),
            base: Some(source.version),
            result: None,
            small: None,
            source: None,
        })
    }
}

/// A frame being gathered.
#[derive(Debug)]
pub struct FrameBuilder {
    bytes: Vec<u8>,
    pub records: u32,
    time: i64,
}

impl FrameBuilder {
    /// A frame that is begun at this time, in nanoseconds since 1970, before its changes are decided.
    pub fn new(time: i64) -> Self {
        Self {
            bytes: vec![0; HEAD],
            records: 0,
            time,
        }
    }

    /// True once the frame takes no further change.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= GROUP
    }

    /// Bytes that the frame will take, whole blocks.
    pub fn size(&self) -> u64 {
        self.bytes.len().next_multiple_of(BLOCK) as u64
    }

    /// Adds a change of `key`, with the value if that is `small`, which moves from `source`, if it moves; returns the
    /// number of its record in the frame.
    pub fn add_change(
        &mut self,
        key: &Key<'_>,
        base: Option<Version>,
        result: Option<Version>,
        small: Option<(&Attributes, &[Bytes])>,
        source: Option<&Source>,
    ) -> u32 {
        let kind = if small.is_some() { SMALL } else { CHANGE };
        let record = self.begin(if source.is_some() { MOVE } else { kind });
        if let Some(Source { key, version }) = source {
            self.optional(Some(key.as_str().as_bytes()));
            self.bytes.put_i128_le(version.nanos());
            self.bytes.put_u8(kind);
        }
        self.optional(Some(key.as_str().as_bytes()));
        for version in [base, result] {
            let nanos = version.map_or(NO_VERSION, Version::nanos);
            self.bytes.put_i128_le(nanos);
        }
        if let Some((attributes, value)) = small {
            self.optional(attributes.media_type.as_deref().map(str::as_bytes));
            self.optional(attributes.fields.as_deref());
            // Two digests, which earlier versions kept.
            self.optional(None);
            self.optional(None);
            let len = value.iter().map(Bytes::len).sum();
            self.bytes.put_u32_le(length(len));
            for run in value {
                self.bytes.put_slice(run);
            }
        }
        record
    }

    /// Takes a record of an earlier frame back.
    pub fn add_cancel(&mut self, sequence: u64) {
        self.begin(CANCEL);
        self.bytes.put_u64_le(sequence);
    }

    /// The bytes of the frame, padded to whole blocks. `head` says all but what is counted here. A frame that could not
    /// be read back is refused.
    pub fn finish(mut self, head: Head) -> Result<Vec<u8>, Error> {
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
        let sum = checksum(&[&self.bytes[..HEAD - 8], &self.bytes[HEAD..]]);
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

    fn optional(&mut self, bytes: Option<&[u8]>) {
        let len = bytes.map_or(NONE, |bytes| length(bytes.len()));
        self.bytes.put_u32_le(len);
        self.bytes.put_slice(bytes.unwrap_or_default());
    }
}

/// Lengths here are bounded by the small values and by [`MAX_PAYLOAD`].
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE)
}

/// The checksum of these `parts`: of a frame, all but its checksum.
pub fn checksum(parts: &[&[u8]]) -> u64 {
    let mut digest = Digest::new();
    for part in parts {
        digest.write(part);
    }
    digest.sum64()
}

impl Head {
    pub fn new(journal: u128, generation: u64, first: u64) -> Self {
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
    pub fn parse(mut block: &[u8]) -> Option<Self> {
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
    pub fn size(&self) -> usize {
        (HEAD + self.payload).next_multiple_of(BLOCK)
    }

    /// The sequence number after that of its last record.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.records)
    }

    /// The records of `frame`, which begins with this head, if it is whole.
    pub fn read(&self, mut frame: Bytes) -> Option<Vec<Record>> {
        if frame.len() < HEAD + self.payload {
            return None;
        }
        frame.truncate(HEAD + self.payload);
        let sum = frame[HEAD - 8..HEAD].try_into().ok()?;
        if checksum(&[&frame[..HEAD - 8], &frame[HEAD..]]) != u64::from_le_bytes(sum) {
            return None;
        }
        frame.advance(HEAD);
        let records = (self.first..self.end()).map(|n| record(&mut frame, n, self.time));
        records.collect::<FrameResult<_>>().ok()
    }
}

/// Bytes that cannot be parsed are no frame, whatever the reason.
type FrameResult<T> = Result<T, Box<dyn std::error::Error>>;

fn record(bytes: &mut Bytes, sequence: u64, time: i64) -> FrameResult<Record> {
    let mut kind = bytes.try_get_u8()?;
    if kind == CANCEL {
        return Ok(Record::Cancel(bytes.try_get_u64_le()?));
    }
    let mut source = None;
    if kind == MOVE {
        source = Some(Box::new(Source {
            key: key(bytes)?,
            version: version(bytes)?.ok_or("a move of no value")?,
        }));
        kind = bytes.try_get_u8()?;
    }
    let change = ChangeRecord {
        sequence,
        time,
        key: key(bytes)?,
        base: version(bytes)?,
        result: version(bytes)?,
        small: match kind {
            CHANGE => None,
            SMALL => Some((attributes(bytes)?, optional(bytes)?.unwrap_or_default())),
            kind => return Err(format!("a record of kind {kind}").into()),
        },
        source,
    };
    Ok(Record::Change(change))
}

fn key(bytes: &mut Bytes) -> FrameResult<Key<'static>> {
    let key = optional(bytes)?.unwrap_or_default();
    Ok(Key::recorded(String::from_utf8(key.into())?)?)
}

fn version(bytes: &mut Bytes) -> FrameResult<Option<Version>> {
    let nanos = bytes.try_get_i128_le()?;
    Ok((nanos != NO_VERSION).then(|| Version::from_nanos(nanos)))
}

fn attributes(bytes: &mut Bytes) -> FrameResult<Attributes> {
    let media_type = optional(bytes)?.map(|text| String::from_utf8(text.into()));
    let fields = optional(bytes)?.map(|fields| fields[..].into());
    let (_sha256, _sha512) = (optional(bytes)?, optional(bytes)?);
    Ok(Attributes {
        media_type: media_type.transpose()?.map(Into::into),
        fields,
    })
}

fn optional(bytes: &mut Bytes) -> FrameResult<Option<Bytes>> {
    let len = bytes.try_get_u32_le()?;
    if len == NONE {
        return Ok(None);
    }
    let len = usize::try_from(len)?;
    if len > bytes.len() {
        return Err("a length beyond the end".into());
    }
    Ok(Some(bytes.split_to(len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(name: &str) -> Key<'static> {
        Key::new(name.to_owned()).unwrap()
    }

    fn head() -> Head {
        Head::new(7, 3, 12)
    }

    fn frame(value: &[u8]) -> Vec<u8> {
        let mut builder = FrameBuilder::new(5);
        let attributes = Attributes {
            media_type: Some("text/plain".into()),
            fields: None,
        };
        let value = [Bytes::copy_from_slice(value)];
        let (first, second) = (Version::from_nanos(5), Version::from_nanos(-6));
        builder.add_change(
            &key("a/b"),
            None,
            Some(first),
            Some((&attributes, &value)),
            None,
        );
        builder.add_change(&key("c"), Some(second), None, None, None);
        builder.finish(head()).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            name in "[a-z]{1,20}(/[a-z]{1,19})?",
            version: i64,
            base: Option<i64>,
            media_type: Option<String>,
            fields: Option<Vec<u8>>,
            value in proptest::collection::vec(any::<u8>(), 0..9000),
            cut in 0_usize..9000,
        ) {
            let version = Version::from_nanos(version.into());
            let base = base.map(|base| Version::from_nanos(base.into()));
            let attributes = Attributes { media_type: media_type.map(Into::into), fields: fields.map(Into::into) };
            let (first, second) = value.split_at(cut.min(value.len()));
            let runs = [Bytes::copy_from_slice(first), Bytes::copy_from_slice(second)];
            let mut builder = FrameBuilder::new(5);
            let key = key(&name);
            let source = Source { key: Key::new(format!("{name}/x")).unwrap(), version };
            builder.add_change(&key, base, Some(version), Some((&attributes, &runs)), None);
            builder.add_change(&key, base, Some(version), None, None);
            builder.add_change(&key, base, None, None, None);
            builder.add_change(&key, base, Some(version), Some((&attributes, &runs)), Some(&source));
            builder.add_change(&key, base, Some(version), None, Some(&source));
            builder.add_cancel(9);
            let frame = builder.finish(head()).unwrap();
            let parsed = Head::parse(&frame).unwrap();
            prop_assert_eq!((parsed.journal, parsed.generation, parsed.first, parsed.end(), parsed.size()), (7, 3, 12, 18, frame.len()));
            let change = |sequence, result, small, source| {
                Record::Change(ChangeRecord { sequence, time: 5, key: key.clone(), base, result, small, source })
            };
            let small = Some((attributes, Bytes::from(value)));
            let expected = vec![
                change(12, Some(version), small.clone(), None),
                change(13, Some(version), None, None),
                change(14, None, None, None),
                change(15, Some(version), small, Some(Box::new(source.clone()))),
                change(16, Some(version), None, Some(Box::new(source))),
                Record::Cancel(9),
            ];
            prop_assert_eq!(parsed.read(frame.into()).unwrap(), expected);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut frame = u64::to_le_bytes(MAGIC).to_vec();
            frame.extend(&bytes);
            if let Some(head) = Head::parse(&frame) {
                prop_assert!(head.read(frame.into()).is_none());
            }
            let mut payload = Bytes::from(bytes);
            while record(&mut payload, 0, 0).is_ok() {}
        }
    }

    #[test]
    fn a_frame_of_which_any_byte_is_another_is_none() {
        let frame = frame(b"value");
        let head = Head::parse(&frame).unwrap();
        assert!(head.read(frame.clone().into()).is_some());
        for at in 0..HEAD + head.payload {
            let mut torn = frame.clone();
            torn[at] ^= 0x10;
            let is_read =
                Head::parse(&torn).is_some_and(|head| head.read(torn.clone().into()).is_some());
            assert!(!is_read, "byte {at}");
        }
    }

    #[test]
    fn a_frame_takes_whole_blocks_and_none_is_longer_than_can_be_read() {
        assert_eq!(frame(b"").len(), BLOCK);
        assert_eq!(frame(&[1; BLOCK]).len(), 2 * BLOCK);
        let mut longest = FrameBuilder::new(5);
        while longest.bytes.len() - HEAD < MAX_PAYLOAD - 9 {
            longest.add_cancel(1);
        }
        let rest = MAX_PAYLOAD + HEAD - longest.bytes.len();
        longest.bytes.resize(longest.bytes.len() + rest, 0);
        let frame = longest.finish(head()).unwrap();
        assert!(Head::parse(&frame).unwrap().read(frame.into()).is_some());
        let mut too_long = FrameBuilder::new(5);
        too_long.bytes.resize(HEAD + MAX_PAYLOAD + 1, 0);
        assert!(too_long.finish(head()).is_err());
    }
}
