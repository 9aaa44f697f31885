//! A value on its way in: received in pieces, written aside by the disk threads, published whole.
//!
//! Holds at most two pieces: one being filled while the other is written. An [`Upload`] that is dropped leaves
//! nothing behind. Small values never touch a file before they are published.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, retry_on_intr};

use super::attributes::Attributes;
use super::budget::Share;
use super::content::Content;
use super::digest::{Digests, Hasher, Wanted};
use super::error::Error;
use super::object::ValueFile;
use super::piece::Piece;
use super::staged::{Staged, write_at};
use super::staging::Staging;
use super::threads::Threads;

mod inflow;

pub use inflow::{Inflow, read};

/// What one write takes at most.
const PIECE: usize = 256 << 10;

/// Values up to this are kept in memory until they are published.
const SMALL: u64 = 64 << 10;

type Writing = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// Digests being computed: the hasher, when the job that has it is done.
struct Hashing {
    wanted: Wanted,
    hasher: Pin<Box<dyn Future<Output = Result<Hasher, Error>>>>,
    compute: Threads,
}

impl Hashing {
    fn new(wanted: Wanted, compute: Threads) -> Self {
        let hasher = Box::pin(std::future::ready(Ok(Hasher::new(wanted))));
        Self {
            wanted,
            hasher,
            compute,
        }
    }

    /// Has `pieces` hashed, once those before them are.
    async fn next(self, pieces: Vec<Bytes>) -> Result<Self, Error> {
        let hasher = self.hasher.await?;
        let job = self.compute.spawn(move || Ok(hasher.update_all(&pieces)));
        Ok(Self {
            wanted: self.wanted,
            hasher: Box::pin(job),
            compute: self.compute,
        })
    }
}

/// A value being received.
pub struct Upload {
    staging: Arc<Staging>,
    staged: Option<Staged>,
    share: Share,
    piece: Piece,
    written: u64,
    writing: Option<Writing>,
    hashing: Option<Hashing>,
    attributes: Attributes,
}

impl Upload {
    /// Begins an upload of `len` bytes, where that is known: so much of the budget is its own before any arrives, and space
    /// on the disk for more than a small value's.
    pub(super) async fn begin(staging: Arc<Staging>, len: Option<u64>) -> Result<Self, Error> {
        let share = Share::new(staging.budget());
        let mut upload = Self {
            staging,
            staged: None,
            share,
            piece: Piece::default(),
            written: 0,
            writing: None,
            hashing: None,
            attributes: Attributes::default(),
        };
        upload.share.cover(len.unwrap_or(0))?;
        if let Some(len) = len.filter(|&len| len > SMALL) {
            upload.stage(Some(len)).await?;
        }
        Ok(upload)
    }

    /// Keeps `media_type` beside the value.
    pub fn set_media_type(&mut self, media_type: &str) {
        self.attributes.media_type = Some(media_type.into());
    }

    /// Has the digests that are `wanted` computed from the bytes to come, on the `compute` threads.
    pub fn hash(&mut self, wanted: Wanted, compute: Threads) {
        self.hashing = Some(Hashing::new(wanted, compute));
    }

    /// The digests of the value that are `wanted`, once all of it has been pushed. They are kept beside it.
    ///
    /// Costs little for those that [`Upload::hash`] has had computed on the way; for others the value is read again.
    pub async fn digests(&mut self, wanted: Wanted, compute: &Threads) -> Result<Digests, Error> {
        let hashing = match self.hashing.take() {
            Some(hashing) if hashing.wanted.and(wanted) == hashing.wanted => hashing,
            _ => self.hash_written(wanted, compute).await?,
        };
        self.piece.close_tail();
        let rest = self.piece.whole.clone();
        let digests = hashing.next(rest).await?.hasher.await?.finish();
        self.attributes.digests = Some(Box::new(digests));
        Ok(digests)
    }

