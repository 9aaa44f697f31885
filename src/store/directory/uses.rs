//! Uses of values for the bounds that hold for them: what is counted of a request, and values that are used without
//! being read.

use std::sync::Arc;

use crate::store::directory::Directory;
use crate::store::directory_fd::Blocking;
use crate::value::{Error, Key};

impl Directory {
    /// Counts a GET or HEAD of `key`, which found a value or none, in the bounds that hold for it.
    pub fn count_request(&self, key: &Key<'_>, is_hit: bool) {
        if let Some(account) = self.account() {
            account.count_request(key.as_str(), is_hit);
        }
    }

    /// True if there are values of all these keys, with these lengths; each that is there is used.
    pub async fn use_all(&self, values: Vec<(Key<'static>, u64)>) -> Result<bool, Error> {
        let (dir, account) = (Arc::clone(&self.dir), self.account().cloned());
        let look = move || {
            for (key, len) in values {
                let found = dir.meta(&key, Blocking::Allowed);
                let found = found.map_err(Error::errno_while("look up"))?;
                if found.is_none_or(|meta| meta.len != len || meta.has_ended()) {
                    return Ok(false);
                }
                account.as_ref().inspect(|it| drop(it.read(key.as_str())));
            }
            Ok(true)
        };
        self.dir.disk.spawn(look).await
    }
}
