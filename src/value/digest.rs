//! Digests of values: SHA-256, SHA-512, and MD5 and [checksums](super::checksum) for clients that send them.
//!
//! Hashing keeps a processor busy: [`Hasher`] moves from job to job on the compute threads, and holds no file.

use bytes::Bytes;
use md5::Md5;
use sha2::{Digest as _, Sha256, Sha512};

use super::checksum::{Checksum, ChecksumKind, Summer};

/// Which digests are wanted.
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

    /// What either wants.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            sha256: self.sha256 || other.sha256,
            sha512: self.sha512 || other.sha512,
            md5: self.md5 || other.md5,
            checksum: self.checksum.or(other.checksum),
        }
    }

    /// Whether none is.
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

/// The digests of a value that were wanted.
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

/// Digests being computed.
#[derive(Clone, Debug)]
pub struct Hasher {
    sha256: Option<Sha256>,
    sha512: Option<Sha512>,
    md5: Option<Md5>,
    checksum: Option<Summer>,
}

impl Hasher {
    pub fn new(wanted: Wanted) -> Self {
        Self {
            sha256: wanted.sha256.then(Sha256::new),
            sha512: wanted.sha512.then(Sha512::new),
            md5: wanted.md5.then(Md5::new),
            checksum: wanted.checksum.map(Summer::new),
        }
    }

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

    pub fn update_all(mut self, pieces: &[Bytes]) -> Self {
        for piece in pieces {
            self.update(piece);
        }
        self
    }

    pub fn finish(self) -> Digests {
        Digests {
            sha256: self.sha256.map(|h| h.finalize().into()),
            sha512: self.sha512.map(|h| h.finalize().into()),
            md5: self.md5.map(|h| h.finalize().into()),
            checksum: self.checksum.and_then(Summer::finish),
        }
    }
}
