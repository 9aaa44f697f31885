//! The changes of the publisher that are neither in a group nor answered: how each becomes an entry of a group, and
//! what comes of the entry when its group is made.

use std::collections::VecDeque;

use super::super::journal::FrameBuilder;
use super::change::{AppliedChange, Change, ChangeRequest};
use super::decide::{Decision, Files, decide, is_blocked, removals, survive};
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
        let mut decision = match change.failure.take().map(|error| *error) {
            Some(error) if is_blocked(files, &change, &error) => Decision::Blocked(error),
            Some(error) => Decision::Answer(Err(error)),
            None => decide(files, &mut change, &self.pending),
        };
        if let Decision::Blocked(error) = decision {
            decision = match removals(files, &mut change, &error) {
                None => Decision::Answer(Err(error)),
                Some(removals) => {
                    self.waits_for_others |= removals.is_empty();
                    for removal in removals {
                        self.decide(files, removal, entries, frame);
                    }
                    Decision::Anew
                }
            };
        }
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
            Decision::Blocked(_) => return self.again.push_back(change),
            Decision::Later | Decision::AtOnce if let Change::Folder(how) = &change.kind => {
                let outcome = survive(|| files.change_folder(&change.key, how));
                return done.extend(self.answer_of_folder(files, change, outcome));
            }
            Decision::AtOnce => return self.make_at_once(files, change, done),
            // All changes before it are made by now, so the files alone decide. The table also has changes that come
            // after it, which do not concern it: so an empty table is passed.
            Decision::Later => {
                let decision = decide(files, &mut change, &Pending::default());
                if let Decision::Answer(outcome) = decision {
                    return done.push(change.answered(outcome));
                }
                files.withdraw(&mut change, None);
                return self.decide_anew(change);
            }
            Decision::Make(plan) => {
                let is_allowed = change.is_allowed_still(plan);
                let made = entry.staged.and_then(|()| {
                    is_allowed.then_some(()).ok_or(Error::Precondition)?;
                    survive(|| files.make(&mut change, plan))
                });
                self.pending.finish(&change);
                made.map(|is_made| (plan, is_made))
            }
        };
        let record = entry.record.map(|record| first + u64::from(record));
        match made {
            Ok((plan, true)) => {
                let is_large = change.is_large();
                done.push(change.made(plan, is_large));
            }
            Ok((_, false)) => {
                files.withdraw(&mut change, None);
                change.cancels = record.or(change.cancels);
                self.decide_anew(change);
            }
            Err(error) => {
                files.withdraw(&mut change, Some(&error));
                if record.is_none() {
                    return done.push(change.answered(Err(error)));
                }
                (change.cancels, change.failure) = (record, Some(Box::new(error)));
                self.again.push_back(change);
            }
        }
    }

    /// Decides `change` by the files alone, and makes it. Where it lacks room, or a value that has ended is in its way,
    /// the values that go for it are removed before it, and others have their turn between if these are many.
    fn make_at_once(
        &mut self,
        files: &impl Files,
        mut change: ChangeRequest,
        done: &mut Vec<AppliedChange>,
    ) {
        loop {
            let mut make_room =
                |change: &ChangeRequest| self.remove(files, files.evictions(change), done);
            let made = survive(|| files.make_at_once(&mut change, &mut make_room));
            let error = match made {
                Ok(Some((plan, Ok(true)))) => return done.push(change.made(plan, true)),
                Ok(Some((_, Ok(false)))) => {
                    files.withdraw(&mut change, None);
                    change.tries += 1;
                    continue;
                }
                Ok(None) => {
                    files.withdraw(&mut change, None);
                    return done.push(change.answered(Ok(None)));
                }
                Ok(Some((_, Err(error)))) => {
                    files.withdraw(&mut change, None);
                    error
                }
                Err(error) => error,
            };
            let before = removals(files, &mut change, &error);
            if self.remove(files, before, done) {
                return self.again.push_back(change);
            }
            files.withdraw(&mut change, Some(&error));
            return done.push(change.answered(Err(error)));
        }
    }

    /// Makes these removals for another change; false where none helps it.
    fn remove(
        &mut self,
        files: &impl Files,
        removals: Option<Vec<ChangeRequest>>,
        done: &mut Vec<AppliedChange>,
    ) -> bool {
        let Some(removals) = removals else {
            return false;
        };
        self.waits_for_others |= removals.is_empty();
        for removal in removals {
            self.make_at_once(files, removal, done);
        }
        files.evicted();
        true
    }

    /// The answer to a `change` of a folder, of which `outcome` came; `None` where it is made once a value that has
    /// ended is out of its way.
    pub fn answer_of_folder(
        &mut self,
        files: &impl Files,
        mut change: ChangeRequest,
        outcome: Result<(), Error>,
    ) -> Option<AppliedChange> {
        let before = |error| removals(files, &mut change, error);
        let Some(removals) = outcome.as_ref().err().and_then(before) else {
            return Some(change.of_folder(outcome));
        };
        self.again.extend(removals);
        self.again.push_back(change);
        None
    }

    /// Another change, or another program, was in the way of `change`.
    fn decide_anew(&mut self, mut change: ChangeRequest) {
        change.tries += 1;
        self.again.push_back(change);
    }
}
