//! A page of a listing: what is asked for, and the answer.
//!
//! A page has items: keys, or, with [`Page::by_folder`], a folder in place of all keys below it. An item is on a page
//! by its own text alone, so that pages give each item once, whatever comes and goes between them.

use super::key::{Key, Prefixes, above};
use super::{Meta, Validators};
use std::time::SystemTime;

/// A request for a page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Page {
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only items after this one in byte order.
    pub after: String,
    /// The most items. With 0 the page is empty, and only `next` says whether there is an item.
    pub limit: usize,
    /// Keys that have a `/` behind the prefix are answered as what they have in common up to the first one.
    pub by_folder: bool,
    /// Folders that stay without a value count too, as if each were a key that ends with `/`.
    pub folders: bool,
    /// Only these keys: for the client there are no others.
    pub within: Prefixes,
}

/// A part of a page, of which all keys may be seen.
struct VisiblePart {
    page: Page,
    /// The item that stands for all keys of this part, if there is one.
    folder: Option<String>,
}

impl Page {
    /// The visible parts of this page, in the order of its items. A folder may come several times, once for each prefix
    /// in it.
    fn parts(&self) -> Vec<VisiblePart> {
        let all = |prefix: &str| Self {
            prefix: prefix.to_owned(),
            within: Prefixes::all(),
            ..self.clone()
        };
        if self.within.has(&self.prefix) {
            let page = all(&self.prefix);
            return vec![VisiblePart { page, folder: None }];
        }
        let part = |prefix| {
            let Some(folder) = self.common(prefix) else {
                let has_more = prefix > self.after.as_str() || self.after.starts_with(prefix);
                let page = has_more.then(|| all(prefix))?;
                return Some(VisiblePart { page, folder: None });
            };
            let one = Self {
                after: String::new(),
                limit: 0,
                by_folder: false,
                folders: self.folders,
                ..all(prefix)
            };
            self.has(folder).then(|| VisiblePart {
                page: one,
                folder: Some(folder.to_owned()),
            })
        };
        self.within.below(&self.prefix).filter_map(part).collect()
    }

    /// The `limit + 1` smallest visible items of this page, none of them found yet.
    pub fn visible<T>(&self) -> Visible<'_, T> {
        Visible {
            page: self,
            parts: self.parts().into_iter(),
            folder: None,
            found: Vec::new(),
        }
    }

    /// The item that `key`, which begins with the prefix, is on this page: itself, or a part of it that ends with `/`.
    pub fn item<'k>(&self, key: &'k str) -> &'k str {
        self.common(key).unwrap_or(key)
    }

    /// The item that the folder `name`, which stays and ends with `/`, is on this page, if it counts. A folder is no
    /// item of its own page.
    pub fn item_of_folder<'k>(&self, name: &'k str) -> Option<&'k str> {
        let item = if self.by_folder {
            self.common(name)
        } else {
            Some(name)
        };
        item.filter(|item| self.folders && self.has(item))
    }

    /// True when `item` is asked for.
    pub fn has(&self, item: &str) -> bool {
        item.starts_with(&self.prefix) && item > self.after.as_str()
    }

    /// The item of all keys that begin with `start`, if that is a part of it that ends with `/`.
    pub fn common<'k>(&self, start: &'k str) -> Option<&'k str> {
        if !self.by_folder {
            return None;
        }
        let slash = start.get(self.prefix.len()..)?.find('/')?;
        start.get(..=self.prefix.len() + slash)
    }

    /// True when keys that begin with `below`, which ends with `/`, may be on this page.
    pub fn may_have_below(&self, below: &str) -> bool {
        if !below.starts_with(&self.prefix) {
            return self.prefix.starts_with(below);
        }
        match self.common(below) {
            Some(item) => self.has(item),
            None => self.has(below) || self.after.starts_with(below),
        }
    }

    /// The folder that all keys of the page lie in or below: the prefix up to its last `/`.
    pub fn folder(&self) -> &str {
        above(&self.prefix)
    }
}

