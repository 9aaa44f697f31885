//! Receiving an upload, wherever its bytes go: what is known of the value before, and its bytes, which are counted in
//! the quota, gathered for the next write, and hashed on the compute threads.
//!
//! The upload that owns a [`UploadReceiver`] decides where they go: to a file of the directory, or on to an S3 store.

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rustix::io::{Errno, retry_on_intr};

use super::quota::{ReservationHandle, Uploader};
use super::{BlockingPool, CHUNK, COPIED};
use crate::value::{Attributes, Digests, Error, Hasher, Preconditions, Wanted};

/// `IOV_MAX` of Linux: what one pwritev takes.
const MAX_SLICES: usize = 1024;

/// The facts of a value that are known before it is received.
#[derive(Debug, Default)]
pub struct UploadHead {
    /// Its length in bytes.
    pub len: Option<u64>,
    /// The attributes to keep with it.
    pub attributes: Attributes,
    /// Its digest.
    pub sha256: Option<[u8; 32]>,
    /// The preconditions under which it is published.
    pub preconditions: Option<Preconditions>,
    /// The client whose quota it counts against, where there is one.
    pub uploader: Option<Uploader>,
}

/// The bytes of an upload that have been received and are not handed on yet.
pub struct UploadReceiver {
    pub buffer: WriteBuffer,
    /// The digests of the bytes that were handed on.
    hashing: Option<Hashing>,
    share: ReservationHandle,
}

impl UploadReceiver {
    /// A receiver without bytes, for an upload that has this `share` of the quota.
    pub fn new(share: ReservationHandle) -> Self {
        Self {
            buffer: WriteBuffer::default(),
            hashing: None,
            share,
        }
    }

    /// Grows the share of the quota to all bytes: the `gone` ones, which were handed on, those held here, and `more`.
    pub fn reserve(&mut self, gone: u64, more: usize) -> Result<(), Error> {
        self.share.grow(gone + (self.buffer.len() + more) as u64)
    }

    /// Moves bytes of `data` here, up to `full` in all; true once full. With `copied` the bytes are copied into a
    /// buffer of that length, and the memory of `data` is not held on to.
    pub fn fill(&mut self, data: &mut Bytes, full: usize, copied: Option<usize>) -> bool {
        let room = full - self.buffer.len();
        let next = data.split_to(room.min(data.len()));
        match copied {
            Some(most) => self.buffer.copy(&next, most),
            None => self.buffer.push(next),
        }
        self.buffer.len() == full
    }

    /// Gives up all that it holds, without a digest.
    pub fn into_parts(mut self) -> (Vec<Bytes>, ReservationHandle) {
        (self.buffer.take(), self.share)
    }

    /// Hands on all that it holds, and how many bytes that is. They are hashed from here on.
    pub async fn hand_on(&mut self) -> Result<(Vec<Bytes>, u64), Error> {
        let len = self.buffer.len() as u64;
        let runs = self.buffer.take();
        if let Some(hashing) = self.hashing.take() {
            self.hashing = Some(hashing.next(runs.clone()).await?);
        }
        Ok((runs, len))
    }

    /// Has the digests that are `wanted` computed from the bytes to come.
    pub fn hash(&mut self, wanted: Wanted, compute: BlockingPool) {
        self.hashing = Some(Hashing::new(wanted, compute));
    }

    /// True when any digest is computed.
    pub fn is_hashing(&self) -> bool {
        self.hashing.is_some()
    }

    /// True when all digests `wanted` are computed.
    pub fn covers(&self, wanted: Wanted) -> bool {
        let hashing = self.hashing.as_ref();
        hashing.is_some_and(|hashing| hashing.covers(wanted))
    }

    /// The digests that are `wanted` of the whole. Where they are not computed on the way, what was handed on is read
    /// again: so many bytes of the file that has them.
    pub async fn digests<F: AsFd + Send + Sync + 'static>(
        &mut self,
        wanted: Wanted,
        compute: &BlockingPool,
        gone: Option<(Arc<F>, u64)>,
    ) -> Result<Digests, Error> {
        let rest = self.buffer.share();
        let hashing = match (self.hashing.take(), gone) {
            (Some(hashing), _) if hashing.covers(wanted) => hashing,
            (_, Some((file, len))) => {
                let hash = move || hash_file(&*file, 0..len, Hasher::new(wanted));
                Hashing::after(wanted, compute.clone(), compute.spawn(hash))
            }
            // Another thread costs more.
            (_, None) if self.buffer.len() <= COPIED => {
                return Ok(Hasher::new(wanted).update_all(&rest).finish());
            }
            (_, None) => Hashing::new(wanted, compute.clone()),
        };
        hashing.next(rest).await?.finish().await
    }
}

