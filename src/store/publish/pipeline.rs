//! The loop of the publisher: each change is decided, appended to the log, and made when the sync of its record has
//! ended.
//!
//! A change is decided against what is decided and not made yet ([`Pending`]) before the files, so that the log has
//! only changes that hold in its order. It is made, and answered, only once the log is synced up to it, in that order.
//! Where a file is no longer what a change was decided on, because another program has changed it, the change is
//! cancelled in the log and decided anew. One that fails is answered once its cancellation is synced. The device is
//! always given the next sync as soon as one ends, with all that was appended by then; the publisher writes files
//! meanwhile, and makes the groups before. Without a journal there is nothing to wait for: each change is decided when
//! it is made, by one look at its name.
//!
//! The move of a folder is made alone, after a checkpoint of all before it. While other changes come, such moves take a
//! quarter of the time.
//!
//! A change that lacks room is asked for last, when nothing else refuses it. The values that make room for it are
//! removed in its group, and it is decided anew once they are: it waits for no others, and others do not wait for it.
//! So is a value that has ended, where its file is in the way of a change.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::mpsc::Receiver;

use super::super::journal::{FrameBuilder, Log};
use super::acknowledge::Acknowledger;
use super::change::{Change, ChangeRequest, FolderChange};
use super::decide::{Decision, Files, survive};
use super::pending::Pending;
use super::undecided::{Entry, Undecided};
use crate::value::Error;

/// The most changes that are appended and not made: each has a file open.
const MOST: usize = 256;

/// How long the publisher waits for evictions that another thread is about to hand over, where it has nothing else to
/// do.
const PAUSE: Duration = Duration::from_millis(1);

/// For so many times as long as the move of a folder took, no other begins while other changes come.
const SHARE: u32 = 3;

/// The loop of the publisher.
pub struct Pipeline<'a, F, L> {
    files: &'a F,
    pub log: &'a mut L,
    acknowledger: &'a Acknowledger,
    undecided: Undecided,
    /// Appended and not made, in this order.
    groups: VecDeque<Group>,
    /// Moves of folders that wait for their turn.
    moves: VecDeque<ChangeRequest>,
    /// When the next of them may begin, if there `are_others`: changes since the last.
    pub next_move: Instant,
    are_others: bool,
    /// The number of failed syncs of names that the publisher knows of.
    heard: u64,
    /// What was made before the last of them may not be on the disk.
    is_distrusted: bool,
}

/// Changes whose records one frame of the journal holds.
#[derive(Default)]
struct Group {
    entries: Vec<Entry>,
    is_staged: bool,
    /// The sequence number of the first record of its frame.
    first: u64,
    /// Where its frame ends; `None` where it waits for none.
    end: Option<u64>,
}

impl<'a, F: Files, L: Log> Pipeline<'a, F, L> {
    pub fn new(files: &'a F, log: &'a mut L, acknowledger: &'a Acknowledger) -> Self {
        Self {
            files,
            log,
            acknowledger,
            undecided: Undecided::default(),
            groups: VecDeque::new(),
            moves: VecDeque::new(),
            next_move: Instant::now(),
            are_others: false,
            heard: 0,
            is_distrusted: false,
        }
    }

    /// Publishes `changes` until their senders are gone; `observe` gets the number of changes in each group. Blocks its
    /// thread while it writes.
    pub async fn run(mut self, changes: &mut Receiver<ChangeRequest>, observe: impl Fn(usize)) {
        loop {
            let may_take = self.room() > 0;
            let has_turn = !self.moves.is_empty() && self.may_move();
            if may_take && (has_turn || !self.undecided.again.is_empty()) {
                // Nothing else is to be waited for.
                if std::mem::take(&mut self.undecided.waits_for_others) && self.groups.is_empty() {
                    std::thread::sleep(PAUSE);
                }
            } else if self.groups.is_empty() && self.moves.is_empty() {
                // While no change waits, the publisher evicts a value to make room for the next change.
                let ahead = changes.is_empty().then(|| self.files.eviction_ahead());
                let change = match ahead.flatten() {
                    None => changes.recv().await,
                    ahead => ahead,
                };
                let Some(change) = change else {
                    return;
                };
                self.undecided.again.push_back(change);
            } else {
                let next_move = (!self.moves.is_empty()).then_some(self.next_move);
                let turn = async || match next_move {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                };
                tokio::select! {
                    biased;
                    Some(change) = changes.recv(), if may_take => self.undecided.again.push_back(change),
                    synced = self.log.wait(), if !self.groups.is_empty() => self.on_synced(synced),
                    () = turn() => {}
                }
            }
            let taken = self.run_batch(|| changes.try_recv().ok()).await;
            if taken > 0 {
                observe(taken);
            }
        }
    }

