//! The body of a long upload as it arrives, and pipes, through which bytes go inside the kernel without a copy from a
//! socket to a file.
//!
//! The connection that holds the socket implements [`BodySource`]. Each future made of one may be dropped: what had
//! arrived by then is lost with it, as is the upload.
//!
//! A pipe belongs to one thread at a time: the reactor that fills it, then the disk thread that empties it into a file.
//! (The kernel locks a pipe while a file is written from it, so sharing one would make a reactor wait for the disk.)
//! Their number is bounded, and with it the memory of the kernel that they can hold.

use std::fmt::Debug;
use std::future::poll_fn;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::CHUNK;
use super::receiver::write_at;
use crate::value::Error;

/// The bytes of one value, in order, as they arrive. Each call that takes bytes answers how many, or `None` when the
/// body ended too early.
pub trait BodySource: Debug {
    /// How many bytes are left.
    fn remaining(&self) -> u64;

    /// Takes the bytes that have been received already. They come before all others, so this is called first.
    fn take_early(&mut self) -> Bytes;

    /// Sends `head`, that of an interim response, and takes from it what has left; a client that has gone gets none.
    fn poll_announce(&mut self, cx: &mut Context<'_>, head: &mut Bytes) -> Poll<()>;

    /// Reads into the spare room of `buf`, never past the end; how many bytes, not 0.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<Option<usize>>;

    /// True where bytes can go to a file inside the kernel: it has them in the clear.
    fn can_splice(&self) -> bool;

    /// Moves bytes that have not been received yet into `pipe`, which does not block, where it can; how many, 0 only
    /// when it is full. `is_empty` says whether the pipe is empty.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        is_empty: bool,
    ) -> Poll<Option<usize>>;

    /// Drops bytes where they are; how many, not 0.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>>;

    /// The socket, for another thread to take bytes from that have not been received yet; `None` when no descriptor can
    /// be made.
    fn source(&self) -> Option<OwnedFd>;

    /// Records that another thread took `len` bytes from [`BodySource::source`].
    fn taken(&mut self, len: u64);
}

/// The next bytes of `source`, in memory.
pub async fn read(source: &mut dyn BodySource) -> Result<Bytes, Error> {
    let early = source.take_early();
    if !early.is_empty() {
        return Ok(early);
    }
    let mut buf = BytesMut::with_capacity(CHUNK);
    let read = poll_fn(|cx| source.poll_read(cx, &mut buf)).await;
    read.ok_or(Error::Incomplete)?;
    Ok(buf.freeze())
}

/// Pipes at once; each takes two descriptors.
const MOST: usize = 64;

/// The capacity that a pipe is asked for: what the kernel grants without privileges.
const CAPACITY: usize = 1 << 20;

/// A pipe that holds less brings no gain.
const LEAST: usize = 256 << 10;

/// How full a reactor fills a pipe before a disk thread takes over.
const WORTH_WRITING: usize = 64 << 10;

/// Bytes that a disk thread moves at a time: little enough to be in the processor's cache still when it is copied.
const STEP: u64 = 128 << 10;

/// Bytes that are copied at a time where a file takes nothing from a pipe.
const COPIED: usize = 128 << 10;

/// The permits for all pipes of a store.
#[derive(Clone, Debug)]
pub struct Pipes(Arc<Semaphore>);

/// A pipe, and how many bytes are in it.
#[derive(Debug)]
pub struct Pipe {
    into: OwnedFd,
    out: OwnedFd,
    holds: usize,
    _permit: OwnedSemaphorePermit,
}

impl Default for Pipes {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Pipes {
    /// A new empty pipe, below the bound. Pipes are not kept for reuse, as each would hold on to two descriptors.
    pub fn take(&self) -> Option<Pipe> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok()?;
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // The kernel lets a user without privileges have a limited number of pages in pipes; beyond that, pipes are
        // small.
        let _ = fcntl_setpipe_size(&into, CAPACITY);
        let is_large = fcntl_getpipe_size(&into).is_ok_and(|size| size >= LEAST);
        is_large.then_some(Pipe {
            into,
            out,
            holds: 0,
            _permit: permit,
        })
    }
}

