//! The publisher: one thread that alone changes what names stand for.
//!
//! Every PUT and DELETE ends here, so that preconditions are decided at the moment of publishing and all changes of a
//! key have one order. It takes whatever waits as one batch: all names lie in one directory, whose lock the kernel
//! gives to one thread at a time anyway, and one sync of it serves the whole batch. It writes no large data (that was
//! staged by the disk threads), and a change that was handed over is made also when nobody waits for it any more.
//! What it has published it tells [`Changes`], in that order, before it is acknowledged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};

use super::changes::Changes;
use super::content::Content;
use super::error::Error;
use super::key::Key;
use super::names::Entry;
use super::object::{Meta, ValueFile, Version};
use super::staging::Staging;

/// Changes waiting to be published; beyond it, writers wait to hand theirs over.
const QUEUE: usize = 1024;

/// The most taken at once, so that the first of a batch does not wait long for the last.
const BATCH: usize = 256;

/// Removing a file larger than this keeps the publisher from its next change for too long.
const SLOW_TO_FREE: u64 = 256 << 10;

/// Decides, at the moment of publishing, whether a change may be made: it is shown the value that the change would
/// replace or remove, if there is one.
pub type Condition = Box<dyn Fn(Option<Meta>) -> bool + Send>;

type Done<T> = oneshot::Sender<Result<T, Error>>;

#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the common one, and has no allocation of its own"
)]
enum Change {
    /// The content has so many bytes.
    Put(
        Key<'static>,
        (Content, u64),
        Option<Condition>,
        Done<Version>,
    ),
    /// Answers whether there was a value to delete.
    Delete(Key<'static>, Option<Condition>, Done<bool>),
}

/// What became of a change, and who waits to hear it.
struct Made {
    /// What others are to be told, if there was a change.
    told: Option<(Key<'static>, Option<Meta>)>,
    outcome: Outcome,
}

enum Outcome {
    Put(Result<Version, Error>, Done<Version>),
    Deleted(Result<bool, Error>, Done<bool>),
}

/// A handle on the publisher; dropping it lets the thread finish what waits and joins it.
#[derive(Debug)]
pub(super) struct Publisher {
    queue: Option<mpsc::Sender<Change>>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    pub(super) fn start(staging: Arc<Staging>, told: Arc<Changes>) -> std::io::Result<Self> {
        let (queue, changes) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("disk-publisher".into())
            .spawn(move || Desk { staging, told }.work(changes))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    pub(super) async fn put(
        &self,
        key: Key<'static>,
        content: (Content, u64),
        condition: Option<Condition>,
    ) -> Result<Version, Error> {
        self.change(|done| Change::Put(key, content, condition, done))
            .await
    }

    pub(super) async fn delete(
        &self,
        key: Key<'static>,
        condition: Option<Condition>,
    ) -> Result<bool, Error> {
        self.change(|done| Change::Delete(key, condition, done))
            .await
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
    told: Arc<Changes>,
}

impl Desk {
    fn work(self, mut changes: mpsc::Receiver<Change>) {
        let mut batch = Vec::with_capacity(BATCH);
        while changes.blocking_recv_many(&mut batch, BATCH) > 0 {
            self.staging.counters().batches.observe(batch.len() as u64);
            let taken = batch.len();
            let mut made: Vec<_> = batch.drain(..).filter_map(|c| self.survive(c)).collect();
            let synced = self.staging.sync_names();
            self.tell(&mut made, taken, synced.is_ok());
            for made in made {
                made.outcome.answer(synced);
            }
        }
    }

    /// Tells what was published; a change whose outcome is not known, or not acknowledged, is one that others cannot be
    /// told.
    fn tell(&self, made: &mut [Made], taken: usize, is_acknowledged: bool) {
        if is_acknowledged && made.len() == taken {
            self.told
                .append(made.iter_mut().filter_map(|made| made.told.take()));
        } else {
            self.told.lose();
        }
    }

    /// Makes `change`; a panic costs this change alone, whose writer hears that it failed.
    fn survive(&self, change: Change) -> Option<Made> {
        catch_unwind(AssertUnwindSafe(|| self.make(change))).ok()
    }

    fn make(&self, change: Change) -> Made {
        match change {
            Change::Put(key, (content, len), condition, done) => {
                let made = self.put(&key, content, condition.as_ref());
                let value = made.as_ref().ok().map(|&version| Meta { len, version });
                Made {
                    told: value.map(|value| (key, Some(value))),
                    outcome: Outcome::Put(made, done),
                }
            }
            Change::Delete(key, condition, done) => {
                let made = self.delete(&key, condition.as_ref());
                Made {
                    told: matches!(made, Ok(true)).then_some((key, None)),
                    outcome: Outcome::Deleted(made, done),
                }
            }
        }
    }

    fn put(
        &self,
        key: &Key<'_>,
        content: Content,
        condition: Option<&Condition>,
    ) -> Result<Version, Error> {
        let mut current = self.replaceable(key, condition)?;
        let (mut staged, mut version) = content.seal(&self.staging, current.is_some())?;
        if current.is_none() {
            match staged.link(key) {
                Ok(()) => return Ok(version),
                // A hand was quicker.
                Err(Errno::EXIST) => current = self.replaceable(key, condition)?,
                Err(errno) => return Err(Error::new("link", errno)),
            }
        }
        if let Some(meta) = current.filter(|meta| meta.version >= version) {
            version = self.staging.seal(&staged, Some(meta.version))?;
        }
        let replaced = current.and_then(|meta| self.hold_if_slow(key, meta));
        staged.replace(key).map_err(|errno| match errno {
            Errno::ISDIR | Errno::NOTDIR => Error::Occupied,
            errno => Error::new("rename", errno),
        })?;
        drop(replaced);
        Ok(version)
    }

    fn delete(&self, key: &Key<'_>, condition: Option<&Condition>) -> Result<bool, Error> {
        // RFC 9110, section 13.2.1, in words of the store: a condition does not stop what would do nothing anyway.
        let Entry::Value(meta) = self.look_up(key)? else {
            return Ok(false);
        };
        allow(condition, Some(meta))?;
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

    /// The value that a PUT of `key` would replace, if `condition` allows it.
    fn replaceable(
        &self,
        key: &Key<'_>,
        condition: Option<&Condition>,
    ) -> Result<Option<Meta>, Error> {
        let current = match self.look_up(key)? {
            Entry::Value(meta) => Some(meta),
            Entry::Absent => None,
            Entry::Other => return Err(Error::Occupied),
        };
        allow(condition, current)?;
        Ok(current)
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

fn allow(condition: Option<&Condition>, current: Option<Meta>) -> Result<(), Error> {
    match condition {
        Some(allows) if !allows(current) => Err(Error::Precondition),
        _ => Ok(()),
    }
}

impl Outcome {
    /// Tells whoever waits; a change whose name could not be synced is not acknowledged, though it may have been made.
    fn answer(self, synced: Result<(), Errno>) {
        let unsynced = |errno| Error::new("sync the directory", errno);
        // Who no longer listens does not want to know.
        match self {
            Self::Put(made, done) => {
                drop(
                    done.send(made.and_then(|version| synced.map_err(unsynced).map(|()| version))),
                );
            }
            Self::Deleted(made, done) => {
                drop(done.send(made.and_then(|was| synced.map_err(unsynced).map(|()| was))));
            }
        }
    }
}
