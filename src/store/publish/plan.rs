//! What is decided of a change before the journal has it: whether it may be made as things stand, and with which version.
//!
//! It is decided again when it is made, by the same rules: what was published meanwhile, and other programs, are seen then.

use super::super::directory_fd::Entry;
use super::super::error::Error;
use super::super::folder::{Folder, is_no_folder};
use super::super::key::Key;
use super::super::meta::{Meta, Version};
use super::super::temp_file::Target;
use super::super::upload::NewValue;
use super::change::{Change, Condition};
use super::commit::{Committer, allow, stands_under};

/// A change that may be made.
#[derive(Debug)]
pub(super) struct Plan {
    /// That of the value; of a removal, one that the removed value does not have.
    pub(super) version: Version,
    /// The journal is to hold it.
    pub(super) is_journaled: bool,
    target: Target,
}

impl Committer {
    /// What the journal is told of `change` before it is made, if it may be made; `None` where there is nothing to make.
    pub(super) fn plan(&self, change: &mut Change) -> Result<Option<Plan>, Error> {
        let (key, condition) = (&change.key, change.condition.as_ref());
        let Some(value) = &mut change.value else {
            let Some((_, meta)) = self.deletable(key, condition)? else {
                return Ok(None);
            };
            let version = self.writer.next_version(Some(meta.version))?;
            return Ok(Some(Plan {
                version,
                is_journaled: true,
                target: Target::Present,
            }));
        };
        let folder = self.folder(key)?;
        let current = self.assumed(key, folder.as_ref(), condition)?;
        let version = value.version_after(&self.writer, current.map(|meta| meta.version))?;
        Ok(Some(Plan {
            version,
            is_journaled: value.is_journaled(&self.writer),
            target: current.map_or(Target::Absent, |_| Target::Present),
        }))
    }

    /// Writes the file of the value, if `change` has one, with the version of its `plan`.
    pub(super) fn stage(&self, change: &mut Change, plan: &Plan) -> Result<(), Error> {
        if let Some(value) = change.value.take() {
            let sealed = value.seal_as(&self.writer, plan.target, plan.version)?;
            change.value = Some(NewValue::Sealed(sealed));
        }
        Ok(())
    }

    /// The value of `key` that a DELETE would remove, if `condition` allows it, and its folder.
    pub(super) fn deletable(
        &self,
        key: &Key<'_>,
        condition: Option<&Condition>,
    ) -> Result<Option<(Folder<'_>, Meta)>, Error> {
        let folder = match self.dir().folder(key.folder()) {
            Err(errno) if is_no_folder(errno) => return Ok(None),
            folder => folder.map_err(Error::errno_while("open the folder"))?,
        };
        // RFC 9110, section 13.2.1, in the terms of the store: no condition is asked for a change that would do nothing.
        let Entry::Value(meta) = stands_under(key, &folder)? else {
            return Ok(None);
        };
        allow(condition, Some(meta))?;
        Ok(Some((folder, meta)))
    }
}