    /// Appends the changes that are left and the changes of `next`, and makes all that are synced; returns the number
    /// appended.
    pub async fn run_batch(&mut self, next: impl FnMut() -> Option<ChangeRequest>) -> usize {
        let taken = self.append(next).await;
        while let Some(synced) = self.log.wait().now_or_never() {
            self.on_synced(synced);
        }
        self.make_ready();
        self.stage();
        // Groups that wait for no sync.
        self.make_ready();
        taken
    }

    /// True while a change is left to be decided or cancelled.
    #[cfg(test)]
    pub fn is_left(&self) -> bool {
        !self.undecided.again.is_empty() || !self.moves.is_empty()
    }

    /// True if the move of a folder may begin.
    fn may_move(&self) -> bool {
        !self.are_others || self.next_move <= Instant::now()
    }

    /// The number of changes that may be appended now.
    fn room(&self) -> usize {
        let taken: usize = self.groups.iter().map(|group| group.entries.len()).sum();
        MOST.saturating_sub(taken)
    }

    /// Decides what is left and what `next` gives, appends it as one group, and begins its sync. Where the segment has
    /// no room for it, all groups before it are made first: the next segment is free only when all is made that was
    /// appended long before.
    async fn append(&mut self, mut next: impl FnMut() -> Option<ChangeRequest>) -> usize {
        // A later sync would say nothing of a folder, made or moved, whose name is not on the disk.
        let failed = self.acknowledger.failed_syncs();
        if std::mem::replace(&mut self.heard, failed) < failed {
            self.log.distrust();
            self.is_distrusted = true;
        }
        if self.may_move()
            && let Some(change) = self.moves.pop_front()
        {
            self.make_alone(change).await;
            return 1;
        }
        let room = self.room();
        let may_change = may_change(self.files, self.log, &mut self.is_distrusted);
        let mut frame = self.log.frame();
        let mut group = Group::default();
        while group.entries.len() < room
            && !frame.as_ref().is_some_and(FrameBuilder::is_full)
            && let Some(change) = self.undecided.again.pop_front().or_else(&mut next)
        {
            if matches!(change.kind, Change::Folder(FolderChange::Move { .. })) {
                if !self.may_move() {
                    self.moves.push_back(change);
                    continue;
                }
                if group.entries.is_empty() {
                    self.make_alone(change).await;
                    return 1;
                }
                self.undecided.again.push_front(change);
                break;
            }
            let entries = &mut group.entries;
            match (&may_change, &mut frame) {
                (Ok(()), Some(frame)) => self.undecided.decide(self.files, change, entries, frame),
                (Ok(()), None) => entries.push(Entry::new(change, Decision::AtOnce)),
                (Err(error), frame) => {
                    let error = change.failure.as_deref().unwrap_or(error).clone();
                    let entry = Entry::new(change, Decision::Answer(Err(error)));
                    self.undecided.push(entry, entries, frame.as_mut());
                }
            }
        }
        let taken = group.entries.len();
        if taken == 0 {
            return 0;
        }
        self.are_others = true;
        if let Some(frame) = frame.filter(|frame| frame.records > 0) {
            // Until it goes to the segment of the one before it.
            self.make_until(|log| log.has_room(&frame)).await;
            match self.log.append(frame) {
                Ok((first, end)) => (group.first, group.end) = (first, Some(end)),
                Err(error) => group.refuse(&error, self.files, &mut self.undecided.pending),
            }
        }
        self.groups.push_back(group);
        taken
    }

