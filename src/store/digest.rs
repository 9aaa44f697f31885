//! Digests of values: SHA-256, SHA-512, and MD5 and [checksums](super::checksum) for clients that send them.
//!
//! Hashing keeps a processor busy: [`Hasher`] moves from job to job on the compute threads, and holds no file.

use bytes::Bytes;
use data_encoding::HEXLOWER;
use md5::Md5;
use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
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
pub(super) struct Hasher {
    sha256: Option<Sha256>,
    sha512: Option<Sha512>,
    md5: Option<Md5>,
    checksum: Option<Summer>,
}

/// Where a [`Hasher`] of SHA-256 and SHA-512 stands, in hexadecimal digits: another process can go on with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HasherState {
    sha256: Option<String>,
    sha512: Option<String>,
}

impl HasherState {
    /// Whether all that is `wanted` goes on with it.
    pub(super) fn covers(&self, wanted: Wanted) -> bool {
        !(wanted.sha256 && self.sha256.is_none() || wanted.sha512 && self.sha512.is_none())
    }
}

impl Hasher {
    /// Goes on from `state`; `None` where that is none.
    pub(super) fn resume(state: &HasherState) -> Option<Self> {
        let sha256 = state.sha256.as_deref().map(resumed).transpose();
        let sha512 = state.sha512.as_deref().map(resumed).transpose();
        Some(Self {
            sha256: sha256.ok()?,
            sha512: sha512.ok()?,
            md5: None,
            checksum: None,
        })
    }

    pub(super) fn state(&self) -> HasherState {
        HasherState {
            sha256: self.sha256.as_ref().map(kept),
            sha512: self.sha512.as_ref().map(kept),
        }
    }

    pub(super) fn new(wanted: Wanted) -> Self {
        Self {
            sha256: wanted.sha256.then(Sha256::new),
            sha512: wanted.sha512.then(Sha512::new),
            md5: wanted.md5.then(Md5::new),
            checksum: wanted.checksum.map(Summer::new),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
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

    pub(super) fn update_all(mut self, pieces: &[Bytes]) -> Self {
        for piece in pieces {
            self.update(piece);
        }
        self
    }

    pub(super) fn finish(self) -> Digests {
        Digests {
            sha256: self.sha256.map(|h| h.finalize().into()),
            sha512: self.sha512.map(|h| h.finalize().into()),
            md5: self.md5.map(|h| h.finalize().into()),
            checksum: self.checksum.and_then(Summer::finish),
        }
    }
}

fn kept(hasher: &impl SerializableState) -> String {
    HEXLOWER.encode(&hasher.serialize())
}

fn resumed<H: SerializableState>(text: &str) -> Result<H, NoState> {
    let state = HEXLOWER.decode(text.as_bytes()).map_err(|_| NoState)?;
    let state = SerializedState::<H>::try_from(&state[..]).map_err(|_| NoState)?;
    H::deserialize(&state).map_err(|_| NoState)
}

/// What was kept is no state.
struct NoState;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHA: Wanted = Wanted {
        sha256: true,
        sha512: true,
        md5: false,
        checksum: None,
    };

    proptest! {
        #[test]
        fn another_hasher_goes_on_where_one_stands(bytes in prop::collection::vec(any::<u8>(), 0..500), at in 0..500_usize) {
            let (first, rest) = bytes.split_at(at.min(bytes.len()));
            let whole = Hasher::new(SHA).update_all(&[bytes.clone().into()]).finish();
            let state = Hasher::new(SHA).update_all(&[first.to_vec().into()]).state();
            let text = serde_json::to_string(&state).unwrap();
            let state: HasherState = serde_json::from_str(&text).unwrap();
            let resumed = Hasher::resume(&state).unwrap();
            prop_assert_eq!(resumed.update_all(&[rest.to_vec().into()]).finish(), whole);
        }
    }

    #[test]
    fn what_is_no_state_is_not_gone_on_with() {
        for text in ["", "xy", "é", &"0".repeat(1000)] {
            let state = HasherState {
                sha256: Some(text.to_owned()),
                sha512: None,
            };
            assert!(Hasher::resume(&state).is_none(), "{text}");
        }
    }
}
