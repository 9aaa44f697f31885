//! The files of the values, as the publisher decides by them and changes them; and the way of a change without a journal.

use std::cell::Cell;
use std::sync::Arc;

use super::super::commit::{self, Found};
use super::super::space::Allowance;
use super::super::write_context::{Durability, WriteContext};
use super::decide::{AppliedChange, ChangeRequest, Files, Plan, plan, survive};
use crate::value::{Error, Meta};

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

    /// Decides `change` by the files alone, and makes it; anew while other programs are in its way.
    pub fn make_at_once(&self, mut change: ChangeRequest) -> AppliedChange {
        match survive(|| self.try_to_make(&mut change)) {
            Ok(Some(plan)) => change.made(plan, self.writer.durability == Durability::Disk),
            Ok(None) => change.unmade(Ok(None)),
            Err(error) => change.unmade(Err(error)),
        }
    }

    fn try_to_make(&self, change: &mut ChangeRequest) -> Result<Option<Plan>, Error> {
        loop {
            let is_plain_put = change.value.is_some() && change.condition.is_none();
            let creates = self.creates_in_a_row.get();
            let found = self.look(change, is_plain_put && creates >= CREATES_IN_A_ROW)?;
            let Some(plan) = plan(self, change, found.meta())? else {
                return Ok(None);
            };
            self.stage(change, plan)?;
            let is_made = self.make_in(change, &found)?;
            if plan.result.is_some() {
                let is_create = is_made && plan.base.is_none();
                let more = creates.saturating_add(1);
                let creates = if is_create { more } else { 0 };
                self.creates_in_a_row.set(creates);
            }
            if is_made {
                return Ok(Some(plan));
            }
        }
    }

    fn look(&self, change: &ChangeRequest, is_assumed: bool) -> Result<Found<'_>, Error> {
        self.writer.journal.may_change(&change.key)?;
        let (dir, is_put) = (self.writer.dir(), change.value.is_some());
        commit::find(dir, &change.key, is_put, is_assumed)
    }

    /// Makes `change` in place of what was `found`; false where another program has changed that.
    fn make_in(&self, change: &mut ChangeRequest, found: &Found<'_>) -> Result<bool, Error> {
        match &mut change.value {
            Some(value) => commit::put(&self.writer, &change.key, value, found),
            None => commit::delete(&self.writer, &change.key, found),
        }
    }
}

impl Files for ValueFiles {
    fn check(&self) -> Result<(), Error> {
        self.writer.dir().location.check()
    }

    fn find(&self, change: &ChangeRequest) -> Result<Option<Meta>, Error> {
        Ok(self.look(change, false)?.meta())
    }

    fn result(
        &self,
        change: &mut ChangeRequest,
        base: Option<Meta>,
    ) -> Result<Option<Meta>, Error> {
        let Some(value) = &mut change.value else {
            return Ok(None);
        };
        // Its file is yet to be written.
        if value.file.is_none() {
            let (space, root) = (&self.writer.space, &self.writer.dir().root);
            self.allowance.take(space, root, value.len)?;
        }
        let version = value.version_after(&self.writer, base.map(|meta| meta.version))?;
        let end = value.attributes.end();
        Ok(Some(Meta::new(value.len, version).ending(end)))
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
        self.make_in(change, &found)
    }
}
