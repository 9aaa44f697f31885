//! Digests of an upload, computed while it is received.

use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;

use bytes::Bytes;
use rustix::io::Errno;

use super::super::blocking_pool::BlockingPool;
use super::super::digest::{Digests, Hasher, Wanted};
use super::super::error::Error;
use super::super::limits::CHUNK;

/// Digests being computed: the hasher, when the job that has it is done.
pub(in crate::store) struct Hashing {
    wanted: Wanted,
    hasher: Pin<Box<dyn Future<Output = Result<Hasher, Error>>>>,
    compute: BlockingPool,
}

impl Hashing {
    pub(in crate::store) fn new(wanted: Wanted, compute: BlockingPool) -> Self {
        let hasher = Box::pin(std::future::ready(Ok(Hasher::new(wanted))));
        Self {
            wanted,
            hasher,
            compute,
        }
    }

    /// Begins with `read`, which blocks and feeds the hasher what came before.
    pub(in crate::store) fn after(
        wanted: Wanted,
        compute: BlockingPool,
        read: impl FnOnce(Hasher) -> Result<Hasher, Error> + Send + 'static,
    ) -> Self {
        let hasher = Box::pin(compute.spawn(move || read(Hasher::new(wanted))));
        Self {
            wanted,
            hasher,
            compute,
        }
    }

    /// Whether all that is `wanted` is computed.
    pub(in crate::store) fn covers(&self, wanted: Wanted) -> bool {
        self.wanted.union(wanted) == self.wanted
    }

    /// Has `runs` hashed, once those before them are.
    pub(in crate::store) async fn next(self, runs: Vec<Bytes>) -> Result<Self, Error> {
        let hasher = self.hasher.await?;
        let job = self.compute.spawn(move || Ok(hasher.update_all(&runs)));
        Ok(Self {
            wanted: self.wanted,
            hasher: Box::pin(job),
            compute: self.compute,
        })
    }

    pub(in crate::store) async fn finish(self) -> Result<Digests, Error> {
        Ok(self.hasher.await?.finish())
    }
}

/// Feeds the bytes of `file` in `range` to `hasher`. Blocks.
pub(in crate::store) fn hash_file(
    file: impl AsFd,
    range: Range<u64>,
    mut hasher: Hasher,
) -> Result<Hasher, Error> {
    let mut buf = vec![0; CHUNK];
    let mut offset = range.start;
    while offset < range.end {
        let left = usize::try_from(range.end - offset).unwrap_or(CHUNK);
        let left = left.min(CHUNK);
        match rustix::io::pread(&file, &mut buf[..left], offset) {
            Ok(0) => return Err(Error::Truncated),
            Ok(n) => {
                hasher.update(&buf[..n]);
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("read back", errno)),
        }
    }
    Ok(hasher)
}
