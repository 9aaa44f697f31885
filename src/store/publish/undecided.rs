//! The changes of the publisher that are neither in a group nor answered: how each becomes an entry of a group, and
//! what comes of the entry when its group is made.

use std::collections::VecDeque;

use super::super::journal::FrameBuilder;
use super::change::{AppliedChange, Change, ChangeRequest};
use super::decide::{Decision, Files, Made, decide, removals, survive};
use super::pending::Pending;
use crate::value::{Error, Meta};

/// The changes that are neither in a group nor answered, and the table of keys in flight.
#[derive(Default)]
pub struct Undecided {
    pub pending: Pending,
    /// To be decided, or decided anew; or answered with their failure, once the next frame that cancels their records
    /// is synced.
    pub again: VecDeque<ChangeRequest>,
    /// True if one of them waits for evictions that are not handed over yet.
    pub waits_for_others: bool,
}

/// A change that was decided.
pub struct Entry {
    pub change: ChangeRequest,
    pub decision: Decision,
    /// The number of its record in the frame; `None` where the journal has none.
    pub record: Option<u32>,
    pub staged: Result<(), Error>,
}

impl Entry {
    pub fn new(change: ChangeRequest, decision: Decision) -> Self {
        Self {
            change,
            decision,
            record: None,
            staged: Ok(()),
        }
    }
}

impl Undecided {
    /// The records that do not hold and that a frame is yet to cancel.
    pub fn cancels(&self) -> Vec<u64> {
        self.again.iter().filter_map(|it| it.cancels).collect()
    }

    /// Decides `change` as the next of `entries`. Where it lacks room, or a value that has ended is in its way, the
    /// values that go for it come before it, and it waits until these are removed.
    pub fn decide(
        &mut self,
        files: &impl Files,
        mut change: ChangeRequest,
        entries: &mut Vec<Entry>,
        frame: &mut FrameBuilder,
    ) {
        let decided = match change.failure.take() {
            Some(error) => Err(*error),
            None => decide(files, &mut change, &self.pending),
        };
        let decision = match decided {
            Ok(decision) => decision,
            Err(error) => match removals(files, &mut change, error) {
                Err(error) => Decision::Answer(Err(error)),
                Ok(removals) => {
                    self.waits_for_others |= removals.is_empty();
                    for removal in removals {
                        self.decide(files, removal, entries, frame);
                    }
                    Decision::Anew
                }
            },
        };
        if let (Some(_), Decision::Answer(outcome)) = (change.removal(), &decision) {
            files.withdraw(&mut change, outcome.as_ref().err());
        }
        self.push(Entry::new(change, decision), entries, Some(frame));
    }

    /// Adds `entry` to `entries`, and its records to `frame`.
    pub fn push(
        &mut self,
        mut entry: Entry,
        entries: &mut Vec<Entry>,
        frame: Option<&mut FrameBuilder>,
    ) {
        let change = &entry.change;
        if let Some(frame) = frame {
            if let Some(record) = change.cancels {
                frame.add_cancel(record);
            }
            if let Decision::Make(plan) = entry.decision {
                let version = |meta: Option<Meta>| meta.map(|meta| meta.version);
                let (base, result) = (version(plan.base), version(plan.result));
                self.pending.decide(change, plan.result);
                let (key, small) = (&change.key, change.journaled());
                let record = frame.add_change(key, base, result, small, change.source());
                entry.record = Some(record);
            }
        }
        entries.push(entry);
    }

