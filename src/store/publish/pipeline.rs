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
    AppliedChange, Change, Entry, Files, Pending, Planned, decide, is_large, survive,
};
use crate::value::{Error, Meta};

/// The most changes that are appended and not made: each has a file open.
const MOST: usize = 256;

/// The publisher's loop, with a journal.
pub(super) struct Pipeline<'a, F, L> {
    files: &'a F,
    pub(super) log: &'a mut L,
    acknowledger: &'a Acknowledger,
    state: State,
    /// Appended and not made, in this order.
    groups: VecDeque<Group>,
}

/// The changes that are neither in a group nor answered, and the table of keys in flight.
#[derive(Default)]
struct State {
    pending: Pending,
    /// To be decided, or decided anew.
    again: VecDeque<Change>,
    /// Changes that have failed. The next frame cancels their records, and they are answered once that is synced.
    failed: Vec<Entry>,
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
    pub(super) fn new(files: &'a F, log: &'a mut L, acknowledger: &'a Acknowledger) -> Self {
        Self {
            files,
            log,
            acknowledger,
            state: State::default(),
            groups: VecDeque::new(),
        }
    }

    /// Publishes `changes` until their senders are gone; `observe` gets the number of changes in each group. Blocks its thread while it
    /// writes.
    pub(super) async fn run(mut self, changes: &mut Receiver<Change>, observe: impl Fn(usize)) {
        loop {
            let may_take = self.room() > 0;
            if may_take && self.is_left() {
                // Nothing is to be waited for.
            } else if self.groups.is_empty() {
                let Some(change) = changes.recv().await else {
                    return;
                };
                self.state.again.push_back(change);
            } else {
                tokio::select! {
                    biased;
                    Some(change) = changes.recv(), if may_take => self.state.again.push_back(change),
                    synced = self.log.wait() => self.hear(synced),
                }
            }
            let taken = self.run_batch(|| changes.try_recv().ok()).await;
            if taken > 0 {
                observe(taken);
            }
        }
    }

    /// Appends the changes that are left and those of `next`, and makes those that are synced; returns the number appended.
    pub(super) async fn run_batch(&mut self, next: impl FnMut() -> Option<Change>) -> usize {
        let taken = self.append(next).await;
        while let Some(synced) = self.log.wait().now_or_never() {
            self.hear(synced);
        }
        self.make_ready();
        self.stage();
        // Groups that wait for no sync.
        self.make_ready();
        taken
    }

    /// True while a change is left to be decided or cancelled.
    pub(super) fn is_left(&self) -> bool {
        !self.state.again.is_empty() || !self.state.failed.is_empty()
    }

    /// The number of changes that may be appended now.
    fn room(&self) -> usize {
        let taken: usize = self.groups.iter().map(|group| group.entries.len()).sum();
        MOST.saturating_sub(taken)
    }

    /// Decides what is left and what `next` gives, appends it as one group, and begins its sync. Where the segment has no room for it,
    /// all groups before it are made first: the next segment is free only when all is made that was appended long before.
    async fn append(&mut self, mut next: impl FnMut() -> Option<Change>) -> usize {
        let (room, may_change) = (self.room(), self.files.check());
        let mut frame = self.log.frame();
        let mut group = self.state.begin(self.files, &mut frame);
        while group.entries.len() < room
            && !frame.is_full()
            && let Some(change) = self.state.again.pop_front().or_else(&mut next)
        {
            let mut entry = match &may_change {
                Ok(()) => decide(self.files, change, &self.state.pending),
                Err(error) => Entry::answer(change, Err(error.clone())),
            };
            self.state.log(self.files, &mut entry, &mut frame);
            group.entries.push(entry);
        }
        let taken = group.entries.len();
        if taken == 0 {
            return 0;
        }
        if frame.records > 0 {
            self.make_ready_for(&frame).await;
            match self.log.append(frame) {
                Ok((first, end)) => (group.first, group.end) = (first, Some(end)),
                Err(error) => group.refuse(self.files, &error, &mut self.state.pending),
            }
        }
        self.groups.push_back(group);
        taken
    }

    /// Waits until `frame` goes to the segment of the one before it, or all groups are made.
    async fn make_ready_for(&mut self, frame: &FrameBuilder) {
        while !self.log.has_room(frame) {
            // Groups that are synced already: no report comes for them.
            self.stage();
            self.make_ready();
            if self.groups.is_empty() {
                return;
            }
            let synced = self.log.wait().await;
            self.hear(synced);
        }
    }

    /// Takes a report of the journal. After a failed sync the synced groups are made first, so that no change that was decided before is left
    /// when the rest is refused.
    fn hear(&mut self, synced: Result<(), Error>) {
        let Err(error) = synced else { return };
        self.stage();
        self.make_ready();
        for group in &mut self.groups {
            group.refuse(self.files, &error, &mut self.state.pending);
        }
    }

