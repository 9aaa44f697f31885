//! Pipes through which bytes go from a socket to a file inside the kernel, without a copy in between.
//!
//! A pipe belongs to one thread at a time: the reactor that fills it, then the disk thread that empties it. (The kernel
//! locks a pipe while a file is written from it, so sharing one would make a reactor wait for the disk.) Their number is
//! bounded, and with it the memory of the kernel that they can hold.

use std::future::poll_fn;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};

use super::error::Error;
use super::object::ValueFile;
use super::upload::Inflow;

/// Pipes at once; each is two descriptors.
const MOST: usize = 64;

/// Pipes kept while nobody needs them.
const KEPT: usize = 16;

/// What a pipe is asked to hold: what the kernel grants to anybody.
const CAPACITY: usize = 1 << 20;

/// A pipe that holds less is no gain.
const LEAST: usize = 256 << 10;

/// How full a reactor fills a pipe before a disk thread takes over.
const WORTH_WRITING: usize = 64 << 10;

/// What a disk thread moves at a time: little enough to be in the processor's cache still when it is copied.
const STEP: usize = 128 << 10;

/// All pipes of a store.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    idle: Mutex<Vec<Ends>>,
    made: AtomicUsize,
}

#[derive(Debug)]
struct Ends {
    into: OwnedFd,
    out: OwnedFd,
}

/// A pipe, and how many bytes are in it.
#[derive(Debug)]
pub(super) struct Pipe {
    ends: Option<Ends>,
    holds: usize,
    all: Arc<Pipes>,
}

impl Pipes {
    /// An empty pipe, if there is one to be had.
    pub(super) fn take(self: &Arc<Self>) -> Option<Pipe> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let ends = match idle {
            Some(ends) => ends,
            None => self.make()?,
        };
        Some(Pipe {
            ends: Some(ends),
            holds: 0,
            all: Arc::clone(self),
        })
    }

    fn make(&self) -> Option<Ends> {
        let is_one_more = self.made.fetch_add(1, Ordering::Relaxed) < MOST;
        let ends = is_one_more.then(Ends::new).and_then(Result::ok);
        if ends.is_none() {
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
        ends
    }
}

impl Ends {
    /// The kernel lets a user without privileges have only so many pages in pipes; beyond that, pipes are small.
    fn new() -> Result<Self, Errno> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let _ = fcntl_setpipe_size(&into, CAPACITY);
        if fcntl_getpipe_size(&into)? < LEAST {
            return Err(Errno::PERM);
        }
        Ok(Self { into, out })
    }
}

impl Pipe {
    pub(super) fn len(&self) -> usize {
        self.holds
    }

    fn ends(&self) -> &Ends {
        self.ends.as_ref().expect("the ends are only taken by drop")
    }

    /// Fills it from `inflow`, as far as is worth writing.
    pub(super) async fn fill(&mut self, inflow: &mut dyn Inflow) -> Result<(), Error> {
        while inflow.left() > 0 && self.holds < WORTH_WRITING {
            let is_empty = self.holds == 0;
            let moved = poll_fn(|cx| {
                let pipe = self.ends().into.as_fd();
                inflow.poll_splice(cx, pipe, is_empty)
            });
            match moved.await.ok_or(Error::BrokenOff)? {
                0 => break,
                moved => self.holds += moved,
            }
        }
        Ok(())
    }

    /// Passes up to `most` bytes of `source` on to `file`, at `offset`, as long as some have arrived; how many. It must be
    /// empty. Blocks for the file only.
    pub(super) fn pass_on(
        &mut self,
        source: BorrowedFd<'_>,
        most: u64,
        file: &ValueFile,
        offset: u64,
    ) -> Result<u64, Error> {
        let mut passed = 0;
        while passed < most {
            let step = usize::try_from(most - passed).unwrap_or(STEP).min(STEP);
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            match splice(source, None, &self.ends().into, None, step, flags) {
                // The end of the stream, and what went wrong with it, is for the reactor to find.
                Ok(0) | Err(_) => break,
                Ok(n) => self.holds = n,
            }
            let holds = self.holds as u64;
            self.write_to(file, offset + passed)?;
            passed += holds;
        }
        Ok(passed)
    }

    /// Writes all that it holds to `file`, from `offset` on. Blocks.
    pub(super) fn write_to(&mut self, file: &ValueFile, mut offset: u64) -> Result<(), Error> {
        while self.holds > 0 {
            let out = &self.ends().out;
            let flags = SpliceFlags::MOVE;
            match splice(out, None, file, Some(&mut offset), self.holds, flags) {
                Ok(0) => return Err(Error::new("write", Errno::NOSPC)),
                Ok(n) => self.holds -= n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::new("write", errno)),
            }
        }
        Ok(())
    }
}

impl Drop for Pipe {
    /// An empty pipe is kept for the next; what is in another is thrown away with it.
    fn drop(&mut self) {
        let Some(ends) = self.ends.take() else { return };
        let mut idle = self.all.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if self.holds == 0 && idle.len() < KEPT {
            idle.push(ends);
        } else {
            self.all.made.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