    /// Moves a folder, once all before it is made and on the disk: a record names a key, so none may be left that a
    /// replay would take for the key's of another folder. For the same reason no record comes after it before its name
    /// is on the disk.
    async fn make_alone(&mut self, change: ChangeRequest) {
        let began = Instant::now();
        self.make_until(|_| false).await;
        let (files, log, undecided) = (self.files, &mut *self.log, &mut self.undecided);
        let is_distrusted = &mut self.is_distrusted;
        let make = || {
            let may_move = may_change(files, log, is_distrusted);
            let may_move = may_move.and_then(|()| log.checkpoint_all());
            let Change::Folder(how) = &change.kind else {
                return Some(change.answered(Ok(None)));
            };
            let moved = may_move.and_then(|()| survive(|| files.change_folder(&change.key, how)));
            undecided.answer_of_folder(files, change, moved)
        };
        self.acknowledger.alone(self.heard, make).await;
        (self.next_move, self.are_others) = (Instant::now() + began.elapsed() * SHARE, false);
    }

    /// Makes groups until `is_enough`, or all are made.
    async fn make_until(&mut self, is_enough: impl Fn(&L) -> bool) {
        while !is_enough(self.log) {
            // Groups that are synced already: no report comes for them.
            self.stage();
            self.make_ready();
            if self.groups.is_empty() {
                return;
            }
            let synced = self.log.wait().await;
            self.on_synced(synced);
        }
    }

    /// Takes a report of the journal. After a failed sync the groups that were synced before it are made first; then
    /// the rest is refused.
    fn on_synced(&mut self, synced: Result<(), Error>) {
        let Err(error) = synced else { return };
        self.stage();
        self.make_ready();
        for group in &mut self.groups {
            group.refuse(&error, self.files, &mut self.undecided.pending);
        }
    }

    /// Writes the files of the values.
    fn stage(&mut self) {
        for group in self.groups.iter_mut().filter(|group| !group.is_staged) {
            group.is_staged = true;
            for entry in &mut group.entries {
                if let Decision::Make(plan) = entry.decision {
                    entry.staged = survive(|| self.files.stage(&mut entry.change, plan));
                }
            }
        }
    }

    fn make_ready(&mut self) {
        while let Some(front) = self.groups.front()
            && front.is_staged
            && front.end.is_none_or(|end| end <= self.log.synced())
            && let Some(group) = self.groups.pop_front()
        {
            self.make(group);
        }
    }

    /// Makes what the log has on the disk.
    fn make(&mut self, group: Group) {
        self.acknowledger.batch(self.heard, || {
            let mut done = Vec::with_capacity(group.entries.len());
            self.log.publish(group.end, || {
                for entry in group.entries {
                    self.undecided
                        .make(self.files, entry, group.first, &mut done);
                }
                self.undecided.cancels()
            });
            done
        });
    }
}

/// Fails while nothing may be changed: where what was made `is_distrusted`, that is put on the disk first.
fn may_change(
    files: &impl Files,
    log: &mut impl Log,
    is_distrusted: &mut bool,
) -> Result<(), Error> {
    files.check()?;
    if *is_distrusted {
        log.resolve()?;
        *is_distrusted = false;
    }
    Ok(())
}

impl Group {
    /// Ends a group whose frame the journal does not have: its changes are refused, except values that are synced with
    /// their files. Of one that had a record before it is not known whether that counts after a cut of power.
    fn refuse(&mut self, error: &Error, files: &impl Files, pending: &mut Pending) {
        self.end = None;
        for entry in &mut self.entries {
            let has_record = entry.change.cancels.is_some();
            match entry.decision {
                // A value that moves is not the only change of its file: the records before it could be replayed over
                // it.
                Decision::Make(_) if entry.change.is_large() && entry.change.source().is_none() => {
                    entry.record = None;
                    continue;
                }
                Decision::Make(_) => {
                    pending.finish(&entry.change);
                    files.withdraw(&mut entry.change, None);
                }
                // Without the removals there is no room for it.
                Decision::Anew => entry.change.room = None,
                Decision::Later | Decision::Answer(_) if !has_record => continue,
                _ => {}
            }
            entry.decision = Decision::Answer(Err(if has_record {
                error.in_doubt()
            } else {
                error.clone()
            }));
        }
    }
}
