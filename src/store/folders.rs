//! Folders of a store: made, counted, moved, and removed with their values.
//!
//! Values go some at a time, so that changes of others have their turn in between. Each goes only if it is still the
//! one that was found: what is stored meanwhile stays. A caller that gives up waiting ends it.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use serde::Serialize;

use super::directory::Directory;
use super::empty_folders::{FolderRemoval, Stays};
use super::engine::Store;
use super::list::{FoundValues, Order, SPARE, ValueWalk};
use super::publish::FolderChange;
use crate::value::{Error, Key, ListedValue, Page, Preconditions, Prefixes, Tags};

/// Values on a page of an S3 store.
const PAGE: usize = 1000;

/// Values that are removed at once from a directory, and from an S3 store.
const AT_ONCE: (usize, usize) = (64, 8);

/// What came of the removal of a folder.
#[derive(Debug, Default, Serialize)]
pub struct RemovedFolder {
    /// Values that went.
    pub removed: u64,
    /// What stays.
    #[serde(flatten)]
    pub stays: Stays,
    /// Values that were met.
    #[serde(skip)]
    pub met: u64,
    /// Folders that went.
    #[serde(skip)]
    pub folders: u64,
    /// The failure that ended it.
    #[serde(skip)]
    pub failure: Option<Error>,
}

/// The values below a folder, as far as they are not found yet.
#[derive(Debug)]
pub struct ValuesBelow {
    /// Of a directory.
    walk: ValueWalk,
    /// The next page of an S3 store.
    page: Option<Page>,
}

impl ValuesBelow {
    /// Those below the folder `path`, in this order.
    pub fn of(path: &Key<'_>, order: Order) -> Self {
        Self::new(&format!("{path}/"), Prefixes::all(), order, SPARE)
    }

    /// Those whose keys begin with `prefix`, which is empty or ends with `/`, and are `within` these, in the order of
    /// their keys: for one who takes them as slowly as a client.
    pub fn for_client(prefix: &str, within: Prefixes) -> Self {
        Self::new(prefix, within, Order::Keys, SPARE / 4)
    }

    fn new(prefix: &str, within: Prefixes, order: Order, spare: usize) -> Self {
        Self {
            walk: ValueWalk::below(prefix.trim_end_matches('/'), within.clone(), order, spare),
            page: Some(Page {
                prefix: prefix.to_owned(),
                limit: PAGE,
                within,
                ..Page::default()
            }),
        }
    }
}

impl Store {
    /// Makes the folder `path`, which stays without a value, and those above it where it comes `with_above`.
    pub async fn make_folder(&self, path: Key<'static>, with_above: bool) -> Result<(), Error> {
        self.folders()?
            .change_folder(path, FolderChange::Make { with_above })
            .await
    }

    /// Removes the folder `path`, which has neither a value nor a folder.
    pub async fn remove_empty_folder(&self, path: Key<'static>) -> Result<(), Error> {
        self.folders()?
            .change_folder(path, FolderChange::Remove)
            .await
    }

    /// Has the folder `path` go with its last value; at once, where it has none.
    pub async fn release_folder(&self, path: Key<'static>) -> Result<(), Error> {
        self.folders()?
            .change_folder(path, FolderChange::Release)
            .await
    }

    /// The directory, which has folders.
    fn folders(&self) -> Result<&Directory, Error> {
        self.directory().ok_or(Error::NotSupported {
            name: "no-folders",
            what: "an S3 store has only keys, and no folder without one: store a value below it",
        })
    }

    /// True if there is a folder `path` without a value too, and where no listing has it: a kill may leave one that
    /// goes with its last value.
    pub async fn has_folder(&self, path: &Key<'static>) -> Result<bool, Error> {
        match self {
            Self::Directory(directory) => directory.has_folder(path.clone()).await,
            Self::S3(_) => Ok(false),
        }
    }

    /// When something in each of these folders, whose names end with `/`, was last made or removed; 1970 of one that is
    /// not there, or not all `within` what is shown.
    pub async fn folder_dates(
        &self,
        paths: Vec<String>,
        within: &Prefixes,
    ) -> Result<Vec<SystemTime>, Error> {
        match self {
            Self::Directory(directory) if !paths.is_empty() => {
                let shown: Vec<_> = paths.iter().map(|path| within.has(path)).collect();
                let dates = directory.folder_dates(paths).await?.into_iter().zip(shown);
                let dates = dates.map(|(date, is_shown)| if is_shown { date } else { UNIX_EPOCH });
                Ok(dates.collect())
            }
            _ => Ok(vec![UNIX_EPOCH; paths.len()]),
        }
    }

    /// Fails where no folder can have the name `path`: it is that of a value, or lies below one.
    pub async fn check_folder(&self, path: &Key<'static>) -> Result<(), Error> {
        match self {
            Self::Directory(directory) => directory.check_folder(path.clone()).await,
            Self::S3(_) => Ok(()),
        }
    }

