//! The publisher: one thread that alone changes what names stand for.
//!
//! Every PUT, DELETE and MOVE ends here, and every change of a folder, so that preconditions are decided at the moment
//! of publishing and all changes of a key have one order. It takes all that waits as one batch: names lie in few
//! directories, whose locks the kernel gives to one thread at a time, and one sync of a directory serves whole batches.
//! It writes no large data (the disk threads have written that to temporary files), and it makes every change that it
//! was handed, whether or not the caller still waits. Each change that it publishes is appended to [`Changes`], in that
//! order, before it is acknowledged.

use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::future::join_all;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::batch_reply;
use super::bounds::{STEP, Victim};
use super::changes::Changes;
use super::journal::{Journal, Log, NoLog};
use super::write_context::WriteContext;
use crate::transfer::spawn_vital;
use crate::value::{Error, Key};

mod acknowledge;
mod change;
mod decide;
mod files;
mod pending;
mod pipeline;
mod unchangeable;
mod undecided;

use acknowledge::Acknowledger;
pub use change::{Change, Condition, FolderChange, removal_of_ended};
use change::{ChangeRequest, PublishResult};
use files::ValueFiles;
use pipeline::Pipeline;
pub use unchangeable::may_publish;

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
        // For waiting on two channels and for a time, no more.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build()?;
        let files = ValueFiles::new(Arc::clone(&writer));
        let thread = spawn_vital("disk-publisher", move || match journal {
            Some(journal) => work(&files, journal, acknowledger, changes, &runtime),
            None => work(&files, NoLog(writer), acknowledger, changes, &runtime),
        })?;
        Ok(Self {
            running: Some((queue, thread)),
        })
    }

    /// Hands the change over at once, to be made in order with all others, if `condition` holds then. The future
    /// resolves to the value that was published or removed, `None` where there was nothing to remove. Not an async fn:
    /// its future would hold the whole change until it is handed over.
    pub fn change(
        &self,
        key: Key<'static>,
        change: Change,
        condition: Option<Condition>,
    ) -> impl Future<Output = PublishResult> {
        let (reply_to, reply) = batch_reply::channel();
        let change = ChangeRequest::new(key, change, condition, Some(reply_to));
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

    /// Removes these values, each for its reason, if it is allowed still: [`STEP`] at a time, as long as it
    /// `may_go_on`. The outcomes of these are waited for together, as [`batch_reply`] asks.
    pub async fn evict(
        &self,
        victims: impl IntoIterator<Item = Victim>,
        may_go_on: impl Fn() -> bool,
    ) -> Vec<PublishResult> {
        let evict = |it: Victim| self.change(it.key, Change::Remove(Some(it.why)), Some(it.allows));
        let (mut left, mut outcomes) = (victims.into_iter().map(evict).peekable(), Vec::new());
        while may_go_on() && left.peek().is_some() {
            outcomes.extend(join_all(left.by_ref().take(STEP)).await);
        }
        outcomes
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
