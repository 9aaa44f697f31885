//! The rules of bounds: the keys that each holds for, its limits, and what happens where it has no room.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a value is spared by eviction ahead of need, where the bound does not say it.
pub const MIN_AGE: Duration = Duration::from_secs(3600);

/// One bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The keys that it holds for.
    pub prefix: Prefix,
    /// Bytes of the disk that its values may take.
    pub max_size: Option<u64>,
    /// How many values there may be.
    pub max_keys: Option<u64>,
    /// How long a value is kept, since its last use or since it was written.
    pub max_age: Option<(Duration, AgeOf)>,
    /// What happens to a value for which there is no room.
    pub full: Full,
    /// Eviction ahead of need spares what was used since.
    pub min_age: Duration,
}

/// The moment that the age of a value counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeOf {
    /// Its last use.
    #[default]
    Use,
    /// When it was written.
    Write,
}

/// What happens to a value for which a bound has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Full {
    /// The values used longest ago make room for it.
    #[default]
    Evict,
    /// It is refused.
    Refuse,
}

impl Bound {
    /// True if values make room for others.
    pub fn evicts(&self) -> bool {
        self.full == Full::Evict
    }

    /// True if it removes values by itself.
    pub fn removes(&self) -> bool {
        self.evicts() || self.max_age.is_some()
    }
}

/// The limits, in words.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.max_size.map(bytesize::ByteSize::b);
        let size = size.map(|size| format!("max-size {}", size.display().iec()));
        let keys = self.max_keys.map(|keys| format!("max-keys {keys}"));
        let age = self.max_age.map(|(age, of)| {
            let of = if of == AgeOf::Use { "use" } else { "write" };
            format!("max-age {} of {of}", humantime::format_duration(age))
        });
        let limits: Vec<_> = [size, keys, age].into_iter().flatten().collect();
        f.write_str(&limits.join(", "))
    }
}

/// A number of values, and the bytes that they take.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Total {
    /// Bytes of the disk.
    pub bytes: u64,
    /// Values.
    pub keys: u64,
}

impl Total {
    /// One value that takes so many `bytes`.
    pub fn one(bytes: u64) -> Self {
        Self { bytes, keys: 1 }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            keys: self.keys.saturating_add(other.keys),
        }
    }

    /// With `after` in place of `before`.
    pub fn replaced(self, before: Self, after: Self) -> Self {
        let sum = self.plus(after);
        Self {
            bytes: sum.bytes.saturating_sub(before.bytes),
            keys: sum.keys.saturating_sub(before.keys),
        }
    }

    /// The larger of both, by bytes and by values.
    pub fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            keys: self.keys.max(other.keys),
        }
    }

    /// The smaller of both, by bytes and by values.
    pub fn min(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            keys: self.keys.min(other.keys),
        }
    }

    /// Without `other`, and not below nothing.
    pub fn minus(self, other: Self) -> Self {
        self.replaced(other, Self::default())
    }

    /// The part of what `bound` has room for, in millionths: of the bytes or of the values, whichever is more.
    pub fn part_of(self, bound: &Bound) -> u64 {
        let part = |(taken, max): (u64, Option<u64>)| {
            let part = u128::from(taken) * 1_000_000 / u128::from(max?.max(1));
            Some(u64::try_from(part).unwrap_or(u64::MAX))
        };
        let limits = [(self.bytes, bound.max_size), (self.keys, bound.max_keys)];
        limits.into_iter().filter_map(part).max().unwrap_or(0)
    }

    /// By how much it exceeds what `bound` has room for.
    pub fn beyond(self, bound: &Bound) -> Self {
        self.beyond_part(bound, |max| max)
    }

    /// By how much it exceeds the `part` of what `bound` has room for.
    pub fn beyond_part(self, bound: &Bound, part: impl Fn(u64) -> u64) -> Self {
        let beyond =
            |max: Option<u64>, has: u64| max.map_or(0, |max| has.saturating_sub(part(max)));
        Self {
            bytes: beyond(bound.max_size, self.bytes),
            keys: beyond(bound.max_keys, self.keys),
        }
    }

    /// True of nothing.
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// A span in milliseconds.
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// The keys with this beginning, in words.
pub fn named(scope: &str) -> String {
    if scope.is_empty() {
        "all values".to_owned()
    } else {
        format!("{scope:?}")
    }
}