    /// Fails where no folder can be moved; false where `from` and `to` have other bounds.
    pub fn may_move_folder(&self, from: &Key<'_>, to: &Key<'_>) -> Result<bool, Error> {
        match self {
            Self::Directory(directory) => Ok(directory
                .account()
                .is_none_or(|account| account.holds_alike(from, to))),
            Self::S3(_) => Err(Error::NotSupported {
                name: "folder-move",
                what: "in an S3 store the move of a folder would be copies and removals: COPY it, then DELETE it",
            }),
        }
    }

    /// Gives the folder `from`, with all that is below it, the name `to`, which nothing has.
    pub async fn move_folder(&self, from: Key<'static>, to: Key<'static>) -> Result<(), Error> {
        match self {
            Self::Directory(directory) => directory.move_folder(from, to).await,
            Self::S3(_) => self.may_move_folder(&from, &to).map(drop),
        }
    }

    /// The next of these values; `None` at the end.
    pub async fn next_values(
        &self,
        reactor: usize,
        below: &mut ValuesBelow,
    ) -> Result<Option<FoundValues>, Error> {
        let s3 = match self {
            Self::Directory(directory) => return directory.next_values(&mut below.walk).await,
            Self::S3(s3) => s3,
        };
        let Some(page) = below.page.take() else {
            return Ok(None);
        };
        let listing = s3.gateway(reactor).list(&page).await?;
        below.page = listing.next.map(|after| Page { after, ..page });
        Ok(Some(FoundValues {
            values: listing.keys,
            ..FoundValues::default()
        }))
    }

    /// Removes the values below the folder `path`, the folders below it, and the folder, if it `is_deep`; else it only
    /// counts the values. After some values it asks whether it `may_go_on`. `None` where there is no folder.
    pub async fn remove_folder(
        &self,
        reactor: usize,
        path: Key<'static>,
        is_deep: bool,
        may_go_on: impl Fn() -> bool,
    ) -> Result<Option<RemovedFolder>, Error> {
        let mut removed = RemovedFolder::default();
        let mut is_there = self.has_folder(&path).await?;
        let mut below = ValuesBelow::of(&path, Order::AsRead);
        let is_over = loop {
            let Some(found) = self.next_values(reactor, &mut below).await? else {
                break true;
            };
            is_there |= !found.values.is_empty();
            removed.met += found.values.len() as u64;
            if is_deep {
                let removing = self.remove_values(reactor, &found.values, &mut removed);
                removed.failure = removing.await.err();
            }
            if removed.failure.is_some() || !may_go_on() {
                break false;
            }
        };
        // What comes by that name meanwhile stays: the answer is that there was no folder.
        if let (Self::Directory(directory), true) = (self, is_deep && is_over && is_there) {
            let mut removal = FolderRemoval::below(path.as_str());
            removed.failure = directory.remove_folders(path, &mut removal).await.err();
            removed.folders = removal.removed;
            // Of a value that stays the folders are not told beside it.
            if removed.stays.count == 0 {
                removed.stays = removal.stays;
            }
        }
        Ok(is_there.then_some(removed))
    }

    /// Removes these `values`; fails where the store does, and not a value alone.
    async fn remove_values(
        &self,
        reactor: usize,
        values: &[(Key<'static>, ListedValue)],
        removed: &mut RemovedFolder,
    ) -> Result<(), Error> {
        let at_once = match self {
            Self::Directory(_) => AT_ONCE.0,
            Self::S3(_) => AT_ONCE.1,
        };
        for some in values.chunks(at_once) {
            let remove = |(key, value): &(Key<'static>, ListedValue)| {
                self.delete(reactor, key.clone(), Some(still(value)))
            };
            let outcomes = join_all(some.iter().map(remove)).await;
            let mut failure = Ok(());
            for ((key, _), outcome) in some.iter().zip(outcomes) {
                let reason = match outcome {
                    Ok(went) => {
                        removed.removed += u64::from(went);
                        continue;
                    }
                    Err(Error::Precondition) => "it was stored anew meanwhile".to_owned(),
                    Err(error @ (Error::Forbidden { .. } | Error::Occupied(_))) => {
                        error.to_string()
                    }
                    Err(error) => {
                        failure = Err(error);
                        continue;
                    }
                };
                removed.stays.add(key.as_str().to_owned(), reason);
            }
            failure?;
        }
        Ok(())
    }
}

/// Holds for a value that is still the one listed.
fn still(value: &ListedValue) -> Preconditions {
    Preconditions {
        matching: Tags::of(&[value.validators.etag.as_bytes()]),
        none_matching: None,
        modified_since: None,
        unmodified_since: None,
    }
}
