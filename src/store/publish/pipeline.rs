//! How changes pass through the journal: each is decided once and appended, and made when its sync has ended.
//!
//! A change is decided against what is decided and not made yet ([`Pending`]) before the files, so that the log has only changes that
//! hold in its order. It is made, and answered, only once the log is synced up to it, in that order. Where a file is no longer
//! what a change was decided on, because another program has changed it, the change is cancelled in the log and decided anew. One
//! that fails is answered once its cancellation is synced. The device is always given the next sync as soon as one ends, with
//! all that was appended by then; the publisher writes files meanwhile, and makes the groups before.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::sync::mpsc::Receiver;

use super::super::attributes::Attributes;
use super::super::error::Error;
use super::super::journal::{FrameBuilder, Log};
use super::super::key::Key;
use super::super::meta::Meta;
use super::acknowledge::Acknowledger;
use super::change::{Applied, Change, Decision, Made, Pending, Plan, Seen, Ticket};

/// The most changes that are appended and not made: each has a file open.
const MOST: usize = 256;

/// How often a change is decided anew: a program that moves what it is decided on in a loop wins some times in a row.
const TRIES: u32 = 1024;

/// What the pipeline asks of the files.
pub(super) trait Files {
    /// Fails while nothing may be changed.
    fn check(&self) -> Result<(), Error>;
    /// What the key of `change` stands for, if it may be changed.
    fn find(&self, change: &Change) -> Result<Option<Meta>, Error>;
    /// What the key will stand for, where it stands for `base`.
    fn result(&self, change: &mut Change, base: Option<Meta>) -> Result<Option<Meta>, Error>;
    /// The value of `change`, if the journal is to hold it: else it is in a file that is synced by itself.
    fn small<'c>(&self, change: &'c Change) -> Option<(&'c Attributes, &'c [Bytes])>;
    /// Writes the file of the value, if `change` has one.
    fn stage(&self, change: &mut Change, plan: Plan) -> Result<(), Error>;
    /// Makes `change`, unless its key no longer stands for the base of `plan`.
    fn make(&self, change: Change, plan: Plan) -> Applied;
    /// What is decided of `key` and not made yet.
    fn see(&self, pending: &Pending, key: &Key<'_>) -> Seen {
        pending.see(key)
    }
}

/// What is to be made of `change` where its key stands for `current`; `None` where it would do nothing.
pub(super) fn plan(
    files: &impl Files,
    change: &mut Change,
    current: Option<Meta>,
) -> Result<Option<Plan>, Error> {
    change.tries += 1;
    if change.tries > TRIES {
        return Err(Error::new("publish", Errno::BUSY));
    }
    // RFC 9110, section 13.2.1, in the terms of the store: no condition is asked for a change that would do nothing.
    if change.value.is_none() && current.is_none() {
        return Ok(None);
    }
    if !change.allows(current) {
        return Err(Error::Precondition);
    }
    let (base, result) = (current, files.result(change, current)?);
    Ok(Some(Plan { base, result }))
}

/// Decides `change` against `pending`, and then the files.
fn decide(files: &impl Files, change: &mut Change, pending: &Pending) -> Decision {
    let planned = match files.see(pending, &change.key) {
        Seen::Occupied => return Decision::Wait,
        Seen::Decided(current) => match plan(files, change, current) {
            Ok(None) | Err(Error::Precondition) => return Decision::Wait,
            planned => planned,
        },
        Seen::Nothing => files
            .find(change)
            .and_then(|current| plan(files, change, current)),
    };
    match planned {
        Ok(Some(plan)) => Decision::Make(plan),
        Ok(None) => Decision::Answer(Ok(None)),
        Err(error) => Decision::Answer(Err(error)),
    }
}

/// The publisher's loop, with a journal.
pub(super) struct Pipeline<'a, F, L> {
    files: &'a F,
    log: &'a mut L,
    acknowledger: &'a Acknowledger,
    state: State,
    /// Appended and not made, in this order.
    groups: VecDeque<Group>,
}

/// What the changes that are not made yet leave to be done.
#[derive(Default)]
struct State {
    pending: Pending,
    /// To be decided anew.
    again: VecDeque<Change>,
    /// The sequence numbers of records that the next frame cancels: also those of a frame that the journal did not take.
    cancelled: Vec<u64>,
    /// The answers that wait for its sync.
    failed: Vec<Made>,
}

/// Changes whose records one frame of the journal holds.
struct Group {
    entries: Vec<Entry>,
    /// What its frame cancels.
    cancelled: Vec<u64>,
    /// How many changes were taken: those that have panicked are no entry.
    taken: usize,
    is_staged: bool,
    /// The sequence number of the first record of its frame.
    first: u64,
    /// Where its frame ends; `None` where it waits for none.
    end: Option<u64>,
}

enum Entry {
    Make(Box<Planned>),
    /// It is decided when all before it is made.
    Wait(Change),
    /// It is answered with the others.
    Answer(Made),
    /// It is answered once the cancellation is synced that this frame has.
    Cancelled(Made),
}

