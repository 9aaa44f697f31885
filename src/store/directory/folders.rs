//! Folders of a directory as things of their own: made to stay without a value, and removed with all folders below them.
//!
//! The publisher makes and removes the folder itself, in order with all changes of values, and syncs its name where that is promised. The
//! folders below it are removed beside the publisher, which makes anew what a value needs. Values are not removed here.

use std::sync::Arc;

use super::Directory;
use crate::store::empty_folders::{Stayed, remove_below};
use crate::store::publish::FolderChange;
use crate::value::{Error, Key};

impl Directory {
    /// Makes the folder `path`, which stays without a value.
    pub async fn make_folder(&self, path: Key<'static>) -> Result<(), Error> {
        let writing = self.writing()?;
        let made = writing.publisher.change_folder(path, FolderChange::Make);
        writing.writer.note(made.await)
    }

    /// Removes the folder `path` and those below it that have no value, and what in them has ended; answers what stays.
    pub async fn remove_folders(&self, path: Key<'static>) -> Result<Vec<Stayed>, Error> {
        let publisher = &self.writing()?.publisher;
        if self.dir.ends.is_possible()
            && let Some(error) = self.remove_all(publisher, path.as_str()).await
        {
            return Err(error);
        }
        let (dir, top) = (Arc::clone(&self.dir), path.clone());
        let remove = move || {
            let mut stayed = Vec::new();
            remove_below(&dir, top.as_str(), &mut stayed).map(|()| stayed)
        };
        let mut stayed = self.lister.threads.spawn(remove).await?;
        let name = format!("{path}/");
        match publisher.change_folder(path, FolderChange::Remove).await {
            Err(Error::Occupied(_)) if !stayed.is_empty() => {}
            Err(error @ (Error::Occupied(_) | Error::Forbidden { .. })) => {
                let reason = error.to_string();
                stayed.push(Stayed { name, reason });
            }
            removed => removed?,
        }
        Ok(stayed)
    }
}
