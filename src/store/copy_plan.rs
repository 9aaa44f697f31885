//! The room for the copies of a folder, decided before the first of them is made: in the bounds that hold for them, and
//! on the disk.
//!
//! Promises that copies for which there is room evict none of the values that they are copied from, as long as other
//! clients store nothing meanwhile. Makes no room by itself: the copies do, one by one, of values used longest ago.

use std::sync::Arc;

use bytes::Bytes;

use super::bounds::{Together, size_of};
use super::directory::Directory;
use super::engine::Store;
use super::temp_file::{Placement, ServerDirs, TempFile};
use crate::transfer::is_large;
use crate::value::{Error, Key};

/// The copies of a folder of a directory.
pub struct CopyPlan<'s> {
    directory: &'s Directory,
    together: Together,
    /// Bytes of the disk that the copies take, and the part of those of small values.
    all: u64,
    small: u64,
    /// Bytes of the disk that they give back.
    replaced: u64,
}

impl Store {
    /// A plan for the copies of a folder; `None` where the store has no bounds and no disk that could be full.
    pub fn plan_copies(&self) -> Option<CopyPlan<'_>> {
        Some(CopyPlan {
            directory: self.directory()?,
            together: Together::default(),
            all: 0,
            small: 0,
            replaced: 0,
        })
    }
}

impl CopyPlan<'_> {
    /// Adds the copy of the value of `from`, which has `len` bytes, to `to`. With `only_new` a value that is there
    /// stays.
    pub async fn add(
        &mut self,
        from: &Key<'_>,
        to: &Key<'_>,
        len: u64,
        only_new: bool,
    ) -> Result<(), Error> {
        let account = self.directory.account();
        account.inspect(|it| it.add_kept(&mut self.together, from.as_str(), len));
        let replaced = self.directory.meta(to).await?.map(|meta| meta.len);
        if replaced.is_some() && only_new {
            return Ok(());
        }
        account.inspect(|it| it.add_stored(&mut self.together, to.as_str(), len, replaced));
        self.replaced += replaced.map_or(0, size_of);
        self.all += size_of(len);
        if !is_large(len) {
            self.small += size_of(len);
        }
        Ok(())
    }

    /// Fails where there is no room for all copies; true if values have to go for them.
    pub async fn check(&self) -> Result<bool, Error> {
        let (mut evicts, mut evictable) = (false, 0);
        if let Some(account) = self.directory.account() {
            evicts = account.may_store(&self.together)?;
            evictable = account.evictable_beside(&self.together);
        }
        let writer = Arc::clone(&self.directory.writing()?.writer);
        let (all, small) = (self.all.saturating_sub(self.replaced), self.small);
        let check_disk = move || {
            let shares = || shares_bytes(&writer.temp_dir);
            writer.lacks(all, || if shares() { small } else { all }, || evictable)
        };
        Ok(evicts | self.directory.dir.disk.spawn(check_disk).await?)
    }

    /// Has the values of `keys`, which are to be copied, count as used: others go before them.
    pub fn spare<'k>(&self, keys: impl IntoIterator<Item = &'k Key<'static>>) {
        for key in keys {
            self.directory.found_existing(key);
        }
    }
}

/// True where the file system lets a copy share the bytes of its source: a large one takes no space then. Blocks.
fn shares_bytes(dirs: &Arc<ServerDirs>) -> bool {
    let create = || {
        TempFile::create(
            dirs,
            Placement::Absent,
            Some(&[Bytes::from_static(&[1; 4096])]),
        )
    };
    let files = create().and_then(|from| Ok((from, create()?)));
    files.is_ok_and(|(from, to)| rustix::fs::ioctl_ficlone(&*to.file, &*from.file).is_ok())
}
