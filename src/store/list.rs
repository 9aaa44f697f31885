//! Listing: one page of the keys, in byte order, in memory bounded by the page.
//!
//! Walks the whole directory for each page and keeps only the page's smallest names, so a million keys cost time but
//! no memory. What comes or goes during the walk may be in the page or not; on tmpfs that holds for a value that is
//! replaced meanwhile as well, whose name gets a new place in the directory. The walk blocks: it runs on a disk thread.

use std::collections::BTreeSet;

use rustix::fs::{Dir, FileType};
use rustix::io::{Errno, retry_on_intr};

use super::error::Error;
use super::key::Key;
use super::names::{Entry, Names};
use super::object::Meta;

/// Which keys are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only keys after this one in byte order.
    pub after: String,
    /// At most so many.
    pub limit: usize,
}

/// A page of keys.
#[derive(Debug)]
pub struct Listing {
    /// In byte order.
    pub keys: Vec<(Key<'static>, Meta)>,
    /// When there are more: the last name of this page, after which the next begins.
    pub next: Option<String>,
}

/// Lists `page` of the directory.
pub(super) fn list(names: &Names, page: &Page) -> Result<Listing, Error> {
    let smallest = retry_on_intr(|| smallest_names(names, page));
    let mut smallest = smallest.map_err(Error::while_("list"))?;
    let more = smallest.len() > page.limit;
    smallest.truncate(page.limit);
    let next = smallest.last().filter(|_| more).cloned();
    let mut keys = Vec::with_capacity(smallest.len());
    for name in smallest {
        let Ok(key) = Key::new(name) else { continue };
        if let Entry::Value(meta) = names.look_up(&key).map_err(Error::while_("look up"))? {
            keys.push((key, meta));
        }
    }
    Ok(Listing { keys, next })
}

/// The `limit + 1` smallest names of the page.
fn smallest_names(names: &Names, page: &Page) -> Result<Vec<String>, Errno> {
    let mut smallest = BTreeSet::new();
    for entry in Dir::read_from(names.root())? {
        let entry = entry?;
        if !matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown) {
            continue;
        }
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if !name.starts_with(&page.prefix) || name <= page.after.as_str() || Key::new(name).is_err()
        {
            continue;
        }
        // A set, as a name that is renamed over during the walk may be met twice.
        if smallest.len() <= page.limit {
            smallest.insert(name.to_owned());
        } else if smallest
            .last()
            .is_some_and(|largest: &String| name < largest.as_str())
        {
            smallest.insert(name.to_owned());
            if smallest.len() > page.limit + 1 {
                smallest.pop_last();
            }
        }
    }
    Ok(smallest.into_iter().collect())
}