    /// Starts over with what has been written to the file, if there is one.
    async fn hash_written(&mut self, wanted: Wanted, compute: &Threads) -> Result<Hashing, Error> {
        self.written().await?;
        let mut hashing = Hashing::new(wanted, compute.clone());
        if let Some(staged) = &self.staged {
            let (file, len) = (Arc::clone(staged.file()), self.written);
            let job = move || hash_file(&file, len, Hasher::new(wanted));
            hashing.hasher = Box::pin(compute.spawn(job));
        }
        Ok(hashing)
    }

    /// Takes the next bytes of the value, waiting while the disk is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), Error> {
        let received = self.written + (self.piece.len + data.len()) as u64;
        self.share.cover(received)?;
        while !data.is_empty() {
            let room = PIECE - self.piece.len;
            self.piece.push(data.split_to(room.min(data.len())));
            if self.piece.len == PIECE {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// All bytes are in: gives them up for publishing. Answers how many there are, too.
    pub(super) async fn finish(mut self) -> Result<(Content, u64), Error> {
        let len = self.written + self.piece.len as u64;
        let content = if self.staged.is_none() && self.piece.len as u64 <= SMALL {
            Content::Small(self.piece.take(), self.attributes, self.share)
        } else {
            if self.piece.len > 0 {
                self.flush().await?;
            }
            self.written().await?;
            let mut staged = self.staged.take().ok_or(Error::Truncated)?;
            staged.complete(self.attributes, self.share);
            Content::Staged(staged)
        };
        Ok((content.secured(&self.staging).await?, len))
    }

    /// Starts writing the piece, once what came before it is written.
    async fn flush(&mut self) -> Result<(), Error> {
        if self.staged.is_none() {
            self.stage(None).await?;
        }
        let len = self.piece.len as u64;
        let pieces = self.piece.take();
        if let Some(hashing) = self.hashing.take() {
            self.hashing = Some(hashing.next(pieces.clone()).await?);
        }
        self.write(len, move |file, offset| write_at(file, offset, &pieces))
            .await
    }

    /// Starts `job`, which writes the next `len` bytes at an offset, once what came before them is written.
    async fn write<F>(&mut self, len: u64, job: F) -> Result<(), Error>
    where
        F: FnOnce(&ValueFile, u64) -> Result<(), Error> + Send + 'static,
    {
        self.written().await?;
        let Some(staged) = &self.staged else {
            return Ok(());
        };
        let (file, offset) = (Arc::clone(staged.file()), self.written);
        self.written += len;
        let disk = self.staging.names().disk();
        self.writing = Some(Box::pin(disk.spawn(move || job(&file, offset))));
        Ok(())
    }

    async fn written(&mut self) -> Result<(), Error> {
        match self.writing.take() {
            Some(writing) => writing.await,
            None => Ok(()),
        }
    }

    async fn stage(&mut self, len: Option<u64>) -> Result<(), Error> {
        let staging = Arc::clone(&self.staging);
        let job = move || {
            let staged = staging.stage().map_err(Error::while_("create"))?;
            reserve(&staged, len.unwrap_or(0))?;
            Ok(staged)
        };
        self.staged = Some(self.staging.names().disk().run(job).await?);
        Ok(())
    }
}

/// Feeds the first `len` bytes of `file` to `hasher`. Blocks.
fn hash_file(file: &ValueFile, len: u64, mut hasher: Hasher) -> Result<Hasher, Error> {
    let mut buf = vec![0; PIECE];
    let mut offset = 0;
    while offset < len {
        let left = usize::try_from(len - offset).unwrap_or(PIECE).min(PIECE);
        match rustix::io::pread(file, &mut buf[..left], offset) {
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

/// Has the file system set `len` bytes aside, so that a value that cannot fit is refused before it is received.
fn reserve(staged: &Staged, len: u64) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    let file = &**staged.file();
    match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, len)) {
        // No such promise from this file system: the writes will tell.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(Error::new("reserve", errno)),
    }
}