impl Pipe {
    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.holds
    }

    /// Fills it from `source`, as far as is worth writing.
    pub async fn fill(&mut self, source: &mut dyn BodySource) -> Result<(), Error> {
        while source.remaining() > 0 && self.holds < WORTH_WRITING {
            let is_empty = self.holds == 0;
            let moved = poll_fn(|cx| source.poll_splice(cx, self.into.as_fd(), is_empty));
            match moved.await.ok_or(Error::Incomplete)? {
                0 => break,
                moved => self.holds += moved,
            }
        }
        Ok(())
    }

    /// Passes up to `most` bytes of `source` on to `file`, at `offset`, while bytes have arrived; answers how many. The
    /// pipe must be empty. Blocks for the file only.
    pub fn pass_on(
        &mut self,
        source: BorrowedFd<'_>,
        most: u64,
        file: impl AsFd,
        offset: u64,
    ) -> Result<u64, Error> {
        let mut passed = 0;
        while passed < most {
            // From one multiple to the next, so that the kernel can use folios of this size.
            let step = STEP - (offset + passed) % STEP;
            let step = usize::try_from(step.min(most - passed)).unwrap_or(0);
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            match splice(source, None, &self.into, None, step, flags) {
                // The reactor finds the end of the stream, and its errors.
                Ok(0) | Err(_) => break,
                Ok(n) => self.holds = n,
            }
            let holds = self.holds as u64;
            self.write_to(&file, offset + passed)?;
            passed += holds;
        }
        Ok(passed)
    }

    /// Writes all that it holds to `file`, from `offset` on. Blocks.
    pub fn write_to(&mut self, file: impl AsFd, mut offset: u64) -> Result<(), Error> {
        while self.holds > 0 {
            let flags = SpliceFlags::MOVE;
            match splice(&self.out, None, &file, Some(&mut offset), self.holds, flags) {
                Ok(0) => return Err(Error::new("write", Errno::NOSPC)),
                Ok(n) => self.holds -= n,
                Err(Errno::INTR) => {}
                // This file system takes nothing from a pipe.
                Err(Errno::INVAL) => return self.copy_to(file, offset),
                Err(errno) => return Err(Error::new("write", errno)),
            }
        }
        Ok(())
    }

    fn copy_to(&mut self, file: impl AsFd, mut offset: u64) -> Result<(), Error> {
        let mut buf = vec![0; COPIED];
        while self.holds > 0 {
            let most = self.holds.min(COPIED);
            match rustix::io::read(&self.out, &mut buf[..most]) {
                Ok(0) => return Err(Error::new("read a pipe", Errno::IO)),
                Ok(n) => {
                    write_at(&file, offset, &[Bytes::copy_from_slice(&buf[..n])])?;
                    offset += n as u64;
                    self.holds -= n;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::new("read a pipe", errno)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    /// Stands for a file system that takes no splice: files opened for appending take none either.
    #[test]
    fn a_file_that_takes_nothing_from_a_pipe_gets_the_bytes_all_the_same() {
        let mut named = tempfile::NamedTempFile::new().expect("a file");
        let appended = std::fs::File::options().append(true).open(named.path());
        let file = appended.expect("the file");
        let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        let mut pipe = Pipes::default().take().expect("a pipe");
        pipe.holds = rustix::io::write(&pipe.into, &bytes).expect("room");
        assert_eq!(pipe.holds, bytes.len());
        pipe.write_to(&file, 0).expect("written");
        let mut found = Vec::new();
        named.rewind().expect("a start");
        named.read_to_end(&mut found).expect("the bytes");
        assert!(found == bytes, "{} bytes", found.len());
    }

    #[test]
    fn pipes_are_bounded_and_given_back() {
        let pipes = Pipes::default();
        // A user without privileges gets fewer than MOST of the kernel.
        let mut taken: Vec<_> = std::iter::from_fn(|| pipes.take()).take(2 * MOST).collect();
        assert!((1..=MOST).contains(&taken.len()), "{} pipes", taken.len());
        taken.pop();
        assert!(pipes.take().is_some());
    }
}