/// The visible items of a page, found part by part: [`Visible::next`] gives the page to look for, and [`Visible::add`]
/// takes its items. Each part is asked for once at most, and none once there are enough.
pub struct Visible<'p, T> {
    page: &'p Page,
    parts: std::vec::IntoIter<VisiblePart>,
    /// The folder that the part asked for last is about.
    folder: Option<String>,
    /// The items, in order.
    pub found: Vec<T>,
}

impl<T: AsRef<str> + From<String>> Visible<'_, T> {
    /// The next page to look for, all of which may be seen.
    pub fn next(&mut self) -> Option<Page> {
        let room = self.page.limit.checked_sub(self.found.len())?;
        let last = self.found.last().map(T::as_ref);
        let is_missing =
            |part: &VisiblePart| part.folder.is_none() || part.folder.as_deref() != last;
        let VisiblePart { mut page, folder } = self.parts.find(is_missing)?;
        self.folder = folder;
        page.limit = page.limit.min(room);
        Some(page)
    }

    /// Takes the smallest items of the page that was asked for last.
    pub fn add(&mut self, items: Vec<T>) {
        match self.folder.take() {
            None => self.found.extend(items),
            Some(_) if items.is_empty() => {}
            Some(folder) => self.found.push(folder.into()),
        }
    }
}

/// A value as a listing shows it.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedValue {
    /// Its length in bytes.
    pub len: u64,
    /// Its entity tag, and when it was written.
    pub validators: Validators,
    /// The second since 1970 from which on it is absent, if it has an end.
    pub end: Option<u64>,
    /// Its date, where that is kept with it.
    pub date: Option<SystemTime>,
}

impl ListedValue {
    /// The value with this `meta`.
    pub fn of(meta: Meta) -> Self {
        Self {
            len: meta.len,
            validators: meta.into(),
            end: meta.end(),
            date: None,
        }
    }

    /// The date of the value for people: without one of its own, when it was written.
    pub fn date(&self) -> SystemTime {
        self.date.unwrap_or(self.validators.modified)
    }
}

/// A page of keys.
#[derive(Debug)]
pub struct Listing {
    /// In byte order.
    pub keys: Vec<(Key<'static>, ListedValue)>,
    /// Folders that stand for their keys, in byte order: each ends with `/`.
    pub folders: Vec<String>,
    /// When there are more: the last item of this page, after which the next begins.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The `limit + 1` smallest items of `page` among `keys`, whichever may be seen.
    fn smallest(keys: &BTreeSet<String>, page: &Page) -> Vec<String> {
        let keys = keys.iter().filter(|key| key.starts_with(&page.prefix));
        let items: BTreeSet<&str> = keys.map(|key| page.item(key)).collect();
        let items = items.into_iter().filter(|item| page.has(item));
        items.take(page.limit + 1).map(str::to_owned).collect()
    }

    const TEXT: &str = "[ab0/-]{0,4}";

    proptest! {
        #[test]
        fn the_parts_of_a_page_have_what_may_be_seen_in_order(
            keys in prop::collection::btree_set("[ab0-](/?[ab0-]){0,4}", 0..20),
            prefixes in prop::collection::vec(TEXT, 0..4),
            (prefix, after) in (TEXT, TEXT),
            (limit, by_folder) in (0_usize..5, any::<bool>()),
        ) {
            let folders = false;
            let within = Prefixes::new(prefixes.iter().map(String::as_str));
            let seen = keys.iter().filter(|key| within.has(key)).cloned().collect();
            let page = Page { prefix, after, limit, by_folder, folders, within };
            let mut visible = page.visible();
            while let Some(part) = visible.next() {
                visible.add(smallest(&keys, &part));
            }
            prop_assert_eq!(visible.found, smallest(&seen, &page));
        }
    }
}
