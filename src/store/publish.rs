//! The publisher: one thread that alone changes what names stand for.
//!
//! Every PUT, DELETE and MOVE ends here, and every change of a folder, so that preconditions are decided at the moment of publishing and all changes of a
//! key have one order. It takes all that waits as one batch: names lie in few directories, whose locks the kernel
//! gives to one thread at a time, and one sync of a directory serves whole batches. It writes no large data (the disk threads have
//! written that to temporary files), and it makes every change that it was handed, whether or not the caller still waits.
//! Each change that it publishes is appended to [`Changes`], in that order, before it is acknowledged.

use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::future::join_all;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::batch_reply;
use super::bounds::Victim;
use super::changes::{Changes, Removal};
use super::journal::{Journal, Log, NoLog};
use super::new_value::{NewValue, Place, Source};
use super::write_context::WriteContext;
use crate::transfer::spawn_vital;
use crate::value::{Error, Key, Version};

mod acknowledge;
mod decide;
mod files;
mod pipeline;
mod unchangeable;

use acknowledge::Acknowledger;
use decide::{ChangeRequest, PublishResult};
pub use decide::{Condition, FolderChange};
use files::ValueFiles;
use pipeline::Pipeline;

/// Changes waiting to be published; beyond it, writers wait to hand theirs over.
const QUEUE: usize = 1024;

/// A handle on the publisher; dropping it lets the thread finish what waits and joins it.
#[derive(Debug)]
pub struct Publisher {
    /// The queue of its thread, and the thread, until this is dropped.
    running: Option<(mpsc::Sender<ChangeRequest>, JoinHandle<()>)>,
}

impl Publisher {
    /// With a `journal`, changes go there before they are made.
    pub fn start(
        writer: Arc<WriteContext>,
        watched: Arc<Changes>,
        journal: Option<Journal>,
    ) -> std::io::Result<Self> {
        let (queue, changes) = mpsc::channel(QUEUE);
        let acknowledger = Acknowledger::start(Arc::clone(&writer), watched)?;
        // For waiting on two channels, no more.
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let files = ValueFiles::new(Arc::clone(&writer));
        let thread = spawn_vital("disk-publisher", move || match journal {
            Some(journal) => work(&files, journal, acknowledger, changes, &runtime),
            None => work(&files, NoLog::new(writer), acknowledger, changes, &runtime),
        })?;
        Ok(Self {
            running: Some((queue, thread)),
        })
    }

    /// Hands the change over at once: `value` is published as that of `key`, without one the value of `key` is removed. The future
    /// resolves to what was published or removed, `None` where there was nothing to remove. Not an async fn: its future would hold the whole
    /// change until it is handed over.
    pub fn change(
        &self,
        key: Key<'static>,
        value: Option<NewValue>,
        condition: Option<Condition>,
    ) -> impl Future<Output = PublishResult> {
        self.hand_over(key, value, condition, None, None)
    }

    /// Makes this change of the folder of the name `path`, in order with all changes of values.
    pub async fn change_folder(
        &self,
        path: Key<'static>,
        change: FolderChange,
    ) -> Result<(), Error> {
        let changed = self.hand_over(path, None, None, None, Some(change));
        changed.await.map(drop)
    }

    /// Gives the folder `from`, with all that is below it, the name `to`, in order with all changes of values.
    pub async fn move_folder(&self, from: Key<'static>, to: Key<'static>) -> Result<(), Error> {
        let version = Version::from_nanos(0);
        let source = Source { key: from, version };
        let value = NewValue {
            place: Place::Key(Box::new(source)),
            ..NewValue::default()
        };
        let moved = self.hand_over(to, Some(value), None, None, Some(FolderChange::Move));
        moved.await.map(drop)
    }

    /// As [`Self::change`], for the server itself: removes the values of these keys for the reason `removal`, each if its condition holds.
    /// All outcomes are waited for together, as [`batch_reply`] asks.
    pub fn remove(
        &self,
        values: impl IntoIterator<Item = (Key<'static>, Condition)>,
        removal: Removal,
    ) -> impl Future<Output = Vec<PublishResult>> {
        let remove =
            |(key, condition)| self.hand_over(key, None, Some(condition), Some(removal), None);
        join_all(values.into_iter().map(remove).collect::<Vec<_>>())
    }

    /// Removes these values, each if its condition holds.
    pub fn evict(
        &self,
        victims: impl IntoIterator<Item = Victim>,
    ) -> impl Future<Output = Vec<PublishResult>> {
        let evict = |it: Victim| self.hand_over(it.key, None, Some(it.allows), Some(it.why), None);
        join_all(victims.into_iter().map(evict).collect::<Vec<_>>())
    }

    fn hand_over(
        &self,
        key: Key<'static>,
        value: Option<NewValue>,
        condition: Option<Condition>,
        removal: Option<Removal>,
        folder: Option<FolderChange>,
    ) -> impl Future<Output = PublishResult> {
        let (reply_to, reply) = batch_reply::channel();
        let change = ChangeRequest {
            key,
            value,
            folder,
            condition,
            removal,
            room: None,
            tries: 0,
            failure: None,
            cancels: None,
            reply_to,
        };
        // A change that cannot be queued is dropped, and its receiver learns it.
        let full = self.running.as_ref().and_then(|(queue, _)| {
            let Err(TrySendError::Full(change)) = queue.try_send(change) else {
                return None;
            };
            Some(Box::pin(async { drop(queue.send(change).await) }))
        });
        async {
            if let Some(waiting) = full {
                waiting.await;
            }
            reply.await.unwrap_or_else(|| Err(ended()))
        }
    }
}

/// The error of a change that the publisher did not make.
pub fn ended() -> Error {
    Error::failed("publish")(std::io::Error::other("the publisher has ended"))
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if let Some((queue, thread)) = self.running.take() {
            drop(queue);
            let _ = thread.join();
        }
    }
}

/// Runs the publisher's thread.
fn work(
    files: &ValueFiles,
    mut log: impl Log,
    acknowledger: Acknowledger,
    mut changes: mpsc::Receiver<ChangeRequest>,
    runtime: &Runtime,
) {
    let batches = &files.writer.counters.batches;
    let pipeline = Pipeline::new(files, &mut log, &acknowledger);
    runtime.block_on(pipeline.run(&mut changes, |taken| batches.observe(taken as u64)));
    acknowledger.end();
    log.end();
}

#[cfg(test)]
mod tests;
