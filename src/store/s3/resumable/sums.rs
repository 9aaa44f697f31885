//! Digests of a resumable upload while a part of it is received: of all that has been received, of the bytes of this
//! request, and of what waits in the file. Computed by the compute threads, one job after the other.

use std::pin::Pin;

use bytes::Bytes;

use super::super::super::blocking_pool::BlockingPool;
use super::super::super::digest::{Hasher, Wanted};
use super::super::super::error::Error;

/// What a store is to be told of bytes that it is sent.
const SHA256: Wanted = Wanted {
    sha256: true,
    sha512: false,
    md5: false,
    checksum: None,
};

/// Digests being computed.
pub(super) struct Sums {
    job: Pin<Box<dyn Future<Output = Result<Hashers, Error>>>>,
    compute: BlockingPool,
}

/// Where they stand.
#[derive(Clone, Debug)]
pub(super) struct Hashers {
    pub(super) whole: Hasher,
    pub(super) request: Hasher,
    pub(super) spooled: Hasher,
}

impl Hashers {
    /// Of an upload whose bytes so far `whole` has.
    pub(super) fn new(whole: Hasher, of_request: Wanted) -> Self {
        Self {
            whole,
            request: Hasher::new(of_request),
            spooled: Hasher::new(SHA256),
        }
    }

    /// The digest of what waits in the file.
    pub(super) fn sha256(&self) -> Option<[u8; 32]> {
        self.spooled.clone().finish().sha256
    }
}

impl Sums {
    pub(super) fn new(hashers: Hashers, compute: BlockingPool) -> Self {
        Self {
            job: Box::pin(std::future::ready(Ok(hashers))),
            compute,
        }
    }

    /// Has `runs` hashed, once those before them are. Those that were received by an earlier request belong to what waits
    /// in the file alone.
    pub(super) async fn next(self, runs: Vec<Bytes>, is_new: bool) -> Result<Self, Error> {
        let mut hashers = self.job.await?;
        let job = self.compute.spawn(move || {
            if is_new {
                hashers.whole = hashers.whole.update_all(&runs);
                hashers.request = hashers.request.update_all(&runs);
            }
            hashers.spooled = hashers.spooled.update_all(&runs);
            Ok(hashers)
        });
        Ok(Self {
            job: Box::pin(job),
            compute: self.compute,
        })
    }

    /// Where they stand, once all is hashed; the file is empty from then on, if it `is_sent`.
    pub(super) async fn settle(self, is_sent: bool) -> Result<(Self, Hashers), Error> {
        let settled = self.job.await?;
        let mut hashers = settled.clone();
        if is_sent {
            hashers.spooled = Hasher::new(SHA256);
        }
        Ok((Self::new(hashers, self.compute), settled))
    }
}