struct Planned {
    change: Change,
    plan: Plan,
    ticket: Ticket,
    /// Which record of the frame it is; `None` where the journal could not take it and need not.
    record: Option<u32>,
    staged: Result<(), Error>,
}

/// What the publisher has waited for.
enum Event {
    Change(Change),
    /// More is synced, or what is not yet will not be.
    Synced(Result<(), Error>),
    /// Nothing more can come, and all is made.
    End,
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

    /// Makes what comes, until nothing more can come; `observe` hears how many are appended together. Blocks its thread while it
    /// writes.
    pub(super) async fn run(mut self, changes: &mut Receiver<Change>, observe: impl Fn(usize)) {
        loop {
            match self.next(changes).await {
                Some(Event::Change(change)) => self.state.again.push_back(change),
                Some(Event::Synced(synced)) => self.hear(synced),
                Some(Event::End) => return,
                None => {}
            }
            let taken = self.go_on(|| changes.try_recv().ok()).await;
            if taken > 0 {
                observe(taken);
            }
        }
    }

    /// Appends what is left and what `next` gives, and makes what is synced; how many changes were appended.
    async fn go_on(&mut self, next: impl FnMut() -> Option<Change>) -> usize {
        let taken = self.append(next).await;
        while let Some(synced) = self.log.poll() {
            self.hear(synced);
        }
        self.make_ready();
        self.stage();
        // What need not be waited for.
        self.make_ready();
        taken
    }

    /// As [`Self::run`] does, for what is `asked`, as long as nothing is to be waited for; `with` then sees the log.
    #[cfg(test)]
    pub(super) fn play(&mut self, asked: Vec<Change>, with: impl FnOnce(&mut L)) {
        with(self.log);
        let mut asked = asked.into_iter();
        loop {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let is_done = {
                let step = std::pin::pin!(self.go_on(|| asked.next()));
                step.poll(&mut context).is_ready()
            };
            assert!(is_done, "the model's log is not waited for");
            if self.state.left() == 0 {
                return;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn log(&self) -> &L {
        self.log
    }

    /// What there is to do next; `None` where something is left to be decided or cancelled.
    async fn next(&mut self, changes: &mut Receiver<Change>) -> Option<Event> {
        let may_take = self.room() > 0;
        if may_take && self.state.left() > 0 {
            return None;
        }
        if self.groups.is_empty() {
            return Some(changes.recv().await.map_or(Event::End, Event::Change));
        }
        Some(tokio::select! {
            biased;
            Some(change) = changes.recv(), if may_take => Event::Change(change),
            synced = self.log.wait() => Event::Synced(synced),
        })
    }

    /// How many changes may be appended.
    fn room(&self) -> usize {
        let taken: usize = self.groups.iter().map(|group| group.taken).sum();
        MOST.saturating_sub(taken)
    }

    /// Decides what is left and what `next` gives, appends it as one group, and begins its sync. Where the segment has no room for it,
    /// all groups before it are made first: the next segment is free only when all is made that was appended long before.
    async fn append(&mut self, mut next: impl FnMut() -> Option<Change>) -> usize {
        let (room, may_change) = (self.room(), self.files.check());
        let mut frame = self.log.frame();
        let mut group = self.state.begin(&mut frame);
        while group.taken < room
            && !frame.is_full()
            && let Some(mut change) = self.state.again.pop_front().or_else(&mut next)
        {
            group.taken += 1;
            let decision = match &may_change {
                Ok(()) => survive(|| decide(self.files, &mut change, &self.state.pending)),
                Err(error) => Some(Decision::Answer(Err(error.again()))),
            };
            if let Some(decision) = decision {
                let entry = self.state.enter(self.files, change, decision, &mut frame);
                group.entries.push(entry);
            }
        }
        if group.taken == 0 && frame.is_empty() {
            return 0;
        }
        let taken = group.taken;
        if !frame.is_empty() {
            self.make_ready_for(&frame).await;
            match self.log.append(frame) {
                Ok((first, end)) => (group.first, group.end) = (first, Some(end)),
                Err(error) => group.refuse(self.files, &error, &mut self.state),
            }
        }
        self.groups.push_back(group);
        taken
    }

    /// Waits until `frame` goes to the segment of the one before it, or all groups are made.
    async fn make_ready_for(&mut self, frame: &FrameBuilder) {
        while !self.log.has_room(frame) {
            // Of these no report is to come any more.
            self.stage();
            self.make_ready();
            if self.groups.is_empty() {
                return;
            }
            let synced = self.log.wait().await;
            self.hear(synced);
        }
    }

    /// After a failed sync, what is synced is made first, so that nothing decided before it is left when the rest is refused.
    fn hear(&mut self, synced: Result<(), Error>) {
        let Err(error) = synced else { return };
        self.stage();
        self.make_ready();
        for group in &mut self.groups {
            group.refuse(self.files, &error, &mut self.state);
        }
    }

    /// Writes the files of the values.
    fn stage(&mut self) {
        for group in self.groups.iter_mut().filter(|group| !group.is_staged) {
            group.is_staged = true;
            for entry in &mut group.entries {
                if let Entry::Make(planned) = entry {
                    let Planned { change, plan, .. } = &mut **planned;
                    planned.staged = survive(|| self.files.stage(change, *plan))
                        .unwrap_or_else(|| Err(panicked()));
                }
            }
        }
    }

    fn make_ready(&mut self) {
        while let Some(front) = self.groups.front()
            && front.is_staged
            && front.end.is_none_or(|end| self.log.is_synced(end))
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
            let mut done = Vec::with_capacity(group.taken);
            let (mut later, left) = (0, state.left());
            log.publish(group.end, || {
                let before = state.cancelled.len();
                for entry in group.entries {
                    done.extend(state.make(*files, entry, group.first));
                }
                later = state.left() - left;
                state.cancelled[before..].to_vec()
            });
            (group.taken - later, done)
        });
    }
}

impl State {
    /// How many changes are answered later.
    fn left(&self) -> usize {
        self.again.len() + self.failed.len()
    }

