//! A value that has been received whole and waits to be published: where its bytes are.

use std::sync::Arc;

use bytes::Bytes;

use super::attributes::Attributes;
use super::budget::Share;
use super::error::Error;
use super::object::Version;
use super::staging::{Staged, Staging};

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
