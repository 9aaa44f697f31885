//! The names of the directory, each with its value if a bound counts it. The index of listings is these names.
//!
//! They are kept by folder, so that a folder that moves takes its names along and none of them is touched. Knows
//! nothing of bounds.

#![expect(
    clippy::zero_sized_map_values,
    reason = "names with a value and without one are visited by one function"
)]

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use super::value::Value;

/// Memory that a name takes beside its bytes, as measured: its part of a node, and the allocator's own.
const OVERHEAD: usize = 52;

/// Names that are visited while the lock is held.
const CHUNK: usize = 1024;

/// Names that no bound counts.
type Uncounted = BTreeMap<Box<str>, ()>;

/// The names of one folder, apart from each other: those that no bound counts take no more memory than a set of them.
#[derive(Debug, Default)]
pub(super) struct Folder {
    uncounted: Uncounted,
    counted: BTreeMap<Box<str>, Arc<Value>>,
}

impl Folder {
    pub fn uncounted(&self) -> &Uncounted {
        &self.uncounted
    }

    pub fn counted(&self) -> &BTreeMap<Box<str>, Arc<Value>> {
        &self.counted
    }

    fn len(&self) -> usize {
        self.uncounted.len() + self.counted.len()
    }

    fn has(&self, name: &str) -> bool {
        self.uncounted.contains_key(name) || self.counted.contains_key(name)
    }

    /// The first name from `from` on.
    fn first_from(&self, from: &str) -> Option<&str> {
        let from = (Included(from), Unbounded);
        let uncounted = self.uncounted.range::<str, _>(from).next();
        let counted = self.counted.range::<str, _>(from).next();
        let names = uncounted.map(|(name, ())| name).into_iter();
        names
            .chain(counted.map(|(name, _)| name))
            .min()
            .map(|name| &**name)
    }
}

/// All names, by the paths of their folders, each with a `/` behind it.
#[derive(Debug, Default)]
pub(super) struct Names {
    folders: BTreeMap<Box<str>, Folder>,
    len: usize,
    bytes: usize,
}

/// The folder of `key`, with a `/` behind it, and its name there.
fn split(key: &str) -> (&str, &str) {
    key.split_at(key.rfind('/').map_or(0, |slash| slash + 1))
}

impl Names {
    /// How many there are, and the memory that they take.
    pub fn size(&self) -> (usize, usize) {
        (self.len, self.bytes)
    }

    /// The value of `key`, if a bound counts it.
    pub fn value(&self, key: &str) -> Option<&Arc<Value>> {
        let (folder, name) = split(key);
        self.folders.get(folder)?.counted.get(name)
    }

    /// Gives `key` this value, if a bound counts it, in place of what was there.
    pub fn insert(&mut self, key: &str, value: Option<Arc<Value>>) {
        let (folder, name) = split(key);
        let names = match self.folders.get_mut(folder) {
            Some(names) => names,
            None => self.folders.entry(folder.into()).or_default(),
        };
        let before = names.len();
        match value {
            Some(value) => drop(names.counted.insert(name.into(), value)),
            None => drop(names.uncounted.insert(name.into(), ())),
        }
        if names.len() > before {
            self.len += 1;
            self.bytes += name.len() + OVERHEAD;
        }
    }

    /// Removes `key`; returns its value, if a bound counted it.
    pub fn remove(&mut self, key: &str) -> Option<Arc<Value>> {
        let (folder, name) = split(key);
        let names = self.folders.get_mut(folder)?;
        let value = names.counted.remove(name);
        if value.is_some() || names.uncounted.remove(name).is_some() {
            self.len -= 1;
            self.bytes -= name.len() + OVERHEAD;
        }
        if names.len() == 0 {
            self.folders.remove(folder);
        }
        value
    }

    /// The first key from `from` on, in the order of bytes.
    pub fn first_from(&self, from: &str) -> Option<String> {
        let above = from.match_indices('/').map(|(slash, _)| &from[..=slash]);
        let at_or_above = std::iter::once("").chain(above).filter_map(|folder| {
            let name = self
                .folders
                .get(folder)?
                .first_from(&from[folder.len()..])?;
            Some([folder, name].concat())
        });
        let mut first = at_or_above.min();
        for (folder, names) in self.folders.range::<str, _>((Included(from), Unbounded)) {
            if first.as_deref().is_some_and(|first| first < &**folder) {
                break;
            }
            let name = names.first_from("").map(|name| [&**folder, name].concat());
            first = first.into_iter().chain(name).min();
        }
        first
    }

    /// True if the folder of `key` has another name, in it or below it.
    pub fn has_beside(&self, key: &str) -> bool {
        let (folder, name) = split(key);
        let is_other = |names: &Folder| names.len() > 1 || !names.has(name);
        let below = (Excluded(folder), Unbounded);
        let mut below = self.folders.range::<str, _>(below).map(|(path, _)| path);
        self.folders.get(folder).is_some_and(is_other)
            || below.next().is_some_and(|path| path.starts_with(folder))
    }

