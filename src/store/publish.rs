//! The publisher: one thread that alone changes what names stand for.
//!
//! Every PUT and DELETE ends here, so that preconditions are decided at the moment of publishing and all changes of a
//! key have one order. It takes whatever waits as one batch: all names lie in one directory, whose lock the kernel
//! gives to one thread at a time anyway, and one sync of it serves whole batches. It writes no large data (that was
//! staged by the disk threads), and a change that was handed over is made also when nobody waits for it any more.
//! What it has published it tells [`Changes`], in that order, before it is acknowledged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{self, error::TrySendError};

use super::changes::Changes;
use super::content::Content;
use super::error::Error;
use super::key::Key;
use super::object::{Meta, Version};
use super::reply::{self, Asker};
use super::staging::Staging;

mod acknowledge;
mod desk;

use acknowledge::Acknowledger;
use desk::Desk;

/// Changes waiting to be published; beyond it, writers wait to hand theirs over.
const QUEUE: usize = 1024;

/// The most taken at once, so that the first of a batch does not wait long for the last.
const BATCH: usize = 256;

/// Decides, at the moment of publishing, whether a change may be made: it is shown the value that the change would
/// replace or remove, if there is one.
pub type Condition = Box<dyn Fn(Option<Meta>) -> bool + Send>;

/// The version that was published, or removed; `None` where there was none to remove.
type Outcome = Result<Option<Version>, Error>;

/// A change that is asked for, and who waits for it.
struct Change {
    key: Key<'static>,
    /// What to put there, and how many bytes that is; `None` is to delete what is there.
    value: Option<(Content, u64)>,
    condition: Option<Condition>,
    asker: Asker<Outcome>,
}

/// What became of a change, and who waits to hear it.
struct Made {
    /// What others are to be told, if there was a change.
    told: Option<(Key<'static>, Option<Meta>)>,
    outcome: Outcome,
    asker: Asker<Outcome>,
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
        let acknowledger = Acknowledger::start(Arc::clone(&staging), told)?;
        let thread = std::thread::Builder::new()
            .name("disk-publisher".into())
            .spawn(move || work(&Desk::new(staging), acknowledger, changes))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Hands the value over at once; the future waits until it is published.
    pub(super) fn put(
        &self,
        key: Key<'static>,
        value: (Content, u64),
        condition: Option<Condition>,
    ) -> impl Future<Output = Result<Version, Error>> {
        let published = self.change(key, Some(value), condition);
        async { published.await?.ok_or_else(gone) }
    }

    /// Whether there was a value to delete.
    pub(super) async fn delete(
        &self,
        key: Key<'static>,
        condition: Option<Condition>,
    ) -> Result<bool, Error> {
        let removed = self.change(key, None, condition).await?;
        Ok(removed.is_some())
    }

    /// Not a future from its beginning, which would have to hold all of this until it is handed over.
    fn change(
        &self,
        key: Key<'static>,
        value: Option<(Content, u64)>,
        condition: Option<Condition>,
    ) -> impl Future<Output = Outcome> {
        let (asker, reply) = reply::ask();
        let change = Change {
            key,
            value,
            condition,
            asker,
        };
        let full = self.hand_over(change);
        async {
            if let Some(waiting) = full {
                waiting.await;
            }
            reply.await.unwrap_or_else(|| Err(gone()))
        }
    }

    /// What to wait for, when the queue is full; of a change that cannot be handed over, its asker hears.
    fn hand_over(&self, change: Change) -> Option<Pin<Box<impl Future<Output = ()>>>> {
        let queue = self.queue.as_ref()?;
        match queue.try_send(change) {
            Err(TrySendError::Full(change)) => {
                Some(Box::pin(async { drop(queue.send(change).await) }))
            }
            Err(TrySendError::Closed(_)) | Ok(()) => None,
        }
    }
}

fn gone() -> Error {
    Error::Failed {
        doing: "publish",
        source: std::io::Error::other("the publisher has ended"),
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

/// What the publisher's thread does.
fn work(desk: &Desk, acknowledger: Acknowledger, mut changes: mpsc::Receiver<Change>) {
    let mut batch = Vec::with_capacity(BATCH);
    while changes.blocking_recv_many(&mut batch, BATCH) > 0 {
        desk.counters().batches.observe(batch.len() as u64);
        acknowledger.batch(batch.len(), || {
            let made = batch.drain(..).filter_map(|c| survive(desk, c));
            made.collect()
        });
    }
    acknowledger.end();
}

/// Makes `change`; a panic costs this change alone, whose writer hears that it failed.
fn survive(desk: &Desk, change: Change) -> Option<Made> {
    catch_unwind(AssertUnwindSafe(|| desk.make(change))).ok()
}