/// The keys that a bound holds for: those with one beginning, or those with one of the form `before{name}/after`, where
/// each name has a bound of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    before: Box<str>,
    /// What comes after the name, if there is a name.
    after: Option<Box<str>>,
}

impl Prefix {
    /// What stands for the name in the text of a prefix.
    pub const NAME: &str = "{name}";

    /// The prefix that `text` is; why it is none.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        if text.contains(|c: char| c.is_control() || c == '"' || c == '\\') {
            return Err("a prefix has no quotes, backslashes or control characters");
        }
        let Some((before, after)) = text.split_once(Self::NAME) else {
            return Ok(Self {
                before: text.into(),
                after: None,
            });
        };
        let is_segment = (before.is_empty() || before.ends_with('/')) && after.starts_with('/');
        if !is_segment || after.contains(Self::NAME) {
            return Err("{name} stands once, for a whole segment: as in home/{name}/");
        }
        Ok(Self {
            before: before.into(),
            after: Some(after.into()),
        })
    }

    /// The beginning of `key` that it is counted by, if the bound holds for it.
    pub fn scope<'k>(&self, key: &'k str) -> Option<&'k str> {
        // Most bounds hold for all keys: of those no bytes are compared.
        let rest = match &*self.before {
            "" => key,
            before => key.strip_prefix(before)?,
        };
        let Some(after) = &self.after else {
            return Some(&key[..self.before.len()]);
        };
        let name = rest.find('/').filter(|&len| len > 0)?;
        let len = self.before.len() + name + after.len();
        rest[name..].starts_with(&**after).then(|| &key[..len])
    }

    /// True if it may hold for some keys below `folder`, which ends with `/`, and not for others.
    pub fn is_of_part(&self, folder: &str) -> bool {
        if self.before.starts_with(folder) {
            return self.scope(folder).is_none();
        }
        let (Some(after), Some(rest)) = (&self.after, folder.strip_prefix(&*self.before)) else {
            return false;
        };
        // What follows the name in `folder` and is not yet all of what follows it in the prefix.
        let behind = rest.find('/').map_or("", |name| &rest[name..]);
        behind.len() < after.len() && after.starts_with(behind)
    }

    /// True if each name has a bound of its own.
    pub fn is_of_names(&self) -> bool {
        self.after.is_some()
    }

    /// The beginning that all its keys have.
    pub fn common(&self) -> &str {
        &self.before
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.before)?;
        match &self.after {
            Some(after) => write!(f, "{}{after}", Self::NAME),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_names_keys_and_the_scope_that_each_counts_by() {
        let scope = |prefix: &str, key| Prefix::new(prefix).unwrap().scope(key).map(str::to_owned);
        for (prefix, key, expected) in [
            ("", "a/b", Some("")),
            ("a", "abc", Some("a")),
            ("a/", "abc", None),
            ("{name}/", "ann/x/y", Some("ann/")),
            ("{name}/", "ann", None),
            ("home/{name}/", "home/ann/x", Some("home/ann/")),
            ("home/{name}/", "home//x", None),
            ("home/{name}/tmp/", "home/ann/tmp/x", Some("home/ann/tmp/")),
            ("home/{name}/tmp/", "home/ann/x", None),
        ] {
            assert_eq!(scope(prefix, key).as_deref(), expected, "{prefix} {key}");
        }
        for (prefix, folder, expected) in [
            ("", "a/", false),
            ("a/b", "a/", true),
            ("a/", "a/", false),
            ("a/", "a/b/", false),
            ("a/", "b/", false),
            ("{name}/", "ann/", false),
            ("home/{name}/", "home/", true),
            ("home/{name}/", "home/ann/", false),
            ("{name}/cache/", "ann/", true),
            ("{name}/cache/", "ann/docs/", false),
            ("{name}/cache/", "ann/cache/", false),
            ("{name}/cache/", "ann/cache/x/", false),
            ("home/{name}/a/b", "home/ann/a/", true),
            ("home/{name}/a/b", "home/ann/b/", false),
        ] {
            let is_of_part = Prefix::new(prefix).unwrap().is_of_part(folder);
            assert_eq!(is_of_part, expected, "{prefix} {folder}");
        }
        for bad in ["a{name}/", "{name}", "{name}/{name}/", "{name}a/"] {
            assert!(Prefix::new(bad).is_err(), "{bad}");
        }
    }
}
