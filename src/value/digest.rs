//! Digests of values: SHA-256 and SHA-512, and MD5 and the checksums of S3 for clients that send them.
//!
//! Hashing keeps a processor busy: [`Hasher`] moves from job to job on the compute threads, and holds no file.

use bytes::Bytes;
use crc::{CRC_32_ISCSI, Crc, Table};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

/// The most bytes of a checksum.
const LONGEST: usize = 20;

/// A set of digests to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// SHA-256.
    pub sha256: bool,
    /// SHA-512.
    pub sha512: bool,
    /// MD5: an accident shows in it, an attack does not.
    pub md5: bool,
    /// A checksum of this kind.
    pub checksum: Option<ChecksumKind>,
}

impl Wanted {
    /// All that fields of HTTP have.
    pub const ALL: Self = Self {
        sha256: true,
        sha512: true,
        md5: true,
        checksum: None,
    };

    /// SHA-512 or else SHA-256.
    pub fn one(sha512: bool) -> Self {
        Self {
            sha256: !sha512,
            sha512,
            ..Self::default()
        }
    }

    /// The digests that either wants.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            sha256: self.sha256 || other.sha256,
            sha512: self.sha512 || other.sha512,
            md5: self.md5 || other.md5,
            checksum: self.checksum.or(other.checksum),
        }
    }

    /// True when none is wanted.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// One digest of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// SHA-256.
    Sha256([u8; 32]),
    /// SHA-512.
    Sha512([u8; 64]),
}

/// Digests of a value: those that were computed, or those that a client expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// SHA-256.
    pub sha256: Option<[u8; 32]>,
    /// SHA-512.
    pub sha512: Option<[u8; 64]>,
    /// MD5.
    pub md5: Option<[u8; 16]>,
    /// A checksum.
    pub checksum: Option<Checksum>,
}

impl Digests {
    /// The digests to compute of a value, to compare them with these.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            sha256: self.sha256.is_some(),
            sha512: self.sha512.is_some(),
            md5: self.md5.is_some(),
            checksum: self.checksum.map(|checksum| checksum.kind),
        }
    }

    /// The one that [`Wanted::one`] wants.
    pub fn one(&self) -> Option<Digest> {
        let sha256 = self.sha256.map(Digest::Sha256);
        sha256.or(self.sha512.map(Digest::Sha512))
    }
}

/// Digests being computed.
pub struct Hasher {
    sha256: Option<Sha256>,
    sha512: Option<Sha512>,
    md5: Option<Md5>,
    checksum: Option<ChecksumHasher>,
}

impl Hasher {
    /// Of the digests that are `wanted`.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            sha256: wanted.sha256.then(Sha256::new),
            sha512: wanted.sha512.then(Sha512::new),
            md5: wanted.md5.then(Md5::new),
            checksum: wanted.checksum.map(ChecksumHasher::new),
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.sha256 {
            hasher.update(bytes);
        }
        if let Some(hasher) = &mut self.sha512 {
            hasher.update(bytes);
        }
        if let Some(hasher) = &mut self.md5 {
            hasher.update(bytes);
        }
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
    }

    /// The same with the next bytes.
    #[must_use]
    pub fn update_all(mut self, pieces: &[Bytes]) -> Self {
        for piece in pieces {
            self.update(piece);
        }
        self
    }

    /// The digests of all bytes.
    pub fn finish(self) -> Digests {
        Digests {
            sha256: self.sha256.map(|h| h.finalize().into()),
            sha512: self.sha512.map(|h| h.finalize().into()),
            md5: self.md5.map(|h| h.finalize().into()),
            checksum: self.checksum.and_then(ChecksumHasher::finish),
        }
    }
}

static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The algorithm of a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// CRC-32 of ISO-HDLC, as zip has it.
    Crc32,
    /// CRC-32 of iSCSI (Castagnoli).
    Crc32c,
    /// CRC-64 of `NVMe`.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
}

impl ChecksumKind {
    /// Bytes of a checksum of this kind.
    fn len(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => LONGEST,
        }
    }
}

/// A checksum: its bytes, the highest first, and zeros behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Its algorithm.
    pub kind: ChecksumKind,
    bytes: [u8; LONGEST],
}

impl Checksum {
    /// The checksum `bytes`; `None` where those are not as many as it has.
    pub fn new(kind: ChecksumKind, bytes: &[u8]) -> Option<Self> {
        let mut own = [0; LONGEST];
        own.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (bytes.len() == kind.len()).then_some(Self { kind, bytes: own })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.len()]
    }
}

/// A checksum being computed.
enum ChecksumHasher {
    Crc32(crc32fast::Hasher),
    Crc32c(crc::Digest<'static, u32, Table<16>>),
    Crc64Nvme(crc64fast_nvme::Digest),
    Sha1(Sha1),
}

impl ChecksumHasher {
    pub fn new(kind: ChecksumKind) -> Self {
        match kind {
            ChecksumKind::Crc32 => Self::Crc32(crc32fast::Hasher::new()),
            ChecksumKind::Crc32c => Self::Crc32c(CRC32C.digest()),
            ChecksumKind::Crc64Nvme => Self::Crc64Nvme(crc64fast_nvme::Digest::new()),
            ChecksumKind::Sha1 => Self::Sha1(Sha1::new()),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(sum) => sum.update(bytes),
            Self::Crc32c(sum) => sum.update(bytes),
            Self::Crc64Nvme(sum) => sum.write(bytes),
            Self::Sha1(sum) => sum.update(bytes),
        }
    }

    pub fn finish(self) -> Option<Checksum> {
        use ChecksumKind as K;
        match self {
            Self::Crc32(sum) => Checksum::new(K::Crc32, &sum.finalize().to_be_bytes()),
            Self::Crc32c(sum) => Checksum::new(K::Crc32c, &sum.finalize().to_be_bytes()),
            Self::Crc64Nvme(sum) => Checksum::new(K::Crc64Nvme, &sum.sum64().to_be_bytes()),
            Self::Sha1(sum) => Checksum::new(K::Sha1, &sum.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the catalogue of CRCs, and of RFC 3174 for the text of the others.
    #[test]
    fn the_check_values_of_the_algorithms() {
        for (kind, check) in [
            (ChecksumKind::Crc32, &0xcbf4_3926_u32.to_be_bytes()[..]),
            (ChecksumKind::Crc32c, &0xe306_9283_u32.to_be_bytes()),
            (
                ChecksumKind::Crc64Nvme,
                &0xae8b_1486_0a79_9888_u64.to_be_bytes(),
            ),
            (
                ChecksumKind::Sha1,
                b"\xf7\xc3\xbc\x1d\x80\x8e\x04\x73\x2a\xdf\x67\x99\x65\xcc\xc3\x4c\xa7\xae\x34\x41",
            ),
        ] {
            let mut sum = ChecksumHasher::new(kind);
            sum.update(b"1234");
            sum.update(b"56789");
            assert_eq!(sum.finish(), Checksum::new(kind, check), "{kind:?}");
            assert!(Checksum::new(kind, check).is_some());
            assert_eq!(Checksum::new(kind, &check[1..]), None);
        }
    }
}
