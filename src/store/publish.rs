//! The publisher: one thread that alone changes what names stand for.
//!
//! Every PUT and DELETE ends here, so that preconditions are decided at the moment of publishing and all changes of a
//! key have one order. It takes all that waits as one batch: names lie in few directories, whose locks the kernel
//! gives to one thread at a time, and one sync of a directory serves whole batches. It writes no large data (the disk threads have
//! written that to temporary files), and it makes every change that it was handed, whether or not the caller still waits.
//! Each change that it publishes is appended to [`Changes`], in that order, before it is acknowledged.

use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::batch_reply;
use super::changes::Changes;
use super::journal::Journal;
use super::upload::NewValue;
use super::write_context::WriteContext;
use crate::transfer::spawn_vital;
use crate::value::{Error, Key, Meta};

mod acknowledge;
mod commit;
mod decide;
#[cfg(test)]
mod model;
mod pipeline;

use acknowledge::Acknowledger;
use commit::Committer;
pub use decide::Condition;
use decide::{Change, Files as _, PublishResult};
use pipeline::Pipeline;

/// Changes waiting to be published; beyond it, writers wait to hand theirs over.
const QUEUE: usize = 1024;

/// The most taken at once, so that the first of a batch does not wait long for the last.
const BATCH: usize = 256;

/// A handle on the publisher; dropping it lets the thread finish what waits and joins it.
#[derive(Debug)]
pub(super) struct Publisher {
    queue: Option<mpsc::Sender<Change>>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// With a `journal`, changes go there before they are made.
    pub(super) fn start(
        writer: Arc<WriteContext>,
        watched: Arc<Changes>,
        journal: Option<Journal>,
    ) -> std::io::Result<Self> {
        let (queue, changes) = mpsc::channel(QUEUE);
        let acknowledger = Acknowledger::start(Arc::clone(&writer), watched)?;
        // For waiting on two channels, no more.
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let thread = spawn_vital("disk-publisher", move || {
            let committer = Committer::new(writer);
            work(&committer, &runtime, journal, acknowledger, changes);
        })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Hands the value over at once; the future resolves once it is published.
    pub(super) fn put(
        &self,
        key: Key<'static>,
        value: NewValue,
        condition: Option<Condition>,
    ) -> impl Future<Output = Result<Meta, Error>> {
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

    /// Not an async fn: its future would hold the whole change until it is handed over.
    fn change(
        &self,
        key: Key<'static>,
        value: Option<NewValue>,
        condition: Option<Condition>,
    ) -> impl Future<Output = PublishResult> {
        let (reply_to, reply) = batch_reply::channel();
        let change = Change {
            key,
            value,
            condition,
            tries: 0,
            cancels: None,
            reply_to,
        };
        let full = self.hand_over(change);
        async {
            if let Some(waiting) = full {
                waiting.await;
            }
            reply.await.unwrap_or_else(|| Err(gone()))
        }
    }

    /// Queues `change`; returns a future to wait for when the queue is full. A change that cannot be queued is dropped, and its receiver
    /// learns it.
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
    Error::failed("publish")(std::io::Error::other("the publisher has ended"))
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the publisher's thread.
fn work(
    committer: &Committer,
    runtime: &Runtime,
    journal: Option<Journal>,
    acknowledger: Acknowledger,
    mut changes: mpsc::Receiver<Change>,
) {
    let Some(mut journal) = journal else {
        make_all(committer, &acknowledger, &mut changes);
        return acknowledger.end();
    };
    let pipeline = Pipeline::new(committer, &mut journal, &acknowledger);
    let observe = |taken| committer.writer.counters.batches.observe(taken as u64);
    runtime.block_on(pipeline.run(&mut changes, observe));
    acknowledger.end();
    journal.end();
}

/// Makes the changes batch by batch, without a journal.
fn make_all(
    committer: &Committer,
    acknowledger: &Acknowledger,
    changes: &mut mpsc::Receiver<Change>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while changes.blocking_recv_many(&mut batch, BATCH) > 0 {
        committer
            .writer
            .counters
            .batches
            .observe(batch.len() as u64);
        let checked = committer.check();
        let make = |change: Change| match &checked {
            Ok(()) => committer.make_at_once(change),
            Err(error) => change.unmade(Err(error.clone())),
        };
        acknowledger.batch(|| batch.drain(..).map(make).collect());
    }
}
