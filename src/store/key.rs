//! A key: the name of one value, and of its file.
//!
//! Owns the rule of what a key may be. A [`Key`] is valid once built, so nothing behind it checks again. It decodes
//! nothing: percent-encoding belongs to HTTP.

use std::borrow::Cow;
use std::fmt;

/// The longest key, in bytes: the longest file name of every file system in use (`NAME_MAX`).
pub const MAX_LEN: usize = 255;

/// Names that begin so are the server's own.
pub const RESERVED: &str = ".data-server";

/// The name of a value: 1 to 255 bytes of UTF-8 that are also the name of its file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a>(Cow<'a, str>);

/// Why a name is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The empty name.
    #[error("a key has at least one byte")]
    Empty,
    /// More than [`MAX_LEN`] bytes.
    #[error("a key has at most {MAX_LEN} bytes")]
    TooLong,
    /// Not UTF-8.
    #[error("a key is UTF-8")]
    NotUtf8,
    /// `/` or NUL, which no file name can hold.
    #[error("a key holds neither '/' nor NUL")]
    ForbiddenByte,
    /// `.` or `..`, which name directories.
    #[error("'.' and '..' are not keys")]
    Dots,
    /// Begins with [`RESERVED`].
    #[error("names that begin with '{RESERVED}' are the server's own")]
    Reserved,
}

impl<'a> Key<'a> {
    /// Checks `name`, as it would stand in the directory.
    pub fn new(name: impl Into<Cow<'a, str>>) -> Result<Self, BadKey> {
        let name = name.into();
        check(&name)?;
        Ok(Self(name))
    }

    /// As [`Key::new`], for a name that may not be UTF-8.
    pub fn from_bytes(name: Cow<'a, [u8]>) -> Result<Self, BadKey> {
        let name = match name {
            Cow::Borrowed(bytes) => {
                Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| BadKey::NotUtf8)?)
            }
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| BadKey::NotUtf8)?),
        };
        Self::new(name)
    }

    /// The key as text: the file's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same key, borrowing nothing.
    pub fn into_owned(self) -> Key<'static> {
        Key(Cow::Owned(self.0.into_owned()))
    }

    /// A copy that borrows nothing.
    pub fn to_owned(&self) -> Key<'static> {
        Key(Cow::Owned(self.0.to_string()))
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(name: &str) -> Result<(), BadKey> {
    if name.is_empty() {
        Err(BadKey::Empty)
    } else if name.len() > MAX_LEN {
        Err(BadKey::TooLong)
    } else if name.bytes().any(|b| b == b'/' || b == 0) {
        Err(BadKey::ForbiddenByte)
    } else if name == "." || name == ".." {
        Err(BadKey::Dots)
    } else if name.starts_with(RESERVED) {
        Err(BadKey::Reserved)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rules_of_the_contract() {
        for good in [
            "a",
            "...",
            ".hidden",
            "data-server",
            "ключ",
            "a b",
            "a+b",
            "%2F",
            "-",
            "\u{7f}",
            "\n",
        ] {
            assert!(Key::new(good).is_ok(), "{good:?}");
        }
        for (bad, why) in [
            ("", BadKey::Empty),
            (".", BadKey::Dots),
            ("..", BadKey::Dots),
            ("a/b", BadKey::ForbiddenByte),
            ("/", BadKey::ForbiddenByte),
            ("a\0", BadKey::ForbiddenByte),
            (".data-server", BadKey::Reserved),
            (".data-server2", BadKey::Reserved),
        ] {
            assert_eq!(Key::new(bad), Err(why), "{bad:?}");
        }
        assert_eq!(
            Key::from_bytes(Cow::Borrowed(b"\xff")),
            Err(BadKey::NotUtf8)
        );
        assert!(Key::new("x".repeat(MAX_LEN)).is_ok());
        assert_eq!(Key::new("x".repeat(MAX_LEN + 1)), Err(BadKey::TooLong));
    }

    proptest! {
        #[test]
        fn a_key_is_one_path_component_and_stays_as_given(name in ".{0,300}") {
            if let Ok(key) = Key::new(name.as_str()) {
                prop_assert_eq!(key.as_str(), &name);
                let mut parts = std::path::Path::new(key.as_str()).components();
                prop_assert!(matches!(parts.next(), Some(std::path::Component::Normal(n)) if n == name.as_str()));
                prop_assert!(parts.next().is_none());
            }
        }
    }
}
