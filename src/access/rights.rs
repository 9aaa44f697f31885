//! What may be done, and to which keys.
//!
//! Rights add up: nothing is allowed that no rule allows, and no rule takes back what another one gives.

use crate::value::Prefixes;

/// What a request needs to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Read a value.
    Read,
    /// Store a value under a key that has none.
    Create,
    /// Store a value, also in place of another one.
    Write,
    /// Remove a value.
    Delete,
    /// See the key in listings.
    List,
    /// Be told of changes of the key.
    Watch,
    /// Make signed links to the key.
    Link,
    /// Read the server's metrics. It concerns no key.
    Metrics,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Create,
        Self::Write,
        Self::Delete,
        Self::List,
        Self::Watch,
        Self::Link,
        Self::Metrics,
    ];

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Link => "link",
            Self::Metrics => "metrics",
        }
    }

    /// The right of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }
}

/// Some of the rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RightSet(u8);

impl RightSet {
    /// Whether it has `right`.
    pub fn has(self, right: Right) -> bool {
        self.0 & bit(right) != 0
    }
}

impl FromIterator<Right> for RightSet {
    /// Who may write may create.
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        let all = rights.into_iter().fold(0, |all, right| all | bit(right));
        let implied = if all & bit(Right::Write) == 0 {
            0
        } else {
            bit(Right::Create)
        };
        Self(all | implied)
    }
}

fn bit(right: Right) -> u8 {
    1 << right as u8
}

/// What one subject may do: for each right, the keys that it holds for.
#[derive(Clone, Debug)]
pub struct Grant([Prefixes; Right::ALL.len()]);

impl Grant {
    /// Of rules, each a prefix of keys and the rights that hold there.
    pub fn new(rules: &[(&str, RightSet)]) -> Self {
        Self(Right::ALL.map(|right| {
            let rules = rules.iter().filter(|(_, rights)| rights.has(right));
            Prefixes::new(rules.map(|&(prefix, _)| prefix))
        }))
    }

    /// Every right to every key.
    pub fn all() -> Self {
        Self(Right::ALL.map(|_| Prefixes::all()))
    }

    /// Whether `right` holds for `key`.
    pub fn allows(&self, right: Right, key: &str) -> bool {
        self.keys(right).has(key)
    }

    /// The keys that `right` holds for.
    pub fn keys(&self, right: Right) -> &Prefixes {
        &self.0[right as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_has_a_name_and_a_place() {
        for right in Right::ALL {
            assert_eq!(Right::named(right.name()), Some(right));
            let one = RightSet::from_iter([right]);
            for other in Right::ALL {
                let implied = right == Right::Write && other == Right::Create;
                assert_eq!(
                    one.has(other),
                    other == right || implied,
                    "{right:?} {other:?}"
                );
            }
        }
        assert_eq!(Right::named("Read"), None);
    }

    #[test]
    fn rights_add_up_and_hold_for_their_prefixes_alone() {
        let rules = [
            ("a/", RightSet::from_iter([Right::Read])),
            ("a/b/", RightSet::from_iter([Right::Write])),
        ];
        let grant = Grant::new(&rules);
        assert!(grant.allows(Right::Read, "a/x"));
        assert!(grant.allows(Right::Read, "a/b/x"));
        assert!(grant.allows(Right::Create, "a/b/x"));
        assert!(!grant.allows(Right::Write, "a/x"));
        assert!(!grant.allows(Right::Read, "b"));
        assert!(!grant.allows(Right::Delete, "a/b/x"));
    }
}
