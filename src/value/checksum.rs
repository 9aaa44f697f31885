//! The checksums that clients of S3 send with a value, beside SHA-256: an accident shows in them, an attack does not.

use std::fmt;

use crc::{CRC_32_ISCSI, Crc, Table};
use sha1::{Digest as _, Sha1};

static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The most bytes of a checksum.
const LONGEST: usize = 20;

/// How a checksum is computed.
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
    kind: ChecksumKind,
    bytes: [u8; LONGEST],
}

impl Checksum {
    /// The checksum `bytes`; `None` where those are not as many as it has.
    pub fn new(kind: ChecksumKind, bytes: &[u8]) -> Option<Self> {
        let mut own = [0; LONGEST];
        own.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (bytes.len() == kind.len()).then_some(Self { kind, bytes: own })
    }

    /// How it is computed.
    pub fn kind(&self) -> ChecksumKind {
        self.kind
    }
}

/// A checksum being computed.
#[derive(Clone)]
pub enum Summer {
    Crc32(crc32fast::Hasher),
    Crc32c(crc::Digest<'static, u32, Table<16>>),
    Crc64Nvme(crc64fast_nvme::Digest),
    Sha1(Sha1),
}

impl Summer {
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

impl fmt::Debug for Summer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The libraries' hashers show nothing of themselves.
        f.debug_struct("Summer").finish_non_exhaustive()
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
            let mut sum = Summer::new(kind);
            sum.update(b"1234");
            sum.update(b"56789");
            assert_eq!(sum.finish(), Checksum::new(kind, check), "{kind:?}");
            assert!(Checksum::new(kind, check).is_some());
            assert_eq!(Checksum::new(kind, &check[1..]), None);
        }
    }
}
