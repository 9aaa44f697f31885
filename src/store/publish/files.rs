//! The files of the values, as the publisher decides by them and changes them; and the way of a change without a journal.

use std::cell::Cell;
use std::sync::Arc;

use super::super::bounds::{Account, FRUITLESS, STEP, size_of};
use super::super::changes::Removal;
use super::super::commit::{self, Found};
use super::super::new_value::{NewValue, Place, Source};
use super::super::space::Allowance;
use super::super::write_context::{Durability, WriteContext};
use super::decide::{
    AppliedChange, ChangeRequest, Files, FolderChange, Pending, PendingState, Plan, has_source,
    is_refused, plan, survive,
};
use crate::value::{Error, Key, Meta};

/// After this many creates in a row, a name to be put without a condition is linked without a stat. A wrong guess costs about
/// five stats, so it must be right most of the time.
const CREATES_IN_A_ROW: u32 = 16;

/// The publisher's hold on the files.
pub struct ValueFiles {
    pub writer: Arc<WriteContext>,
    allowance: Allowance,
    creates_in_a_row: Cell<u32>,
}

impl ValueFiles {
    pub fn new(writer: Arc<WriteContext>) -> Self {
        Self {
            writer,
            allowance: Allowance::default(),
            creates_in_a_row: Cell::default(),
        }
    }

    /// Decides `change` of a value by the files alone, and makes it; anew while other programs are in its way.
    pub fn make_at_once(&self, mut change: ChangeRequest) -> AppliedChange {
        match survive(|| self.try_to_make(&mut change)) {
            Ok(Some(plan)) => change.made(plan, self.writer.durability == Durability::Disk),
            Ok(None) => {
                self.unmade(&change, None);
                change.unmade(Ok(None))
            }
            Err(error) => {
                // It is the only one in flight, if it was counted at all.
                self.dropped(&change);
                self.unmade(&change, Some(&error));
                change.unmade(Err(error))
            }
        }
    }

    /// Makes removals that make room for `change`, and adds them to `made`; false while more are to be made, after others had their turn.
    pub fn make_room(&self, change: &mut ChangeRequest, made: &mut Vec<AppliedChange>) -> bool {
        if !self.has_bounds() || is_refused(self, change, &Pending::default()) {
            return true;
        }
        let before = made.len();
        while made.len() < before + STEP {
            let evictions = self.evictions(change);
            change.tries += 1;
            if evictions.is_empty() {
                return true;
            }
            for eviction in evictions {
                let evicted = self.make_at_once(eviction);
                // What fails so would fail again.
                let has_failed = evicted.outcome.is_err() && !evicted.is_passed_by();
                made.push(evicted);
                if has_failed {
                    return true;
                }
            }
        }
        false
    }

    fn try_to_make(&self, change: &mut ChangeRequest) -> Result<Option<Plan>, Error> {
        loop {
            if !has_source(self, change, PendingState::Nothing)? {
                return Ok(None);
            }
            let is_plain_put = change.value.is_some() && change.condition.is_none();
            let creates = self.creates_in_a_row.get();
            let found = self.look(change, is_plain_put && creates >= CREATES_IN_A_ROW)?;
            let Some(plan) = plan(self, change, found.meta())? else {
                return Ok(None);
            };
            self.stage(change, plan)?;
            let is_made = self.make_in(change, &found, plan)?;
            if plan.result.is_some() {
                let is_create = is_made && plan.base.is_none();
                let more = creates.saturating_add(1);
                let creates = if is_create { more } else { 0 };
                self.creates_in_a_row.set(creates);
            }
            if is_made {
                return Ok(Some(plan));
            }
            self.dropped(change);
        }
    }

    /// Gives the folder `from` the name `to`.
    fn move_folder(&self, from: &Key<'_>, to: &Key<'_>) -> Result<(), Error> {
        let writer = &self.writer;
        writer.journal.may_move_folders()?;
        let account = writer.account.as_deref();
        let begin = |account: &Account| account.begin_move(from.as_str(), to.as_str());
        account.map_or(Ok(()), begin)?;
        let moved = survive(|| {
            commit::move_folder(writer.dir(), from, to)?;
            for folder in [from, to] {
                writer.cache.forget_all(&format!("{folder}/"));
            }
            account.inspect(|account| account.moved(from.as_str(), to.as_str()));
            Ok(())
        });
        account.inspect(|account| account.end_move());
        moved
    }

    fn look(&self, change: &ChangeRequest, is_assumed: bool) -> Result<Found<'_>, Error> {
        self.writer.journal.may_change(&change.key)?;
        let (dir, is_put) = (self.writer.dir(), change.value.is_some());
        commit::find(dir, &change.key, is_put, is_assumed)
    }

    /// Makes `change` in place of what was `found`; false where another program has changed that.
    fn make_in(
        &self,
        change: &mut ChangeRequest,
        found: &Found<'_>,
        plan: Plan,
    ) -> Result<bool, Error> {
        let is_made = match &mut change.value {
            Some(NewValue {
                place: Place::Key(source),
                ..
            }) => match plan.result {
                Some(result) => {
                    let (key, version) = (&change.key, result.version);
                    commit::rename(&self.writer, key, source, found, version)
                }
                None => Ok(false),
            },
            Some(value) => commit::put(&self.writer, &change.key, value, found),
            None => commit::delete(&self.writer, &change.key, found, change.removal.is_some()),
        }?;
        if is_made && let Some(account) = &self.writer.account {
            account.made(change.key.as_str(), plan.result.is_some());
            if let Some(source) = change.source() {
                account.made(source.key.as_str(), false);
            }
        }
        if is_made && let Some(removal) = change.removal {
            self.writer.cache.forget(&change.key);
            self.writer.counters.removed[removal as usize].add(1);
            let reason = removal.name();
            tracing::debug!(key = change.key.as_str(), %reason, "a value is removed");
        }
        Ok(is_made)
    }
}

