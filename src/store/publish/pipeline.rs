//! How changes pass through the journal: each is decided once and appended, and made when its sync has ended.
//!
//! A change is decided against what is decided and not made yet ([`Pending`]) before the files, so that the log has only changes that
//! hold in its order. It is made, and answered, only once the log is synced up to it, in that order. Where a file is no longer
//! what a change was decided on, because another program has changed it, the change is cancelled in the log and decided anew. One
//! that fails is answered once its cancellation is synced. The device is always given the next sync as soon as one ends, with
//! all that was appended by then; the publisher writes files meanwhile, and makes the groups before.

use std::collections::VecDeque;

use futures_util::FutureExt;
use tokio::sync::mpsc::Receiver;

use super::super::journal::{FrameBuilder, Log};
use super::acknowledge::Acknowledger;
use super::decide::{
    AppliedChange, ChangeRequest, Decision, Files, FolderChange, Pending, decide, is_refused,
    survive,
};
use crate::value::{Error, Meta};

/// The most changes that are appended and not made: each has a file open.
const MOST: usize = 256;

/// The publisher's loop, with a journal.
pub struct Pipeline<'a, F, L> {
    files: &'a F,
    pub log: &'a mut L,
    acknowledger: &'a Acknowledger,
    undecided: Undecided,
    /// Appended and not made, in this order.
    groups: VecDeque<Group>,
}

/// The changes that are neither in a group nor answered, and the table of keys in flight.
#[derive(Default)]
struct Undecided {
    pending: Pending,
    /// To be decided, or decided anew.
    again: VecDeque<ChangeRequest>,
    /// Changes that have failed. The next frame cancels their records, and they are answered once that is synced.
    failed: Vec<Entry>,
}

/// A change that was decided.
struct Entry {
    change: ChangeRequest,
    decision: Decision,
    /// The number of its record in the frame; `None` where the journal has none.
    record: Option<u32>,
    staged: Result<(), Error>,
}

impl Entry {
    fn new(change: ChangeRequest, decision: Decision) -> Self {
        Self {
            change,
            decision,
            record: None,
            staged: Ok(()),
        }
    }
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
        }
    }

    /// Publishes `changes` until their senders are gone; `observe` gets the number of changes in each group. Blocks its thread while it
    /// writes.
    pub async fn run(mut self, changes: &mut Receiver<ChangeRequest>, observe: impl Fn(usize)) {
        loop {
            let may_take = self.room() > 0;
            if may_take && self.is_left() {
                // Nothing is to be waited for.
            } else if self.groups.is_empty() {
                let Some(change) = changes.recv().await else {
                    return;
                };
                self.undecided.again.push_back(change);
            } else {
                tokio::select! {
                    biased;
                    Some(change) = changes.recv(), if may_take => self.undecided.again.push_back(change),
                    synced = self.log.wait() => self.on_synced(synced),
                }
            }
            let taken = self.run_batch(|| changes.try_recv().ok()).await;
            if taken > 0 {
                observe(taken);
            }
        }
    }

    /// Appends the changes that are left and the changes of `next`, and makes all that are synced; returns the number appended.
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
    pub fn is_left(&self) -> bool {
        !self.undecided.again.is_empty() || !self.undecided.failed.is_empty()
    }

    /// The number of changes that may be appended now.
    fn room(&self) -> usize {
        let taken: usize = self.groups.iter().map(|group| group.entries.len()).sum();
        MOST.saturating_sub(taken)
    }

    /// Decides what is left and what `next` gives, appends it as one group, and begins its sync. Where the segment has no room for it,
    /// all groups before it are made first: the next segment is free only when all is made that was appended long before.
    async fn append(&mut self, mut next: impl FnMut() -> Option<ChangeRequest>) -> usize {
        let room = self.room();
        let may_change = self.files.check().and_then(|()| self.log.resolve());
        let mut frame = self.log.frame();
        let mut group = Group::default();
        // Changes that wait until room is made for them.
        let mut waiting = Vec::new();
        group.entries.append(&mut self.undecided.failed);
        for entry in &mut group.entries {
            self.undecided.log(entry, &mut frame);
        }
        while group.entries.len() < room
            && !frame.is_full()
            && let Some(mut change) = self.undecided.again.pop_front().or_else(&mut next)
        {
            if change.folder == Some(FolderChange::Move) {
                if group.entries.is_empty() {
                    self.make_alone(change).await;
                    return 1;
                }
                self.undecided.again.push_front(change);
                break;
            }
            if may_change.is_ok() && self.make_room(&mut change, &mut group, &mut frame) {
                waiting.push(change);
                continue;
            }
            let decision = match &may_change {
                Ok(()) => decide(self.files, &mut change, &self.undecided.pending),
                Err(error) => Decision::Answer(Err(error.clone())),
            };
            let mut entry = Entry::new(change, decision);
            self.undecided.log(&mut entry, &mut frame);
            group.entries.push(entry);
        }
        let taken = group.entries.len();
        if taken == 0 {
            return 0;
        }
        if frame.records > 0 {
            // Until it goes to the segment of the one before it.
            self.make_until(|log| log.has_room(&frame)).await;
            match self.log.append(frame) {
                Ok((first, end)) => (group.first, group.end) = (first, Some(end)),
                Err(error) => {
                    // Without the removals there is no room.
                    let refused = |change| {
                        let answer = Decision::Answer(Err(error.clone()));
                        Entry::new(change, answer)
                    };
                    group.entries.extend(waiting.drain(..).map(refused));
                    group.refuse(&error, self.files, &mut self.undecided.pending);
                }
            }
        }
        self.undecided.again.extend(waiting);
        self.groups.push_back(group);
        taken
    }

    /// Decides removals that make room for `change`, as entries of `group`; false where there is room, or none can be made.
    fn make_room(
        &mut self,
        change: &mut ChangeRequest,
        group: &mut Group,
        frame: &mut FrameBuilder,
    ) -> bool {
        if !self.files.has_bounds() || is_refused(self.files, change, &self.undecided.pending) {
            return false;
        }
        let evictions = self.files.evictions(change);
        let makes_room = !evictions.is_empty();
        if makes_room {
            change.tries += 1;
        }
        for mut eviction in evictions {
            let decision = decide(self.files, &mut eviction, &self.undecided.pending);
            if let Decision::Answer(outcome) = &decision {
                self.files.unmade(&eviction, outcome.as_ref().err());
            }
            let mut entry = Entry::new(eviction, decision);
            self.undecided.log(&mut entry, frame);
            group.entries.push(entry);
        }
        makes_room
    }

    /// Moves a folder, once all before it is made and settled: a record names a key, so none may be left that a replay would take for the
    /// key's of another folder. For the same reason no record comes after it before its name is on the disk.
    async fn make_alone(&mut self, change: ChangeRequest) {
        self.make_until(|_| false).await;
        let (files, log) = (self.files, &mut *self.log);
        let may_move = || files.check().and_then(|()| log.settle());
        if !self.acknowledger.alone(files, change, may_move).await {
            self.log.doubt();
        }
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

    /// Takes a report of the journal. After a failed sync the groups that were synced before it are made first; then the rest is
    /// refused.
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

    /// Makes what the journal has on the disk.
    fn make(&mut self, group: Group) {
        self.acknowledger.batch(|| {
            let mut done = Vec::with_capacity(group.entries.len());
            self.log.publish(group.end, || {
                let make = |entry| self.undecided.make(self.files, entry, group.first);
                done.extend(group.entries.into_iter().filter_map(make));
                self.undecided.cancels()
            });
            done
        });
    }
}

