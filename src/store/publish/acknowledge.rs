//! The end of a batch of applied changes: syncs their names where `--durability disk` promises it, appends the changes
//! to the feed, and sends the replies.
//!
//! Where names are synced, a thread of its own (the syncer) does all three, while the publisher applies the next batch.
//! One commit of the file system's journal then has the names of all changes that were ready when it began. A batch
//! without a name to sync is finished at once, unless an earlier batch is unfinished: batches are finished in the order
//! in which they were applied. Promises that no change is acknowledged before a sync has succeeded that began after the
//! change was applied.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use rustix::io::Errno;

use super::super::batch_reply::{self, WakeBatch};
use super::super::changes::Changes;
use super::super::write_context::{Durability, WriteContext};
use super::change::{AppliedChange, Audience, PublishResult};
use crate::transfer::spawn_vital;
use crate::value::{Error, folder_and_above};

/// Batches that wait for a sync; beyond it the publisher waits, and changes wait for the publisher.
const WAITING: usize = 4;

/// Changes that were made together.
pub struct Batch {
    /// The number of failed syncs that the publisher knew of before it applied the first change of the batch.
    failed_before: u64,
    made: Vec<AppliedChange>,
}

/// Finishes batches, in their order.
pub struct Acknowledger {
    changes: Arc<Changes>,
    syncs: Arc<Syncs>,
    /// The thread that syncs names, and the queue of its batches.
    syncer: Option<(SyncSender<Batch>, JoinHandle<()>)>,
}

/// The syncs of names, in numbers.
#[derive(Default)]
struct Syncs {
    failed: AtomicU64,
    /// Batches that the syncer has not finished; the publisher alone adds to them.
    unfinished: AtomicUsize,
}

impl Acknowledger {
    pub fn start(writer: Arc<WriteContext>, changes: Arc<Changes>) -> std::io::Result<Self> {
        let mut acknowledger = Self::at_once(changes);
        if writer.durability == Durability::Disk {
            let (batches, waiting) = mpsc::sync_channel(WAITING);
            let changes = Arc::clone(&acknowledger.changes);
            let syncs = Arc::clone(&acknowledger.syncs);
            let thread = spawn_vital("disk-syncer", move || {
                let sync = |folders: &_| writer.sync_names(folders);
                sync_all(&waiting, sync, &changes, &syncs);
            })?;
            acknowledger.syncer = Some((batches, thread));
        }
        Ok(acknowledger)
    }

    /// One that finishes each batch at once, without a sync.
    pub fn at_once(changes: Arc<Changes>) -> Self {
        Self {
            changes,
            syncs: Arc::default(),
            syncer: None,
        }
    }

    /// Runs `work`, which applies changes, and finishes them: at once where none of them needs a sync and no earlier
    /// batch waits for one, else on the syncer. `heard` is the number of failed syncs that the publisher knew of before
    /// `work`. If another sync has failed since, it may have been one of these names: the changes are answered with an
    /// error.
    pub fn batch(&self, heard: u64, work: impl FnOnce() -> Vec<AppliedChange>) {
        // Asked before the work: only this thread adds batches, so none can come in between.
        let is_next = self.syncs.unfinished.load(Acquire) == 0;
        let batch = Batch {
            failed_before: heard,
            made: work(),
        };
        match &self.syncer {
            Some((batches, _)) if !is_next || batch.made.iter().any(|made| made.syncs) => {
                self.syncs.unfinished.fetch_add(1, Relaxed);
                // Its receiver ends only after this.
                drop(batches.send(batch));
            }
            _ => batch.finish(Ok(()), &self.changes, &mut WakeBatch::default()),
        }
    }

    /// As [`Self::batch`], of a change that `make`s the move of a folder: all before it is finished first, as names are
    /// synced where they are, and its own names are synced, or the sync has failed, before this returns.
    pub async fn alone(&self, heard: u64, make: impl FnOnce() -> Option<AppliedChange>) {
        self.finish_all().await;
        self.batch(heard, || make().into_iter().collect());
        self.finish_all().await;
    }

    /// The number of syncs that have failed.
    pub fn failed_syncs(&self) -> u64 {
        self.syncs.failed.load(Acquire)
    }

    /// Waits until all batches are finished: sends an empty batch behind them, and waits for its reply.
    async fn finish_all(&self) {
        let (reply_to, reply) = batch_reply::channel();
        let nothing = AppliedChange {
            event: None,
            audience: Audience::Subscribers,
            syncs: false,
            outcome: Ok(None),
            reply_to: Some(reply_to),
        };
        self.batch(self.failed_syncs(), || vec![nothing]);
        reply.await;
    }

    /// Finishes all batches, and ends the thread.
    pub fn end(self) {
        if let Some((batches, thread)) = self.syncer {
            drop(batches);
            let _ = thread.join();
        }
    }
}

/// What to sync for `batches`: their names, and all folders above, whose names may be in the journal alone.
fn folders(batches: &[Batch]) -> BTreeSet<Box<str>> {
    let made = batches.iter().flat_map(|batch| &batch.made);
    let names = made.flat_map(AppliedChange::names_to_sync);
    names.flat_map(folder_and_above).map(Box::from).collect()
}

