//! The files of the values, as the publisher decides by them and changes them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::super::bounds::{Account, Choice, Total, size_of};
use super::super::commit::{self, FoundName};
use super::super::implicit::mark_implicit;
use super::super::new_value::Source;
use super::super::space::Allowance;
use super::super::write_context::{Durability, WriteContext};
use super::change::{Change, ChangeRequest, FolderChange, Plan, removal_of_ended};
use super::decide::{Files, Made, has_source, lacks_room, plan, survive};
use super::pending::PendingState;
use super::unchangeable;
use crate::value::{Error, Key, Meta};

/// After this many creates in a row, a name to be put without a condition is linked without a stat. A wrong guess costs
/// about five stats, so it must be right most of the time.
const CREATES_IN_A_ROW: u32 = 16;

/// How long a folder is taken to be as it was.
const CHANGEABLE: Duration = Duration::from_millis(100);

/// How long no second removal that failed is logged.
const STUCK_LOGGED: Duration = Duration::from_secs(3600);

/// The publisher's hold on the files.
pub struct ValueFiles {
    pub writer: Arc<WriteContext>,
    allowance: Allowance,
    creates_in_a_row: Cell<u32>,
    /// The folder in which a new value was possible last, and when.
    changeable: RefCell<(Box<str>, Option<Instant>)>,
    /// When a removal for a bound that failed was logged last.
    logged_stuck: Cell<Option<Instant>>,
    /// With bounds: the key that was changed last, until a value went for the next.
    last: RefCell<Option<Key<'static>>>,
}

impl ValueFiles {
    pub fn new(writer: Arc<WriteContext>) -> Self {
        Self {
            writer,
            allowance: Allowance::default(),
            creates_in_a_row: Cell::default(),
            changeable: RefCell::default(),
            logged_stuck: Cell::default(),
            last: RefCell::default(),
        }
    }

    /// The `outcome` of a step of `change`, in place of `base`; where that lacks room, and the names of the change
    /// cannot be changed, this failure: no value goes for it.
    fn with_room<T>(
        &self,
        change: &ChangeRequest,
        base: Option<Meta>,
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        if outcome.as_ref().is_err_and(lacks_room) {
            self.may_change(change, base.is_some())?;
        }
        outcome
    }

    /// Fails where a name of `change` cannot be changed. Of new values in one folder, as a rule the first asks.
    fn may_change(&self, change: &ChangeRequest, replaces: bool) -> Result<(), Error> {
        let (folder, is_new) = (change.key.folder(), !replaces && change.source().is_none());
        let (known, at) = &mut *self.changeable.borrow_mut();
        if !is_new || **known != *folder || at.is_none_or(|at| at.elapsed() > CHANGEABLE) {
            unchangeable::may_change(self.writer.dir(), change, replaces)?;
            if is_new {
                (*known, *at) = (folder.into(), Some(Instant::now()));
            }
        }
        Ok(())
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
        let writer = &self.writer;
        if let Some(account) = &writer.account {
            let mut room = change.room.take();
            let admitted = change
                .ask(account)
                .map(|ask| account.admit(&mut room, &ask));
            change.room = room;
            admitted.transpose()?;
            if let Change::Put(value) = &change.kind {
                value.staging.iter().for_each(|staging| staging.admitted());
            }
        }
        let Some((len, attributes)) = change.value() else {
            return Ok(None);
        };
        let end = attributes.end();
        if change.is_in_memory() {
            self.allowance
                .take(&writer.space, &writer.dir().root, len)?;
        }
        let (ends, dates) = (&writer.dir().ends, &writer.dir().dates);
        if end.is_some() && !ends.is_possible() {
            writer.note_first(ends)?;
        }
        if !dates.is_possible() && attributes.date().is_some() {
            // A value moves without its date, too.
            writer
                .note_first(dates)
                .or_else(|why| change.source().map(drop).ok_or(why))?;
        }
        let current = base.map(|meta| meta.version);
        let version = match &mut change.kind {
            Change::Put(value) => value.version_after(writer, current)?,
            _ => writer.next_version(current)?,
        };
        Ok(Some(Meta::new(len, version).ending(end)))
    }