    /// A group whose `frame` cancels what is to be cancelled.
    fn begin(&mut self, frame: &mut FrameBuilder) -> Group {
        let cancelled = std::mem::take(&mut self.cancelled);
        for &sequence in &cancelled {
            frame.cancel(sequence);
        }
        let entries: Vec<_> = self.failed.drain(..).map(Entry::Cancelled).collect();
        Group {
            taken: entries.len(),
            entries,
            cancelled,
            is_staged: false,
            first: 0,
            end: None,
        }
    }

    fn enter(
        &mut self,
        files: &impl Files,
        change: Change,
        decision: Decision,
        frame: &mut FrameBuilder,
    ) -> Entry {
        let plan = match decision {
            Decision::Make(plan) => plan,
            Decision::Answer(outcome) if change.was_logged => {
                return Entry::Cancelled(change.unchanged(outcome));
            }
            Decision::Answer(outcome) => return Entry::Answer(change.unchanged(outcome)),
            Decision::Wait => return Entry::Wait(change),
        };
        let version = |meta: Option<Meta>| meta.map(|meta| meta.version);
        let (base, result) = (version(plan.base), version(plan.result));
        Entry::Make(Box::new(Planned {
            ticket: self.pending.decide(&change.key, plan.result),
            record: Some(frame.change(&change.key, base, result, files.small(&change))),
            change,
            plan,
            staged: Ok(()),
        }))
    }

    /// Makes one change of a group; its answer, unless that comes later, or never.
    fn make(&mut self, files: &impl Files, entry: Entry, first: u64) -> Option<Made> {
        match entry {
            Entry::Answer(made) | Entry::Cancelled(made) => Some(made),
            Entry::Wait(mut change) => {
                match survive(|| decide(files, &mut change, &Pending::default()))? {
                    Decision::Answer(outcome) => return Some(change.unchanged(outcome)),
                    Decision::Make(_) | Decision::Wait => self.again.push_back(change),
                }
                None
            }
            Entry::Make(planned) => self.make_planned(files, *planned, first),
        }
    }

    fn make_planned(&mut self, files: &impl Files, planned: Planned, first: u64) -> Option<Made> {
        let Planned {
            change,
            plan,
            ticket,
            record,
            staged,
        } = planned;
        let sequence = record.map(|record| first + u64::from(record));
        let applied = match staged {
            Ok(()) => survive(|| files.make(change, plan)),
            Err(error) => Some(Applied::Made(change.refuse(error))),
        };
        match applied {
            // Whether it is made is not known: its record stays.
            None => self.pending.lost(ticket),
            Some(Applied::Moved(mut change)) => {
                self.pending.settle(&change.key, ticket);
                change.was_logged |= sequence.is_some();
                self.cancelled.extend(sequence);
                self.again.push_back(change);
            }
            Some(Applied::Made(made)) => {
                let key = made.key.as_ref()?;
                self.pending.settle(key, ticket);
                match sequence {
                    Some(sequence) if made.outcome.is_err() => {
                        self.cancelled.push(sequence);
                        self.failed.push(made);
                    }
                    _ => return Some(made),
                }
            }
        }
        None
    }
}

impl Group {
    /// The journal does not have its frame. What needs that is not made; a value that is synced with its file needs it not.
    fn refuse(&mut self, files: &impl Files, error: &Error, state: &mut State) {
        self.end = None;
        state.cancelled.append(&mut self.cancelled);
        for entry in std::mem::take(&mut self.entries) {
            let entry = match entry {
                Entry::Make(mut planned)
                    if planned.plan.result.is_some() && files.small(&planned.change).is_none() =>
                {
                    planned.record = None;
                    Entry::Make(planned)
                }
                Entry::Make(planned) => {
                    let key = &planned.change.key;
                    state.pending.settle(key, planned.ticket);
                    Entry::Answer(planned.change.refuse(error.again()))
                }
                // Whether its record counts after a cut of power is not known.
                Entry::Cancelled(mut made) => {
                    made.outcome = Err(error.again());
                    Entry::Answer(made)
                }
                other => other,
            };
            self.entries.push(entry);
        }
    }
}

/// A panic costs this change alone, whose writer hears that it failed.
fn survive<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

fn panicked() -> Error {
    Error::Failed {
        doing: "write the value",
        source: std::io::Error::other("a panic"),
    }
}
