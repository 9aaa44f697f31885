//! The files of the values, as the publisher decides by them and changes them.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::bounds::{Account, size_of};
use super::super::changes::Removal;
use super::super::commit::{self, Found};
use super::super::new_value::{NewValue, Place, Source};
use super::super::space::Allowance;
use super::super::write_context::WriteContext;
use super::decide::{
    ChangeRequest, Files, FolderChange, MadeAtOnce, PendingState, Plan, has_source, lacks_room,
    plan, survive,
};
use super::unchangeable;
use crate::value::{Error, Key, Meta};

/// After this many creates in a row, a name to be put without a condition is linked without a stat. A wrong guess costs about
/// five stats, so it must be right most of the time.
const CREATES_IN_A_ROW: u32 = 16;

/// How long no second removal that failed is logged.
const STUCK_LOGGED: Duration = Duration::from_secs(3600);

/// The publisher's hold on the files.
pub struct ValueFiles {
    pub writer: Arc<WriteContext>,
    allowance: Allowance,
    creates_in_a_row: Cell<u32>,
    /// When a removal for a bound that failed was logged last.
    logged_stuck: Cell<Option<Instant>>,
}

impl ValueFiles {
    pub fn new(writer: Arc<WriteContext>) -> Self {
        Self {
            writer,
            allowance: Allowance::default(),
            creates_in_a_row: Cell::default(),
            logged_stuck: Cell::default(),
        }
    }

    /// Logs that the value of `key` could not be removed: there may be many of its kind.
    fn log_stuck(&self, key: &Key<'_>, error: &Error) {
        let is_recent = |at: Instant| at.elapsed() < STUCK_LOGGED;
        if !self.logged_stuck.get().is_some_and(is_recent) {
            self.logged_stuck.set(Some(Instant::now()));
            let key = key.as_str();
            tracing::warn!(key, %error, "a value cannot be removed, and stays: others are evicted in its place; this is said once an hour");
        }
    }

    /// The value that the key of `change` will have in place of `base`, for which there is room.
    fn admit(&self, change: &mut ChangeRequest, base: Option<Meta>) -> Result<Option<Meta>, Error> {
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
        let admitted = self.admit(change, base);
        if admitted.as_ref().is_err_and(lacks_room) {
            unchangeable::may_change(&self.writer, change)?;
        }
        admitted
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

    fn make_at_once(
        &self,
        change: &mut ChangeRequest,
        make_room: &mut dyn FnMut(&ChangeRequest) -> bool,
    ) -> MadeAtOnce {
        if !has_source(self, change, PendingState::Nothing)? {
            return Ok(None);
        }
        let is_plain_put = change.value.is_some() && change.condition.is_none();
        let creates = self.creates_in_a_row.get();
        let found = self.look(change, is_plain_put && creates >= CREATES_IN_A_ROW)?;
        let mut planned = plan(self, change, found.meta());
        if planned.as_ref().is_err_and(lacks_room) && make_room(change) {
            planned = plan(self, change, found.meta());
        }
        let Some(plan) = planned? else {
            return Ok(None);
        };
        let made = survive(|| {
            self.stage(change, plan)?;
            self.make_in(change, &found, plan)
        });
        if let (Some(_), Ok(is_made)) = (plan.result, &made) {
            let is_create = *is_made && plan.base.is_none();
            let more = creates.saturating_add(1);
            let creates = if is_create { more } else { 0 };
            self.creates_in_a_row.set(creates);
        }
        Ok(Some((plan, made)))
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
        if victims.is_empty()
            && value.is_in_memory()
            && self.allowance.take(space, root, value.len).is_err()
        {
            victims = account.victims_of_disk(size_of(value.len), change.key.as_str());
        }
        let evict = |(key, condition)| ChangeRequest::removal(key, condition, Removal::Full);
        victims.into_iter().map(evict).collect()
    }

    fn withdraw(&self, change: &ChangeRequest, is_admitted: bool, error: Option<&Error>) {
        let Some(account) = &self.writer.account else {
            return;
        };
        for key in change.keys().map(Key::as_str) {
            if is_admitted {
                account.dropped(key);
            }
            if account.counts(key) {
                account.look(self.writer.dir(), key);
            }
        }
        if let (Some(_), Some(error)) = (change.removal, error)
            && !matches!(error, Error::Precondition)
        {
            account.note_stuck(change.key.as_str());
            self.log_stuck(&change.key, error);
        }
    }
}
