//! Folders of a directory as things of their own: made to stay without a value, moved, and removed with all folders
//! below them.
//!
//! The publisher makes, moves and removes the folder itself, in order with all changes of values, and syncs its name
//! where that is promised. The folders below it are removed beside the publisher, which makes anew what a value needs.
//! Values are not removed here.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::Directory;
use crate::store::commit::taken_by;
use crate::store::directory_fd::{Blocking, NameKind, ValuesDir, is_no_folder, look_up};
use crate::store::empty_folders::FolderRemoval;
use crate::store::list::{FoundValues, ValueWalk};
use crate::store::publish::{Change, FolderChange};
use crate::value::{Error, Key, Meta};

impl Directory {
    /// Makes this change of the folder `path`.
    pub async fn change_folder(
        &self,
        path: Key<'static>,
        change: FolderChange,
    ) -> Result<(), Error> {
        let writing = self.writing()?;
        let changed = writing.publisher.change(path, Change::Folder(change), None);
        writing.writer.note(changed.await.map(drop))
    }

    /// Gives the folder `from`, with all that is below it, the name `to`, which nothing has.
    pub async fn move_folder(&self, from: Key<'static>, to: Key<'static>) -> Result<(), Error> {
        let writing = self.writing()?;
        let writer = Arc::clone(&writing.writer);
        let ends = (from.clone(), to.clone());
        // Beside the publisher, which stops all writes for the rest.
        let written = self.dir.disk.spawn(move || {
            may_move(writer.dir(), &ends.0, &ends.1)?;
            Ok(writer.write_ahead())
        });
        written.await?;
        let change = Change::Folder(FolderChange::Move { from });
        let moved = writing.publisher.change(to, change, None);
        writing.writer.note(moved.await.map(drop))
    }

    /// True if there is a folder `path`, also one that no listing has.
    pub async fn has_folder(&self, path: Key<'static>) -> Result<bool, Error> {
        // The kernel's caches have most folders: no thread is asked.
        if let Ok(has) = self.dir.has_folder(path.as_str(), Blocking::Never) {
            return Ok(has);
        }
        let dir = Arc::clone(&self.dir);
        let look = move || {
            Ok(dir
                .has_folder(path.as_str(), Blocking::Allowed)
                .unwrap_or(true))
        };
        self.lister.threads.spawn(look).await
    }

    /// When something in each of these folders was last made or removed; 1970 of one that is not there.
    pub async fn folder_dates(&self, paths: Vec<String>) -> Result<Vec<SystemTime>, Error> {
        let dir = Arc::clone(&self.dir);
        let date = move |path: &String| {
            let folder = dir.folder(path.trim_end_matches('/'));
            let stat = folder.and_then(rustix::fs::fstat);
            stat.map_or(UNIX_EPOCH, |stat| Meta::of(&stat).modified())
        };
        let look = move || Ok(paths.iter().map(date).collect());
        self.lister.threads.spawn(look).await
    }

    /// Fails where no folder can have the name `path`: it is that of a value, or lies below one.
    pub async fn check_folder(&self, path: Key<'static>) -> Result<(), Error> {
        let dir = Arc::clone(&self.dir);
        let check = move || {
            let found = match dir.folder(path.as_str()) {
                Err(Errno::NOTDIR | Errno::LOOP) => Err(dir.occupied(path.as_str())),
                _ => Ok(()),
            };
            dir.unless_ended(path.as_str(), found)
        };
        self.dir.disk.spawn(check).await
    }

    /// The next of the values that `walk` is of.
    pub async fn next_values(&self, walk: &mut ValueWalk) -> Result<Option<FoundValues>, Error> {
        self.slice(walk, ValueWalk::next).await
    }

    /// Has a listing thread take some steps of a `walk`: listings have their turn in between, and a caller that gives
    /// up waiting ends it.
    async fn slice<T, R>(
        &self,
        walk: &mut T,
        go_on: fn(&mut T, &ValuesDir) -> Result<R, Error>,
    ) -> Result<R, Error>
    where
        T: Default + Send + 'static,
        R: Send + 'static,
    {
        let (dir, mut part) = (Arc::clone(&self.dir), std::mem::take(walk));
        let go_on = move || {
            let went_on = go_on(&mut part, &dir);
            Ok((part, went_on))
        };
        let went_on;
        (*walk, went_on) = self.lister.threads.spawn(go_on).await?;
        went_on
    }

    /// Removes the folder `path` and those below it that have no value, and what in them has ended; notes in `removal`,
    /// of this path, what goes and what stays.
    pub async fn remove_folders(
        &self,
        path: Key<'static>,
        removal: &mut FolderRemoval,
    ) -> Result<(), Error> {
        let publisher = &self.writing()?.publisher;
        if self.dir.ends.is_possible()
            && let Some(error) = self.remove_all(publisher, path.as_str()).await
        {
            return Err(error);
        }
        while !self.slice(removal, FolderRemoval::go_on).await? {}
        let stays = &mut removal.stays;
        let name = format!("{path}/");
        let remove = Change::Folder(FolderChange::Remove);
        match publisher.change(path, remove, None).await {
            Ok(_) => removal.removed += 1,
            Err(Error::Occupied(_)) if stays.count > 0 => {}
            Err(error @ (Error::Occupied(_) | Error::Forbidden { .. })) => {
                stays.add(name, error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Fails where there is no folder `from`, or something has the name `to`. The rename decides: this spares other writers
/// most that it would refuse.
fn may_move(dir: &ValuesDir, from: &Key<'_>, to: &Key<'_>) -> Result<(), Error> {
    dir.location.check()?;
    if matches!(dir.folder(from.as_str()), Err(errno) if is_no_folder(errno)) {
        return Err(Error::NoFolder);
    }
    dir.unless_ended(to.as_str(), is_free(dir, to))
}

/// Fails where something has the name `to`, or no folder can have it.
fn is_free(dir: &ValuesDir, to: &Key<'_>) -> Result<(), Error> {
    let folder = dir.folder(to.folder());
    if matches!(folder, Err(Errno::NOTDIR | Errno::LOOP)) {
        return Err(dir.occupied(to.folder()));
    }
    match folder.and_then(|folder| look_up(&folder, to.name())) {
        Ok(NameKind::Absent) | Err(_) => Ok(()),
        Ok(found) => Err(taken_by(&found)),
    }
}
