//! The items of a page, found by a walk: in memory for those alone, and in no folder that cannot have one.

use std::collections::BTreeSet;

use super::walk::{Go, Met, Order, Walk};
use crate::store::directory_fd::ValuesDir;
use crate::store::implicit::is_implicit;
use crate::value::{Error, Page, may_have_keys};

/// The `limit + 1` smallest items of `page`, or any one with a limit of 0; `None` if more than `most` names are met on
/// the way to them.
pub fn smallest(
    dir: &ValuesDir,
    page: &Page,
    most: usize,
    is_wanted: &dyn Fn() -> Result<(), Error>,
) -> Result<Option<Vec<String>>, Error> {
    let folder = page.folder();
    if !folder.is_empty() && !may_have_keys(folder) {
        return Ok(Some(Vec::new()));
    }
    let found = BTreeSet::new();
    let (mut search, mut left) = (Search { page, found }, most);
    let mut walk = Walk::below(folder, Order::AsRead);
    // Ended by an error, or by `None`: there are too many names.
    let walked = walk.go_on(dir, usize::MAX, |met| {
        if matches!(met, Met::Value(_) | Met::Folder(_)) {
            left = left.checked_sub(1).ok_or(None)?;
        }
        let may_add = match met {
            Met::Folder(path) => search.may_take(&format!("{path}/")),
            Met::Value(key) => {
                let item = page.item(key.as_str());
                if page.has(item) {
                    search.offer(item);
                }
                !search.has_all_of(key.as_str())
            }
            Met::Opened(folder, path) if !path.is_empty() => {
                let name = format!("{path}/");
                match page.item_of_folder(&name).filter(|_| !is_implicit(folder)) {
                    Some(item) => {
                        search.offer(item);
                        !search.has_all_of(&name)
                    }
                    None => true,
                }
            }
            Met::Pause => {
                is_wanted()?;
                true
            }
            _ => true,
        };
        Ok(if may_add { Go::On } else { Go::Past })
    });
    match walked {
        Ok(_) => Ok(Some(search.found.into_iter().collect())),
        Err(None) => Ok(None),
        Err(Some(error)) => Err(error),
    }
}

/// The smallest items of a page among those that were met.
struct Search<'p> {
    page: &'p Page,
    /// A set, as a name that is renamed over during the walk may be met twice.
    found: BTreeSet<String>,
}

impl Search<'_> {
    fn offer(&mut self, item: &str) {
        if self.is_beyond(item) {
            return;
        }
        if self.found.insert(item.to_owned()) && self.found.len() > self.page.limit + 1 {
            self.found.pop_last();
        }
    }

    /// True if the page only asks whether there is an item, and there is.
    fn has_one(&self) -> bool {
        self.page.limit == 0 && !self.found.is_empty()
    }

    /// True if nothing in the folder of `name`, which was offered, adds an item.
    fn has_all_of(&self, name: &str) -> bool {
        self.has_one() || self.page.common(name).is_some()
    }

    /// True if keys that begin with `below` may add an item.
    fn may_take(&self, below: &str) -> bool {
        let is_found = |item| self.found.contains(item);
        self.page.may_have_below(below)
            && !self.has_one()
            && !self.is_beyond(below)
            && !self.page.common(below).is_some_and(is_found)
    }

    /// True if enough items before `item` are found.
    fn is_beyond(&self, item: &str) -> bool {
        let is_full = self.found.len() > self.page.limit;
        is_full && self.found.last().is_some_and(|last| item > last.as_str())
    }
}