    /// Makes the change of `entry`, in a group whose first record is `first`, and adds its answer to `done`, unless
    /// that comes later.
    pub fn make(
        &mut self,
        files: &impl Files,
        entry: Entry,
        first: u64,
        done: &mut Vec<AppliedChange>,
    ) {
        let mut change = entry.change;
        let made = match entry.decision {
            Decision::Answer(outcome) => return done.push(change.answered(outcome)),
            Decision::Anew => {
                files.evicted();
                return self.again.push_back(change);
            }
            Decision::Later | Decision::AtOnce if let Change::Folder(how) = &change.kind => {
                let outcome = survive(|| files.change_folder(&change.key, how));
                return done.extend(self.answer_of_folder(files, change, outcome));
            }
            Decision::AtOnce => return self.make_at_once(files, change, done),
            // All changes before it are made by now, so the files alone decide. The table also has changes that come
            // after it, which do not concern it: so an empty table is passed.
            Decision::Later => {
                match decide(files, &mut change, &Pending::default()) {
                    Ok(Decision::Answer(outcome)) => done.push(change.answered(outcome)),
                    Ok(_) => {
                        files.withdraw(&mut change, None);
                        self.decide_anew(change);
                    }
                    Err(error) => {
                        change.failure = Some(Box::new(error));
                        self.again.push_back(change);
                    }
                }
                return;
            }
            Decision::Make(plan) => {
                // The value of a removal by the server may have been used since.
                let condition = change.condition.as_ref();
                let condition = condition.filter(|_| change.removal().is_some());
                let is_allowed = condition.is_none_or(|allows| allows(plan.base));
                let made = entry.staged.and_then(|()| {
                    is_allowed.then_some(()).ok_or(Error::Precondition)?;
                    survive(|| files.make(&mut change, plan))
                });
                self.pending.finish(&change);
                made.map(|is_made| Some((plan, is_made)))
            }
        };
        let record = entry.record.map(|record| first + u64::from(record));
        self.end(files, change, record, made, done);
    }

    /// Decides `change` by the files alone, and makes it. Where it lacks room, or a value that has ended is in its way,
    /// the values that go for it are removed before it, and others have their turn between if these are many.
    fn make_at_once(
        &mut self,
        files: &impl Files,
        mut change: ChangeRequest,
        done: &mut Vec<AppliedChange>,
    ) {
        for _ in 0..2 {
            let made = survive(|| files.make_at_once(&mut change));
            let removals = match made.map_err(|error| removals(files, &mut change, error)) {
                Err(Ok(removals)) => removals,
                Err(Err(error)) => return self.end(files, change, None, Err(error), done),
                Ok(made) => return self.end(files, change, None, Ok(made), done),
            };
            self.waits_for_others |= removals.is_empty();
            for removal in removals {
                self.make_at_once(files, removal, done);
            }
            files.evicted();
        }
        self.again.push_back(change);
    }

    /// Adds the answer to `change`, of which `made` came, to `done`, unless that comes later; `record` is the number of
    /// its record, if the journal has one.
    fn end(
        &mut self,
        files: &impl Files,
        mut change: ChangeRequest,
        record: Option<u64>,
        made: Made,
        done: &mut Vec<AppliedChange>,
    ) {
        if let Ok(Some((plan, true))) = made {
            // The record of a change syncs its name too, but for a large value.
            let syncs = record.is_none() || change.is_large();
            return done.push(change.made(plan, syncs));
        }
        files.withdraw(&mut change, made.as_ref().err());
        match made {
            Ok(Some(_)) => {
                change.cancels = record.or(change.cancels);
                self.decide_anew(change);
            }
            Err(error) if record.is_some() => {
                (change.cancels, change.failure) = (record, Some(Box::new(error)));
                self.again.push_back(change);
            }
            made => done.push(change.answered(made.map(|_| None))),
        }
    }

    /// The answer to a `change` of a folder, of which `outcome` came; `None` where it is made once a value that has
    /// ended is out of its way.
    pub fn answer_of_folder(
        &mut self,
        files: &impl Files,
        mut change: ChangeRequest,
        outcome: Result<(), Error>,
    ) -> Option<AppliedChange> {
        let outcome = match outcome.map_err(|error| removals(files, &mut change, error)) {
            Err(Ok(removals)) => {
                self.again.extend(removals);
                self.again.push_back(change);
                return None;
            }
            Err(Err(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        Some(change.of_folder(outcome))
    }

    /// Another change, or another program, was in the way of `change`.
    fn decide_anew(&mut self, mut change: ChangeRequest) {
        change.tries += 1;
        self.again.push_back(change);
    }
}
