//! A value that has been received whole and waits to be published: where its bytes are.

use std::sync::Arc;

use bytes::Bytes;

use super::attributes::Attributes;
use super::budget::Share;
use super::error::Error;
use super::object::Version;
use super::staged::Staged;
use super::staging::{Durability, Staging};

/// The bytes of a value.
#[derive(Debug)]
pub(super) enum Content {
    /// A small value, still in memory.
    Small(Vec<Bytes>, Attributes, Share),
    /// In a file, which has no version yet.
    Staged(Staged),
    /// In a file that has its version, and is on the disk if it must be.
    Sealed(Staged, Version),
}

impl Content {
    /// `bytes`, a small value that is to keep `media_type`.
    pub(super) fn small(bytes: Bytes, media_type: Option<Box<str>>, share: Share) -> Self {
        let attributes = Attributes {
            media_type,
            digests: None,
        };
        Self::Small(vec![bytes], attributes, share)
    }

    /// On the disk already where that is promised, so that the syncs of concurrent writers run, and are committed,
    /// together.
    pub(super) async fn secured(self, staging: &Arc<Staging>) -> Result<Self, Error> {
        if staging.durability() == Durability::Os {
            return Ok(self);
        }
        let staging = Arc::clone(staging);
        let disk = staging.names().disk().clone();
        disk.spawn(move || {
            let (staged, version) = self.seal(&staging, false)?;
            Ok(Self::Sealed(staged, version))
        })
        .await
    }

    /// The bytes in a file that has its version.
    pub(super) fn seal(
        self,
        staging: &Arc<Staging>,
        replaces: bool,
    ) -> Result<(Staged, Version), Error> {
        let staged = match self {
            Self::Small(pieces, attributes, share) => {
                staging.stage_small(&pieces, attributes, share, replaces)?
            }
            Self::Staged(staged) => staged,
            Self::Sealed(staged, version) => return Ok((staged, version)),
        };
        let version = staging.seal(&staged, None)?;
        Ok((staged, version))
    }
}
