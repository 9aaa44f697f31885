//! A set of keys, as the prefixes that they begin with.
//!
//! Pure. Promises that looking a key up takes one binary search, however many prefixes there are.

use std::sync::Arc;

/// Keys that begin with one of some prefixes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefixes(
    /// In byte order, none of them the beginning of another.
    Arc<[Box<str>]>,
);

impl Prefixes {
    /// The keys that begin with one of `prefixes`; the empty one is the beginning of all.
    pub fn new<'p>(prefixes: impl IntoIterator<Item = &'p str>) -> Self {
        let mut sorted: Vec<&str> = prefixes.into_iter().collect();
        sorted.sort_unstable();
        // What begins with a prefix stands right behind it.
        sorted.dedup_by(|later, kept| later.starts_with(*kept));
        Self(sorted.into_iter().map(Box::from).collect())
    }

    /// All keys.
    pub fn all() -> Self {
        Self::new([""])
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has every key.
    pub fn is_all(&self) -> bool {
        self.0.first().is_some_and(|prefix| prefix.is_empty())
    }

    /// Whether it has `key`.
    pub fn has(&self, key: &str) -> bool {
        let at = self.0.partition_point(|prefix| **prefix <= *key);
        at > 0 && key.starts_with(&*self.0[at - 1])
    }

    /// Whether it may have keys that begin with `start`.
    pub fn may_have_below(&self, start: &str) -> bool {
        let at = self.0.partition_point(|prefix| **prefix < *start);
        self.has(start)
            || self
                .0
                .get(at)
                .is_some_and(|prefix| prefix.starts_with(start))
    }

    /// Those of its prefixes that begin with `start`, in byte order.
    pub fn below<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.0.partition_point(|prefix| **prefix < *start);
        let below = self.0[from..].iter().map(|prefix| &**prefix);
        below.take_while(move |prefix| prefix.starts_with(start))
    }

    /// Its prefixes, in byte order; none is the beginning of another.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|prefix| &**prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_is_in_the_set_when_it_begins_with_a_prefix(
            given in prop::collection::vec("[ab/]{0,4}", 0..6),
            key in "[ab/]{0,6}",
        ) {
            let set = Prefixes::new(given.iter().map(String::as_str));
            let has = |key: &str| given.iter().any(|prefix| key.starts_with(prefix.as_str()));
            prop_assert_eq!(set.has(&key), has(&key));
            let meets = has(&key) || given.iter().any(|prefix| prefix.starts_with(&key));
            prop_assert_eq!(set.may_have_below(&key), meets);
            prop_assert_eq!(set.is_all(), has(""));
            prop_assert_eq!(set.is_empty(), given.is_empty());
            let below: Vec<_> = set.iter().filter(|prefix| prefix.starts_with(&key)).collect();
            prop_assert_eq!(set.below(&key).collect::<Vec<_>>(), below);
            let kept: Vec<_> = set.iter().collect();
            prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1] && !pair[1].starts_with(pair[0])));
        }
    }
}
