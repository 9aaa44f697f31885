//! The rights that a request needs, as the operations say them. The guard decides by these, and `access explain` prints
//! them.

use std::borrow::Cow;

use crate::access::Right;

/// A need of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// A right to the key of this name, or to all keys that there can be below a folder, whose name ends with `/`.
    All(Right, Cow<'a, str>),
    /// A right to any key with this prefix.
    Any(Right, Cow<'a, str>),
    /// The right to write this key, or to create it where it has no value.
    Store(Cow<'a, str>),
}

impl<'a> Need<'a> {
    /// The need of a right to this key, or to all keys below this folder.
    pub fn all(right: Right, of: &'a str) -> Self {
        Self::All(right, Cow::Borrowed(of))
    }

    /// The need of a right to any key with this prefix.
    pub fn any(right: Right, prefix: &'a str) -> Self {
        Self::Any(right, Cow::Borrowed(prefix))
    }

    /// The need of a right to all keys that there can be below the folder of this name.
    pub fn below(right: Right, folder: &str) -> Self {
        Self::All(right, Cow::Owned(format!("{folder}/")))
    }

    /// The needs of the removal of the folder of this name: its answer has names and numbers.
    pub fn removal(folder: &str) -> [Self; 2] {
        [Right::Delete, Right::List].map(|right| Self::below(right, folder))
    }

    /// The needs of a copy of the folder of this name to another.
    pub fn copy(from: &str, to: &str) -> [Self; 2] {
        let to = Self::Any(Right::Create, Cow::Owned(format!("{to}/")));
        [Self::below(Right::List, from), to]
    }

    /// The same, whatever it was made of.
    pub fn into_owned(self) -> Need<'static> {
        let owned = |of: Cow<'_, str>| Cow::Owned(of.into_owned());
        match self {
            Self::All(right, of) => Need::All(right, owned(of)),
            Self::Any(right, of) => Need::Any(right, owned(of)),
            Self::Store(of) => Need::Store(owned(of)),
        }
    }
}
