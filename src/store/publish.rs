//! The publisher: one thread that alone changes what names stand for.
//!
//! Every PUT and DELETE ends here, so that preconditions are decided at the moment of publishing and all changes of a
//! key have one order. It takes whatever waits as one batch: all names lie in one directory, whose lock the kernel
//! gives to one thread at a time anyway. It writes no large data (that was staged by the disk threads) and answers
//! also those who no longer listen: a change that was handed over is made.

use std::io::IoSlice;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};

use super::clock::Clock;
use super::error::Error;
use super::key::Key;
use super::names::Entry;
use super::object::{Meta, ValueFile, Version};
use super::staging::{Staged, Staging};

/// Changes waiting to be published; beyond it, writers wait to hand theirs over.
const QUEUE: usize = 1024;

/// The most taken at once, so that the first of a batch does not wait long for the last.
const BATCH: usize = 256;

/// Removing a file larger than this keeps the publisher from its next change for too long.
const SLOW_TO_FREE: u64 = 256 << 10;

/// The bytes of a value.
#[derive(Debug)]
pub(super) enum Content {
    /// A small value, still in memory.
    Small(Vec<Bytes>),
    /// Staged already.
    Staged(Staged),
}

#[derive(Debug)]
pub(super) enum Change {
    Put {
        key: Key<'static>,
        content: Content,
        done: oneshot::Sender<Result<Version, Error>>,
    },
    /// Answers whether there was a value to delete.
    Delete {
        key: Key<'static>,
        done: oneshot::Sender<Result<bool, Error>>,
    },
}

/// A handle on the publisher; dropping it lets the thread finish what waits and joins it.
#[derive(Debug)]
pub(super) struct Publisher {
    queue: Option<mpsc::Sender<Change>>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    pub(super) fn start(staging: Arc<Staging>, clock: Clock) -> std::io::Result<Self> {
        let (queue, changes) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("disk-publisher".into())
            .spawn(move || Desk { staging, clock }.work(changes))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    pub(super) async fn put(&self, key: Key<'static>, content: Content) -> Result<Version, Error> {
        self.change(|done| Change::Put { key, content, done }).await
    }

    pub(super) async fn delete(&self, key: Key<'static>) -> Result<bool, Error> {
        self.change(|done| Change::Delete { key, done }).await
    }

    async fn change<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Change,
    ) -> Result<T, Error> {
        let gone = || Error::Failed {
            doing: "publish",
            source: std::io::Error::other("the publisher has ended"),
        };
        let (done, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(make(done)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the publisher's thread works with.
struct Desk {
    staging: Arc<Staging>,
    clock: Clock,
}

impl Desk {
    fn work(mut self, mut changes: mpsc::Receiver<Change>) {
        let mut batch = Vec::with_capacity(BATCH);
        while changes.blocking_recv_many(&mut batch, BATCH) > 0 {
            for change in batch.drain(..) {
                match change {
                    Change::Put { key, content, done } => drop(done.send(self.put(&key, content))),
                    Change::Delete { key, done } => drop(done.send(self.delete(&key))),
                }
            }
        }
    }

    fn put(&mut self, key: &Key<'_>, content: Content) -> Result<Version, Error> {
        let mut staged = self.staged(content)?;
        let mut version = self.stamp(&staged, None)?;
        match staged.link(key) {
            Ok(()) => return Ok(version),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(Error::new("link", errno)),
        }
        let replaced = match self.look_up(key)? {
            Entry::Absent => None,
            Entry::Value(meta) => {
                if meta.version >= version {
                    version = self.stamp(&staged, Some(meta.version))?;
                }
                self.hold_if_slow(key, meta)
            }
            Entry::Other => return Err(Error::Occupied),
        };
        staged.replace(key).map_err(|errno| match errno {
            Errno::ISDIR | Errno::NOTDIR => Error::Occupied,
            errno => Error::new("rename", errno),
        })?;
        drop(replaced);
        Ok(version)
    }

    fn delete(&mut self, key: &Key<'_>) -> Result<bool, Error> {
        let Entry::Value(meta) = self.look_up(key)? else {
            return Ok(false);
        };
        let removed = self.hold_if_slow(key, meta);
        match self.staging.names().unlink(key) {
            Ok(()) => {}
            // A hand was quicker, with rm or with mkdir.
            Err(Errno::NOENT | Errno::ISDIR) => return Ok(false),
            Err(errno) => return Err(Error::new("unlink", errno)),
        }
        drop(removed);
        Ok(true)
    }

    fn staged(&self, content: Content) -> Result<Staged, Error> {
        match content {
            Content::Staged(staged) => Ok(staged),
            Content::Small(pieces) => {
                let staged = self.staging.stage().map_err(Error::while_("create"))?;
                write_at(staged.file(), 0, &pieces)?;
                Ok(staged)
            }
        }
    }

    fn stamp(&mut self, staged: &Staged, current: Option<Version>) -> Result<Version, Error> {
        let version = self
            .clock
            .next(current)
            .map_err(Error::while_("advance the clock of versions"))?;
        staged
            .stamp(version)
            .map_err(Error::while_("stamp the version"))?;
        Ok(version)
    }

    fn look_up(&self, key: &Key<'_>) -> Result<Entry, Error> {
        self.staging
            .names()
            .look_up(key)
            .map_err(Error::while_("look up"))
    }

    fn hold_if_slow(&self, key: &Key<'_>, meta: Meta) -> Option<ValueFile> {
        if meta.len > SLOW_TO_FREE {
            self.staging.names().hold(key)
        } else {
            None
        }
    }
}

/// Writes all of `pieces` to `file` from `offset` on.
pub(super) fn write_at(file: &ValueFile, mut offset: u64, pieces: &[Bytes]) -> Result<(), Error> {
    let mut slices: Vec<_> = pieces.iter().map(|p| IoSlice::new(p)).collect();
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let batch = rest.len().min(MAX_SLICES);
        match rustix::io::pwritev(file, &rest[..batch], offset) {
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

/// `IOV_MAX` of Linux: what one pwritev takes.
const MAX_SLICES: usize = 1024;