impl Files for ValueFiles {
    fn check(&self) -> Result<(), Error> {
        self.writer.dir().location.check()
    }

    fn find(&self, change: &ChangeRequest) -> Result<Option<Meta>, Error> {
        Ok(self.look(change, false)?.meta())
    }

    fn find_source(&self, source: &Source, to: &Key<'_>) -> Result<Option<Meta>, Error> {
        self.writer.journal.may_change(&source.key)?;
        commit::find_source(self.writer.dir(), &source.key, to)
    }

    fn result(
        &self,
        change: &mut ChangeRequest,
        base: Option<Meta>,
    ) -> Result<Option<Meta>, Error> {
        let account = self.writer.account.as_deref();
        let Some(value) = &mut change.value else {
            if let Some(account) = account {
                account.release(change.key.as_str());
            }
            return Ok(None);
        };
        if value.is_in_memory() {
            let (space, root) = (&self.writer.space, &self.writer.dir().root);
            self.allowance.take(space, root, value.len)?;
        }
        let end = value.attributes.end();
        if end.is_some() && !self.writer.dir().ends.is_possible() {
            self.writer.note_end()?;
        }
        let version = value.version_after(&self.writer, base.map(|meta| meta.version))?;
        // Last: what is counted is made, or told to be dropped.
        if let Some(account) = account {
            let source = value.source().map(|source| source.key.as_str());
            account.admit(change.key.as_str(), size_of(value.len), version, source)?;
        }
        Ok(Some(Meta::new(value.len, version).ending(end)))
    }

    fn change_folder(&self, change: &ChangeRequest) -> Result<(), Error> {
        let (dir, path) = (self.writer.dir(), &change.key);
        match change.folder {
            Some(FolderChange::Make) => {
                if dir.folder(path.as_str()).is_err() {
                    if let Some(account) = &self.writer.account {
                        account.may_make_folder(path.as_str())?;
                    }
                    self.allowance.take(&self.writer.space, &dir.root, 0)?;
                }
                commit::make_folder(dir, path)
            }
            Some(FolderChange::Remove) => commit::remove_folder(dir, path),
            Some(FolderChange::Move) | None => change
                .source()
                .map_or(Ok(()), |source| self.move_folder(&source.key, path)),
        }
    }

    fn stage(&self, change: &mut ChangeRequest, plan: Plan) -> Result<(), Error> {
        match (&mut change.value, plan.result) {
            (Some(value), Some(result)) => {
                commit::stage(&self.writer, &change.key, value, plan.base, result.version)
            }
            _ => Ok(()),
        }
    }

    fn make(&self, change: &mut ChangeRequest, plan: Plan) -> Result<bool, Error> {
        let found = self.look(change, plan.base.is_none())?;
        if found.meta() != plan.base {
            return Ok(false);
        }
        self.make_in(change, &found, plan)
    }

    fn has_bounds(&self) -> bool {
        self.writer.account.is_some()
    }

    fn evictions(&self, change: &ChangeRequest) -> Vec<ChangeRequest> {
        let (Some(account), Some(value), None) =
            (&self.writer.account, &change.value, change.folder)
        else {
            return Vec::new();
        };
        let source = value.source().map(|source| source.key.as_str());
        let mut victims = account.victims_for(change.key.as_str(), size_of(value.len), source);
        let (space, root) = (&self.writer.space, &self.writer.dir().root);
        // A few times for each change: the space of what is removed may come late, or go to another program.
        if victims.is_empty()
            && change.tries < FRUITLESS
            && value.is_in_memory()
            && self.allowance.take(space, root, value.len).is_err()
        {
            victims = account.victims_of_disk(size_of(value.len), change.key.as_str());
        }
        let evict = |(key, condition)| ChangeRequest::removal(key, condition, Removal::Full);
        victims.into_iter().map(evict).collect()
    }

    fn dropped(&self, change: &ChangeRequest) {
        if let Some(account) = &self.writer.account {
            change.keys().for_each(|key| account.dropped(key.as_str()));
        }
    }

    fn unmade(&self, change: &ChangeRequest, error: Option<&Error>) {
        let Some(account) = &self.writer.account else {
            return;
        };
        for key in change.keys().map(Key::as_str) {
            if account.counts(key) {
                account.look(self.writer.dir(), key);
            }
        }
        let is_stuck = matches!(error, Some(Error::Forbidden { .. }));
        if change.removal.is_some() && is_stuck {
            account.note_stuck(change.key.as_str());
        }
    }
}
