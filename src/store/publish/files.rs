//! The files of the values, as the publisher decides by them and changes them.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::bounds::{Account, Ask, Choice, Known, Room, Total, size_of};
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
        let Some(value) = &mut change.value else {
            return Ok(None);
        };
        if let Some(account) = self.writer.account() {
            account.admit(&mut change.room, &ask(&change.key, value))?;
        }
        if value.is_in_memory() {
            let (space, root) = (&self.writer.space, &self.writer.dir().root);
            self.allowance.take(space, root, value.len)?;
        }
        let end = value.attributes.end();
        if end.is_some() && !self.writer.dir().ends.is_possible() {
            self.writer.note_end()?;
        }
        let version = value.version_after(&self.writer, base.map(|meta| meta.version))?;
        Ok(Some(Meta::new(value.len, version).ending(end)))
    }

    /// Who goes so that the disk has space for `value` under `key`.
    fn room_on_disk(&self, room: &Room, key: &Key<'_>, value: &NewValue) -> Result<Choice, Error> {
        let free = self.writer.space.free(&self.writer.dir().root)?;
        let needs = size_of(if value.is_in_memory() { value.len } else { 0 }) + size_of(1);
        let has = free.map_or(u64::MAX, |free| free.bytes.saturating_sub(free.floor));
        let mut lacks = Total {
            bytes: needs.saturating_sub(has),
            keys: u64::from(free.is_some_and(|free| free.inodes == Some(0))),
        };
        if lacks.is_zero() {
            // The file system refuses it though it tells of space.
            lacks.bytes = needs;
        }
        Ok(room.for_disk(free, lacks, &[key.as_str()]))
    }

    /// Gives the folder `from` the name `to`.
    fn move_folder(&self, from: &Key<'_>, to: &Key<'_>) -> Result<(), Error> {
        let writer = &self.writer;
        writer.journal.may_move_folders()?;
        let rename = || {
            survive(|| {
                commit::move_folder(writer.dir(), from, to)?;
                for folder in [from, to] {
                    writer.cache.forget_all(&format!("{folder}/"));
                }
                Ok(())
            })
        };
        let ends = [from, to].map(Key::as_str);
        let is_counted = |account: &&Arc<Account>| account.counts(&format!("{from}/"));
        match writer.account().filter(is_counted) {
            // The uses that an earlier process has noted have the names of before.
            Some(account) if !account.is_whole() => Err(Error::Counting),
            Some(account) => account.rename(ends, rename),
            None => rename(),
        }
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
        let looks = self.writer.account().map_or(0, |account| account.looks());
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
        if is_made && let Some(account) = self.writer.account() {
            self.count(account, change, looks);
        }
        if is_made && let Some(removal) = change.removal {
            self.writer.cache.forget(&change.key);
            self.writer.counters.removed[removal as usize].add(1);
            let reason = removal.name();
            tracing::debug!(key = change.key.as_str(), %reason, "a value is removed");
        }
        Ok(is_made)
    }

    /// Counts what `change` has made, which began after so many looks of the index.
    fn count(&self, account: &Account, change: &mut ChangeRequest, looks: u64) {
        let (dir, key) = (self.writer.dir(), change.key.as_str());
        if let Some(source) = change.source() {
            account.look(dir, key);
            account.look(dir, source.key.as_str());
            return;
        }
        if !account.counts(key) {
            return;
        }
        let looks = change.room.as_ref().map_or(looks, |room| room.looks);
        let file = change.value.as_mut().and_then(|value| {
            let (end, len) = (value.attributes.end(), value.len);
            let stat = rustix::fs::fstat(&*value.file().ok()?.file).ok()?;
            let file = Known::new(&stat, end, dir.device());
            // The file system may choose the blocks later.
            Some(Known {
                bytes: file.bytes.max(size_of(len)),
                ..file
            })
        });
        account.made(dir, key, looks, file);
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
                    if let Some(account) = self.writer.account() {
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

    fn evictions(&self, change: &ChangeRequest) -> Option<Vec<ChangeRequest>> {
        let (room, value) = (self.writer.room.as_ref()?, change.value.as_ref()?);
        let for_change = change
            .room
            .as_ref()
            .and_then(|held| room.for_change(held, &ask(&change.key, value)));
        let on_disk = || self.room_on_disk(room, &change.key, value);
        match for_change.map_or_else(on_disk, Ok).ok()? {
            Choice::Evict(victims) => {
                Some(victims.into_iter().map(ChangeRequest::eviction).collect())
            }
            Choice::Wait => Some(Vec::new()),
            Choice::Nobody => None,
        }
    }

    fn evicted(&self) {
        if let Some(room) = &self.writer.room {
            room.gone(|| {
                self.writer
                    .space
                    .free(&self.writer.dir().root)
                    .ok()
                    .flatten()
            });
        }
    }

    fn withdraw(&self, change: &mut ChangeRequest, error: Option<&Error>) {
        change.room = None;
        let Some(account) = self.writer.account() else {
            return;
        };
        for key in change
            .keys()
            .map(Key::as_str)
            .filter(|key| account.counts(key))
        {
            account.look(self.writer.dir(), key);
        }
        if let (Some(_), Some(error)) = (change.removal, error)
            && !matches!(error, Error::Precondition)
        {
            account.set_stuck(change.key.as_str(), true);
            self.log_stuck(&change.key, error);
        }
    }
}

/// The room that `value` asks for under `key`.
fn ask<'a>(key: &'a Key<'_>, value: &'a NewValue) -> Ask<'a> {
    Ask {
        key: key.as_str(),
        bytes: size_of(value.len),
        source: value.source().map(|source| source.key.as_str()),
        staged: 0,
    }
}