    /// Writes the files of the values.
    fn stage(&mut self) {
        for group in self.groups.iter_mut().filter(|group| !group.is_staged) {
            group.is_staged = true;
            for entry in &mut group.entries {
                if let Entry::Make(planned) = entry {
                    let Planned { change, plan, .. } = &mut **planned;
                    planned.staged = survive(|| self.files.stage(change, *plan));
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
        let Self {
            files, log, state, ..
        } = self;
        self.acknowledger.batch(|| {
            let mut done = Vec::with_capacity(group.entries.len());
            log.publish(group.end, || {
                let made = group.entries.into_iter();
                done.extend(made.filter_map(|entry| state.make(*files, entry, group.first)));
            });
            done
        });
    }
}

impl State {
    /// A group whose `frame` cancels what has failed.
    fn begin(&mut self, files: &impl Files, frame: &mut FrameBuilder) -> Group {
        let mut group = Group::default();
        group.entries.append(&mut self.failed);
        for entry in &mut group.entries {
            self.log(files, entry, frame);
        }
        group
    }

    /// Adds the records of `entry` to `frame`.
    fn log(&mut self, files: &impl Files, entry: &mut Entry, frame: &mut FrameBuilder) {
        let cancels = match entry {
            Entry::Make(planned) => planned.change.cancels,
            Entry::Wait(change) => change.cancels,
            Entry::Answer { cancels, .. } => *cancels,
        };
        if let Some(record) = cancels {
            frame.cancel(record);
        }
        if let Entry::Make(planned) = entry {
            let Planned { change, plan, .. } = &**planned;
            let version = |meta: Option<Meta>| meta.map(|meta| meta.version);
            let (base, result) = (version(plan.base), version(plan.result));
            self.pending.decide(&change.key, plan.result);
            planned.record = Some(frame.change(&change.key, base, result, files.small(change)));
        }
    }

    /// Makes one change of a group; returns its answer, unless that comes later.
    fn make(&mut self, files: &impl Files, entry: Entry, first: u64) -> Option<AppliedChange> {
        match entry {
            Entry::Answer { made, .. } => Some(made),
            Entry::Wait(change) => match decide(files, change, &Pending::default()) {
                Entry::Answer { made, .. } => Some(made),
                Entry::Make(planned) => self.again(planned.change),
                Entry::Wait(change) => self.again(change),
            },
            Entry::Make(planned) => self.make_planned(files, *planned, first),
        }
    }

    fn make_planned(
        &mut self,
        files: &impl Files,
        planned: Planned,
        first: u64,
    ) -> Option<AppliedChange> {
        let Planned {
            mut change,
            plan,
            record,
            staged,
        } = planned;
        let record = record.map(|record| first + u64::from(record));
        let made = staged.and_then(|()| survive(|| files.make(&mut change, plan)));
        self.pending.settle(&change.key);
        match made {
            Ok(true) => {
                let is_large = is_large(files, &change);
                Some(change.made(plan, is_large))
            }
            Ok(false) => {
                change.cancels = record.or(change.cancels);
                self.again(change)
            }
            Err(error) => {
                let made = change.unmade(Err(error));
                if record.is_none() {
                    return Some(made);
                }
                let cancels = record;
                self.failed.push(Entry::Answer { made, cancels });
                None
            }
        }
    }

    /// Has `change` decided anew, and answered later.
    fn again(&mut self, change: Change) -> Option<AppliedChange> {
        self.again.push_back(change);
        None
    }
}

impl Group {
    /// Ends a group whose frame the journal does not have: its changes are refused, except values that are synced with their files. Of one
    /// that had a record before it is not known whether that counts after a cut of power.
    fn refuse(&mut self, files: &impl Files, error: &Error, pending: &mut Pending) {
        self.end = None;
        for entry in std::mem::take(&mut self.entries) {
            let refused = || Err(error.clone());
            let unknown = || Err(error.in_doubt());
            self.entries.push(match entry {
                Entry::Make(mut planned) if is_large(files, &planned.change) => {
                    planned.record = None;
                    Entry::Make(planned)
                }
                Entry::Make(planned) => {
                    pending.settle(&planned.change.key);
                    let has_record = planned.change.cancels.is_some();
                    let outcome = if has_record { unknown() } else { refused() };
                    Entry::answer(planned.change, outcome)
                }
                Entry::Wait(change) if change.cancels.is_some() => Entry::answer(change, unknown()),
                Entry::Answer { mut made, cancels } => {
                    if cancels.is_some() {
                        made.outcome = unknown();
                    }
                    Entry::Answer { made, cancels }
                }
                Entry::Wait(change) => Entry::Wait(change),
            });
        }
    }
}