/// Runs the syncer: one sync of each folder for all batches that wait.
fn sync_all(
    waiting: &Receiver<Batch>,
    sync: impl Fn(&BTreeSet<Box<str>>) -> Result<(), Errno>,
    changes: &Changes,
    syncs: &Syncs,
) {
    while let Ok(first) = waiting.recv() {
        let batches: Vec<_> = std::iter::once(first).chain(waiting.try_iter()).collect();
        let count = batches.len();
        let failed_before = syncs.failed.load(Relaxed);
        let synced = sync(&folders(&batches));
        // The kernel reports a failure once, and it may concern a name that was made while this ran: only what is
        // made from here on is not concerned.
        let has_failed = u64::from(synced.is_err());
        syncs.failed.fetch_add(has_failed, Release);
        let mut wakes = WakeBatch::default();
        for batch in batches {
            let is_hit = batch.failed_before != failed_before;
            let synced = if is_hit { Err(Errno::IO) } else { synced };
            batch.finish(synced, changes, &mut wakes);
        }
        drop(wakes);
        syncs.unfinished.fetch_sub(count, Release);
    }
}

impl Batch {
    /// Appends the changes to the feed, and replies. A change whose name could not be synced is not acknowledged,
    /// though it may have been made.
    fn finish(
        mut self,
        synced: Result<(), Errno>,
        changes: &Changes,
        wakes: &mut WakeBatch<PublishResult>,
    ) {
        // Subscribers get no change whose outcome is unknown or was not acknowledged, nor each key of a folder.
        let is_known = |made: &AppliedChange| {
            made.audience != Audience::LookAnew
                && !matches!(made.outcome, Err(Error::Failed { .. } | Error::Unsynced(_)))
        };
        if synced.is_ok() && self.made.iter().all(is_known) {
            let of_values = self.made.iter_mut();
            let of_values = of_values.filter(|made| made.audience == Audience::Subscribers);
            changes.append(of_values.filter_map(|made| made.event.take()));
        } else {
            changes.mark_gap();
        }
        for made in self.made {
            let Some(reply_to) = made.reply_to else {
                continue;
            };
            let failed = |errno: Errno| Error::failed("sync the directory")(errno.into());
            let synced = synced.map_err(|errno| failed(errno).in_doubt());
            let outcome = match made.outcome {
                Err(error) if !made.syncs => Err(error),
                // Also of a folder that was there, and stays from now on.
                outcome => synced.and(outcome),
            };
            reply_to.send(outcome, wakes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::batch_reply::{self, ReplyReceiver as Reply};
    use super::*;
    use crate::value::{Key, Meta, Version};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn batch(failed_before: u64) -> (Batch, Reply<PublishResult>) {
        let (reply_to, reply) = batch_reply::channel();
        let outcome = Ok(Some(Meta::new(0, Version::from_nanos(7))));
        let made = AppliedChange {
            event: Some((Key::new("a/b/k").unwrap().into_owned(), None, None, None)),
            audience: Audience::Subscribers,
            syncs: true,
            outcome,
            reply_to: Some(reply_to),
        };
        let batch = Batch {
            failed_before,
            made: vec![made],
        };
        (batch, reply)
    }

    fn is_acknowledged(reply: Reply<PublishResult>) -> bool {
        match pin!(reply).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(outcome)) => outcome.is_ok(),
            other => panic!("no answer: {other:?}"),
        }
    }

    #[test]
    fn a_batch_without_a_name_to_sync_waits_only_for_those_before_it() {
        let (to_sync, waiting) = mpsc::sync_channel(WAITING);
        let mut acknowledger = Acknowledger::at_once(Arc::new(Changes::starting_at(0)));
        acknowledger.syncer = Some((to_sync, std::thread::spawn(|| ())));
        let finish = |syncs_name: bool| {
            let (mut batch, reply) = batch(0);
            batch.made[0].syncs = syncs_name;
            acknowledger.batch(0, || batch.made);
            reply
        };
        assert!(is_acknowledged(finish(false)));
        let (_named, _behind) = (finish(true), finish(false));
        let batches: Vec<_> = waiting.try_iter().collect();
        assert_eq!(batches.len(), 2);
        acknowledger.syncs.unfinished.store(0, Release);
        assert!(is_acknowledged(finish(false)));
    }

    #[test]
    fn a_sync_that_failed_is_the_failure_of_what_was_made_while_it_ran_too() {
        let (changes, syncs) = (Changes::starting_at(0), Syncs::default());
        let seen = changes.subscribe();
        let (batches, waiting) = mpsc::sync_channel(WAITING);
        let (first, of_first) = batch(0);
        let (meanwhile, of_meanwhile) = batch(0);
        let (later, of_later) = batch(1);
        batches.send(first).unwrap();
        let to_come = std::cell::RefCell::new(vec![Err(later), Ok(meanwhile)]);
        let batches = std::cell::Cell::new(Some(batches));
        let synced = std::cell::RefCell::new(Vec::new());
        let sync = |folders: &BTreeSet<Box<str>>| {
            synced
                .borrow_mut()
                .push(folders.iter().cloned().collect::<Vec<_>>().join(" "));
            match to_come.borrow_mut().pop() {
                Some(Ok(batch)) => {
                    let queue = batches.take().unwrap();
                    queue.send(batch).unwrap();
                    batches.set(Some(queue));
                    Err(Errno::IO)
                }
                Some(Err(batch)) => {
                    batches.take().unwrap().send(batch).unwrap();
                    Ok(())
                }
                None => Ok(()),
            }
        };
        syncs.unfinished.store(3, Relaxed);
        sync_all(&waiting, sync, &changes, &syncs);
        assert_eq!(syncs.unfinished.into_inner(), 0);
        assert!(!is_acknowledged(of_first));
        let is_right = !is_acknowledged(of_meanwhile);
        assert!(is_right, "its sync went well, and proves nothing");
        assert!(is_acknowledged(of_later));
        assert_eq!(
            *synced.borrow(),
            [" a a/b", " a a/b", " a a/b"],
            "the names of folders may be in the journal alone"
        );
        let holds = changes.since(seen, 10).is_err();
        assert!(holds, "what is not acknowledged is a gap");
    }
}