impl Undecided {
    /// The records that do not hold and that a frame is yet to cancel.
    fn cancels(&self) -> Vec<u64> {
        let failed = self.failed.iter().map(|entry| &entry.change);
        let changes = self.again.iter().chain(failed);
        changes.filter_map(|change| change.cancels).collect()
    }

    /// Adds the records of `entry` to `frame`.
    fn log(&mut self, entry: &mut Entry, frame: &mut FrameBuilder) {
        let change = &entry.change;
        if let Some(record) = change.cancels {
            frame.add_cancel(record);
        }
        if let Decision::Make(plan) = entry.decision {
            let version = |meta: Option<Meta>| meta.map(|meta| meta.version);
            let (base, result) = (version(plan.base), version(plan.result));
            self.pending.decide_all(change, plan.result);
            let (key, small) = (&change.key, change.journaled());
            entry.record = Some(frame.add_change(key, base, result, small, change.source()));
        }
    }

    /// Makes the change of `entry`, in a group whose first record is `first`; returns its answer, unless that comes later.
    fn make(&mut self, files: &impl Files, entry: Entry, first: u64) -> Option<AppliedChange> {
        let mut change = entry.change;
        match entry.decision {
            Decision::Answer(outcome) => return Some(change.unmade(outcome)),
            // All changes before it are made by now, so the files alone decide. The table also has changes that come after it, which do not
            // concern it: so an empty table is passed.
            Decision::Later => match decide(files, &mut change, &Pending::default()) {
                Decision::Answer(outcome) => return Some(change.unmade(outcome)),
                decision => {
                    if matches!(decision, Decision::Make(_)) {
                        files.dropped(&change);
                    }
                    files.unmade(&change, None);
                    self.again.push_back(change);
                }
            },
            Decision::Make(plan) => {
                let record = entry.record.map(|record| first + u64::from(record));
                let staged = entry.staged;
                let made = staged.and_then(|()| survive(|| files.make(&mut change, plan)));
                self.pending.finish_all(&change);
                if !matches!(made, Ok(true)) {
                    files.dropped(&change);
                    files.unmade(&change, made.as_ref().err());
                }
                match made {
                    Ok(true) => {
                        let is_large = change.is_large();
                        return Some(change.made(plan, is_large));
                    }
                    Ok(false) => {
                        change.cancels = record.or(change.cancels);
                        self.again.push_back(change);
                    }
                    Err(error) if record.is_none() => return Some(change.unmade(Err(error))),
                    Err(error) => {
                        change.cancels = record;
                        let answer = Decision::Answer(Err(error));
                        self.failed.push(Entry::new(change, answer));
                    }
                }
            }
        }
        None
    }
}

impl Group {
    /// Ends a group whose frame the journal does not have: its changes are refused, except values that are synced with their files. Of one
    /// that had a record before it is not known whether that counts after a cut of power.
    fn refuse(&mut self, error: &Error, files: &impl Files, pending: &mut Pending) {
        self.end = None;
        for entry in &mut self.entries {
            let has_record = entry.change.cancels.is_some();
            match entry.decision {
                // A value that moves is not the only change of its file: the records before it could be replayed over it.
                Decision::Make(_) if entry.change.is_large() && entry.change.source().is_none() => {
                    entry.record = None;
                    continue;
                }
                Decision::Make(_) => {
                    pending.finish_all(&entry.change);
                    files.dropped(&entry.change);
                    files.unmade(&entry.change, None);
                }
                Decision::Later | Decision::Answer(_) if !has_record => continue,
                Decision::Later | Decision::Answer(_) => {}
            }
            entry.decision = Decision::Answer(Err(if has_record {
                error.in_doubt()
            } else {
                error.clone()
            }));
        }
    }
}