    /// Visits some of the keys of these names that begin with `prefix`, folder by folder, behind the key `after`;
    /// returns the last one, if there may be more.
    pub fn visit_some<V>(
        &self,
        of: fn(&Folder) -> &BTreeMap<Box<str>, V>,
        prefix: &str,
        after: Option<&str>,
        mut visit: impl FnMut(&str, &V),
    ) -> Option<String> {
        let (first, begin) = split(prefix);
        let after = after.map(split);
        let (mut key, mut left) = (String::new(), CHUNK);
        let mut has_more = |folder: &str, names: &Folder, begin: &str| {
            let from = match after {
                Some((last, name)) if last == folder => Excluded(name),
                _ => Included(begin),
            };
            for (name, value) in of(names).range::<str, _>((from, Unbounded)) {
                if !name.starts_with(begin) {
                    break;
                }
                key.clear();
                key.push_str(folder);
                key.push_str(name);
                visit(&key, value);
                left -= 1;
                if left == 0 {
                    return Some(std::mem::take(&mut key));
                }
            }
            None
        };
        if after.is_none_or(|(last, _)| last <= first)
            && let Some(names) = self.folders.get(first)
            && let last @ Some(_) = has_more(first, names, begin)
        {
            return last;
        }
        let from = after.map_or(prefix, |(last, _)| last.max(prefix));
        let folders = self.folders.range::<str, _>((Included(from), Unbounded));
        let below = folders.take_while(|(path, _)| path.starts_with(prefix));
        let mut below = below.filter(|(path, _)| ***path != *first);
        below.find_map(|(path, names)| has_more(path, names, ""))
    }

    /// Gives the folder `from` the name `to`, each with a `/` behind it, with all names below it. Nothing has a name
    /// below `to`.
    pub fn rename(&mut self, from: &str, to: &str) {
        let folders = self.folders.range::<str, _>((Included(from), Unbounded));
        let below = folders.take_while(|(path, _)| path.starts_with(from));
        let moved: Vec<Box<str>> = below.map(|(path, _)| path.clone()).collect();
        for path in moved {
            if let Some(names) = self.folders.remove(&path) {
                let path = [to, &path[from.len()..]].concat();
                self.folders.insert(path.into(), names);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_by_folder_are_those_of_a_sorted_set(
            keys in prop::collection::btree_set("[a-]{1,2}(/[a-]{1,2}){0,3}", 0..40),
            gone in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            (from, prefix) in ("[a/-]{0,6}", "[a-]{0,2}(/[a-]{0,2}){0,3}"),
        ) {
            let (mut names, mut keys): (_, BTreeSet<String>) = (Names::default(), keys);
            for key in &keys {
                names.insert(key, None);
            }
            for at in gone {
                if let Some(key) = keys.iter().nth(at.index(keys.len().max(1))).cloned() {
                    names.remove(&key);
                    keys.remove(&key);
                }
            }
            prop_assert_eq!(names.size().0, keys.len());
            prop_assert_eq!(names.first_from(&from), keys.range(from.clone()..).next().cloned());
            let mut visited = Vec::new();
            let mut after = None;
            loop {
                after = names.visit_some(Folder::uncounted, &prefix, after.as_deref(), |key, ()| visited.push(key.to_owned()));
                if after.is_none() {
                    break;
                }
            }
            let expected: BTreeSet<_> = keys.iter().filter(|key| key.starts_with(&prefix)).cloned().collect();
            prop_assert_eq!(visited.len(), expected.len());
            prop_assert_eq!(visited.into_iter().collect::<BTreeSet<_>>(), expected);
            for key in &keys {
                let folder = split(key).0;
                let has_beside = keys.iter().any(|other| other != key && other.starts_with(folder));
                prop_assert_eq!(names.has_beside(key), has_beside);
            }
        }
    }

    #[test]
    fn a_visit_in_parts_meets_each_name_once() {
        let mut names = Names::default();
        let keys: BTreeSet<String> = (0..3000).map(|n| format!("{}/{n}", n % 3)).collect();
        for key in &keys {
            names.insert(key, None);
        }
        let (mut visited, mut after) = (BTreeSet::new(), None);
        loop {
            let visit = |key: &str, (): &()| assert!(visited.insert(key.to_owned()));
            after = names.visit_some(Folder::uncounted, "", after.as_deref(), visit);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(visited, keys);
        names.rename("1/", "9/x/");
        assert_eq!(names.first_from("2/999").as_deref(), Some("9/x/1"));
        assert_eq!(names.size().0, 3000);
    }
}
