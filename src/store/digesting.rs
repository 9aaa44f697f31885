//! The digest of a stored value: as it is kept beside the value, or computed from all of it.
//!
//! Goes on by turns, each a job of its own on the compute threads: other jobs have theirs in between, however large the
//! value is, and when the future is dropped there is no next turn.

use std::sync::Arc;

use super::attributes;
use super::object::Object;
use crate::transfer::{BlockingPool, CHUNK};
use crate::value::{Digest, Error, Hasher, Wanted};

/// How much is hashed in a turn: some milliseconds, as a turn of compression takes.
const TURN: u64 = 4 << 20;

/// A digest being computed.
struct Digesting {
    object: Arc<Object>,
    sha512: bool,
    keep: bool,
    hasher: Hasher,
    offset: u64,
}

/// The outcome of a turn.
enum Turn {
    More(Box<Digesting>),
    Done(Digest),
}

impl Object {
    /// The digest that `sha512` chooses, SHA-256 otherwise: as kept beside the value, or computed by `compute` from all of
    /// it, and then kept if `keep`.
    pub async fn digest(
        self: &Arc<Self>,
        sha512: bool,
        keep: bool,
        compute: &BlockingPool,
    ) -> Result<Digest, Error> {
        let object = Arc::clone(self);
        let mut turn = compute.run(move || begin(object, sha512, keep)).await?;
        loop {
            match turn {
                Turn::Done(digest) => return Ok(digest),
                Turn::More(digesting) => turn = compute.run(move || digesting.take_turn()).await?,
            }
        }
    }
}

fn begin(object: Arc<Object>, sha512: bool, keep: bool) -> Result<Turn, Error> {
    let version = object.meta().version;
    let kept = if sha512 {
        attributes::sha512(object.file(), version).map(Digest::Sha512)
    } else {
        attributes::sha256(object.file(), version).map(Digest::Sha256)
    };
    if let Some(digest) = kept {
        return Ok(Turn::Done(digest));
    }
    let hasher = Hasher::new(Wanted {
        sha256: !sha512,
        sha512,
        ..Wanted::default()
    });
    let digesting = Box::new(Digesting {
        object,
        sha512,
        keep,
        hasher,
        offset: 0,
    });
    digesting.take_turn()
}

impl Digesting {
    /// One turn.
    fn take_turn(mut self: Box<Self>) -> Result<Turn, Error> {
        let mut buf = vec![0; CHUNK];
        let len = self.object.meta().len;
        let end = len.min(self.offset + TURN);
        while self.offset < end {
            let left = usize::try_from(end - self.offset).unwrap_or(CHUNK);
            let chunk = &mut buf[..left.min(CHUNK)];
            let read = self.object.read_blocking(self.offset, chunk)?;
            if read == 0 {
                return Err(Error::Truncated);
            }
            self.hasher.update(&chunk[..read]);
            self.offset += read as u64;
        }
        if self.offset < len {
            return Ok(Turn::More(self));
        }
        self.finish().map(Turn::Done)
    }

    fn finish(self: Box<Self>) -> Result<Digest, Error> {
        let digests = self.hasher.finish();
        let digest = if self.sha512 {
            digests.sha512.map(Digest::Sha512)
        } else {
            digests.sha256.map(Digest::Sha256)
        };
        let digest = digest.ok_or(Error::Truncated)?;
        if self.keep && self.object.is_current() {
            // A convenience: the digest is as good without it.
            let version = self.object.meta().version;
            let _ = attributes::keep_digest(self.object.file(), version, digest);
        }
        Ok(digest)
    }
}