/// Digests being computed: the hasher, when the job that has it is done.
pub struct Hashing {
    wanted: Wanted,
    hasher: Pin<Box<dyn Future<Output = Result<Hasher, Error>>>>,
    compute: BlockingPool,
}

impl Hashing {
    pub fn new(wanted: Wanted, compute: BlockingPool) -> Self {
        let hasher = std::future::ready(Ok(Hasher::new(wanted)));
        Self::after(wanted, compute, hasher)
    }

    /// Goes on with `hasher`, which has what came before.
    fn after(
        wanted: Wanted,
        compute: BlockingPool,
        hasher: impl Future<Output = Result<Hasher, Error>> + 'static,
    ) -> Self {
        Self {
            wanted,
            hasher: Box::pin(hasher),
            compute,
        }
    }

    /// True when all digests `wanted` are computed.
    fn covers(&self, wanted: Wanted) -> bool {
        self.wanted.union(wanted) == self.wanted
    }

    /// Has `runs` hashed, once those before them are.
    pub async fn next(self, runs: Vec<Bytes>) -> Result<Self, Error> {
        let hasher = self.hasher.await?;
        let job = self.compute.spawn(move || Ok(hasher.update_all(&runs)));
        Ok(Self::after(self.wanted, self.compute, job))
    }

    pub async fn finish(self) -> Result<Digests, Error> {
        Ok(self.hasher.await?.finish())
    }
}

/// Feeds the bytes of `file` in `range` to `hasher`. Blocks.
pub fn hash_file(file: impl AsFd, range: Range<u64>, mut hasher: Hasher) -> Result<Hasher, Error> {
    let mut buf = vec![0; CHUNK];
    let mut offset = range.start;
    while offset < range.end {
        let left = usize::try_from(range.end - offset).unwrap_or(CHUNK);
        let left = &mut buf[..left.min(CHUNK)];
        let read = read_at(&file, offset, left)?;
        hasher.update(&left[..read]);
        offset += read as u64;
    }
    Ok(hasher)
}

/// Reads bytes of `file` from `offset` on, no more than `buf` holds; how many, never none. Blocks.
pub fn read_at(file: impl AsFd, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
    let read = retry_on_intr(|| rustix::io::pread(&file, &mut *buf, offset));
    match read.map_err(Error::errno_while("read"))? {
        0 => Err(Error::Truncated),
        read => Ok(read),
    }
}

/// Bytes gathered for one write.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    runs: Vec<Bytes>,
    /// Short runs that are being copied together; they follow the `runs`.
    tail: BytesMut,
    len: usize,
}

impl WriteBuffer {
    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, data: Bytes) {
        self.len += data.len();
        if data.len() < COPIED {
            self.tail.extend_from_slice(&data);
            return;
        }
        self.close_tail();
        self.runs.push(data);
    }

    /// Takes a copy: nothing is kept of what `data` lies in. Up to `most` bytes will come.
    pub fn copy(&mut self, data: &[u8], most: usize) {
        self.len += data.len();
        self.tail.reserve(most.saturating_sub(self.tail.len()));
        self.tail.extend_from_slice(data);
    }

    /// All bytes; the buffer is empty afterwards.
    pub fn take(&mut self) -> Vec<Bytes> {
        self.close_tail();
        self.len = 0;
        std::mem::take(&mut self.runs)
    }

    /// All bytes; they stay in the buffer.
    pub fn share(&mut self) -> Vec<Bytes> {
        self.close_tail();
        self.runs.clone()
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.runs.push(std::mem::take(&mut self.tail).freeze());
        }
    }
}

/// Writes all of `runs` to `file` from `offset` on. Blocks.
pub fn write_at(file: impl AsFd, mut offset: u64, runs: &[Bytes]) -> Result<(), Error> {
    let mut slices: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let batch = rest.len().min(MAX_SLICES);
        match rustix::io::pwritev(&file, &rest[..batch], offset) {
            Ok(0) => return Err(Error::new("write", Errno::NOSPC)),
            Ok(n) => {
                offset += n as u64;
                IoSlice::advance_slices(&mut rest, n);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("write", errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_write_buffer_keeps_every_byte_in_order(runs in prop::collection::vec((0..40_000_usize, any::<u8>()), 0..20)) {
            let mut buffer = WriteBuffer::default();
            let mut expected = Vec::new();
            for (len, byte) in runs {
                expected.extend(std::iter::repeat_n(byte, len));
                buffer.push(Bytes::from(vec![byte; len]));
            }
            prop_assert_eq!(buffer.len(), expected.len());
            prop_assert_eq!(buffer.share().concat(), &expected[..]);
            prop_assert_eq!(buffer.take().concat(), expected);
            prop_assert_eq!(buffer.len(), 0);
        }
    }
}