    /// Who goes so that the disk has space for the value of `change`.
    fn room_on_disk(&self, account: &Arc<Account>, change: &ChangeRequest) -> Choice {
        let free = self.writer.free().ok().flatten();
        let len = change.value().filter(|_| change.is_in_memory());
        let needs = size_of(len.map_or(0, |(len, _)| len)) + size_of(1);
        let mut lacks = Total::lacking(free, needs, 1);
        if lacks.is_zero() {
            // The file system refuses it though it tells of space.
            lacks.bytes = needs;
        }
        account.for_disk(free, lacks, &[change.key.as_str()])
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
        let below = format!("{from}/");
        match writer
            .account
            .as_ref()
            .filter(|account| account.counts(&below))
        {
            Some(account) => {
                // The uses that an earlier process has noted have the names of before.
                account.counted()?;
                account.rename([from, to].map(Key::as_str), rename)
            }
            None => rename(),
        }
    }

    fn look(&self, change: &ChangeRequest, is_assumed: bool) -> Result<FoundName<'_>, Error> {
        self.writer.journal.may_change(&change.key)?;
        let (dir, is_put) = (self.writer.dir(), change.value().is_some());
        commit::find(dir, &change.key, is_put, is_assumed)
    }

    /// Makes `change` in place of what was `found`; false where another program has changed that.
    fn make_in(
        &self,
        change: &mut ChangeRequest,
        found: &FoundName<'_>,
        plan: Plan,
    ) -> Result<bool, Error> {
        let (writer, removal) = (&self.writer, change.removal());
        let looks = writer.account.as_ref().map_or(0, |account| account.looks());
        let is_made = match (&mut change.kind, plan.result) {
            (Change::Put(value), _) => commit::put(writer, &change.key, value, found),
            (Change::Move(value), Some(Meta { version, .. })) => {
                commit::rename(writer, &change.key, &value.source, found, version)
            }
            (Change::Remove(_), _) => commit::delete(writer, &change.key, found, removal.is_some()),
            (Change::Move(_) | Change::Folder(_), _) => Ok(false),
        }?;
        if is_made && let Some(account) = &writer.account {
            self.count(account, change, looks);
        }
        if is_made && let Some(removal) = removal {
            self.writer.cache.forget(&change.key);
            self.writer.counters.removed[removal as usize].add(1);
            let reason = removal.name();
            tracing::debug!(key = change.key.as_str(), %reason, "a value is removed");
        }
        Ok(is_made)
    }

    /// Counts what `change` has made, which began after so many looks of the index.
    fn count(&self, account: &Account, change: &mut ChangeRequest, looks: u64) {
        let (dir, key) = (self.writer.dir(), &change.key);
        *self.last.borrow_mut() = Some(key.clone());
        let file = match &mut change.kind {
            Change::Put(value) if account.counts(key.as_str()) => value.known(dir.device()),
            Change::Move(value) => {
                account.made(dir, value.source.key.as_str(), (None, looks), None);
                return account.look_if_counted(dir, key.as_str());
            }
            _ => None,
        };
        account.made(dir, key.as_str(), (change.room.as_deref_mut(), looks), file);
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
        // A record of what is refused when it is made would be kept by a start that comes before its cancellation: it
        // could not make it either, and would not read the key. A value that moves would have another tag until then.
        if self.writer.journal.is_used.load(Relaxed) || change.source().is_some() {
            self.may_change(change, base.is_some())?;
        }
        let admitted = self.admit(change, base);
        self.with_room(change, base, admitted)
    }

    fn change_folder(&self, path: &Key<'_>, change: &FolderChange) -> Result<(), Error> {
        let (writer, dir) = (&self.writer, self.writer.dir());
        match change {
            &FolderChange::Make { with_above } => {
                if dir.folder(path.as_str()).is_err() {
                    if let Some(account) = &writer.account {
                        account.may_make_folder(path.as_str())?;
                    }
                    self.allowance.take(&writer.space, &dir.root, 0)?;
                }
                commit::make_folder(dir, path, with_above)
            }
            FolderChange::Remove => commit::remove_folder(dir, path),
            FolderChange::Release => {
                match (commit::remove_folder(dir, path), dir.folder(path.as_str())) {
                    (Err(Error::Occupied(_)), Ok(folder)) => {
                        mark_implicit(folder);
                        Ok(())
                    }
                    (removed, _) => removed,
                }
            }
            FolderChange::Move { from } => self.move_folder(from, path),
        }
    }

    fn stage(&self, change: &mut ChangeRequest, plan: Plan) -> Result<(), Error> {
        let staged = match (&mut change.kind, plan.result) {
            (Change::Put(value), Some(Meta { version, .. })) => {
                commit::stage(&self.writer, &change.key, value, plan.base, version)
            }
            _ => Ok(()),
        };
        self.with_room(change, plan.base, staged)
    }

    fn make(&self, change: &mut ChangeRequest, plan: Plan) -> Result<bool, Error> {
        let found = self.look(change, plan.base.is_none())?;
        if found.meta() != plan.base {
            return Ok(false);
        }
        self.make_in(change, &found, plan)
    }

    fn make_at_once(&self, change: &mut ChangeRequest) -> Made {
        if !has_source(self, change, PendingState::Nothing)? {
            return Ok(None);
        }
        let is_plain_put = change.value().is_some() && change.condition.is_none();
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
            self.creates_in_a_row.set(if is_create { more } else { 0 });
        }
        Ok(Some((plan, is_made)))
    }

    fn evictions(&self, change: &ChangeRequest, error: Error) -> Result<Vec<ChangeRequest>, Error> {
        let account = self.writer.account.as_ref();
        let asked = account.and_then(|account| Some((account, change.ask(account)?)));
        let Some((account, ask)) = asked else {
            return Err(error);
        };
        let held = change.room.as_ref();
        let in_bounds = held.and_then(|held| account.for_change(held, &ask));
        match in_bounds.unwrap_or_else(|| self.room_on_disk(account, change)) {
            Choice::Evict(some) => Ok(some.into_iter().map(ChangeRequest::eviction).collect()),
            Choice::Wait => Ok(Vec::new()),
            Choice::Nobody(why) => Err(why.unwrap_or(error)),
        }
    }

    fn eviction_ahead(&self) -> Option<ChangeRequest> {
        // It would have a sync of its own, which the next change would wait for.
        if self.writer.durability == Durability::Disk {
            return None;
        }
        let (account, last) = (self.writer.account.as_ref()?, self.last.take()?);
        // The answer to the change before goes first, also where its reactor shares the CPU.
        std::thread::yield_now();
        let victim = account.victim_for_next(last.as_str())?;
        Some(ChangeRequest::eviction(victim))
    }

    fn ended_in_way(&self, key: &Key<'_>) -> Option<ChangeRequest> {
        let (key, meta) = self.writer.dir().ended_at(key.as_str())?;
        Some(ChangeRequest::eviction(removal_of_ended(key, meta)))
    }

    fn used(&self, key: &Key<'_>) {
        let account = self.writer.account.as_ref();
        account.inspect(|account| drop(account.read(key.as_str())));
    }

    fn evicted(&self) {
        let account = self.writer.account.as_ref();
        account.inspect(|account| account.gone(|| self.writer.free().ok()?));
    }

    fn withdraw(&self, change: &mut ChangeRequest, error: Option<&Error>) {
        change.room = None;
        let Some(account) = &self.writer.account else {
            return;
        };
        for key in change.keys() {
            account.look_if_counted(self.writer.dir(), key.as_str());
        }
        if let (Some(_), Some(error)) = (change.removal(), error)
            && !matches!(error, Error::Precondition)
        {
            account.set_stuck(change.key.as_str(), true);
            self.log_stuck(&change.key, error);
        }
    }
}
