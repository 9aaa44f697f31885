//! From the path of a request to what it names: a key, or one of the server's own pages.
//!
//! Pure functions. A key is one segment and a page has two, `/-/name`, so that neither can ever be taken for the other.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::admin::Page;
use super::refusal::Refusal;
use super::rules::Scope;
use crate::store::Key;

/// Where changes are told.
pub(super) const WATCH: &str = "/-/watch";

/// The page that `path` names on a listener for this, if there is one.
pub(super) fn page(path: &str, scope: Scope) -> Option<Page> {
    match (scope, path) {
        (Scope::Values, _) => None,
        (Scope::Pages, "/") => Some(Page::Index),
        _ => Page::named(path.strip_prefix("/-/")?),
    }
}

/// The key that `path` names: its one segment, percent-decoded once.
pub(super) fn key(path: &str) -> Result<Key<'_>, Refusal> {
    let segment = path.strip_prefix('/').unwrap_or(path);
    if segment.is_empty() || segment.contains('/') {
        return Err(Refusal::NoSuchPath);
    }
    if !segment.contains('%') {
        return Ok(Key::new(segment)?);
    }
    if has_bad_escape(segment) {
        return Err(Refusal::BadEscape);
    }
    let decoded: Cow<'_, [u8]> = percent_decode_str(segment).into();
    Ok(Key::from_bytes(decoded)?)
}

/// Whether a `%` is not followed by two hexadecimal digits.
pub(super) fn has_bad_escape(segment: &str) -> bool {
    let is_hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
    let bytes = segment.as_bytes();
    let bad = |(i, &b): (usize, &u8)| {
        b == b'%' && !(is_hex(bytes.get(i + 1)) && is_hex(bytes.get(i + 2)))
    };
    bytes.iter().enumerate().any(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;

    #[test]
    fn a_path_is_decoded_once_and_strictly() {
        for (path, name) in [
            ("/a", "a"),
            ("/a%20b", "a b"),
            ("/a+b", "a+b"),
            ("/%252e%252e", "%2e%2e"),
            ("/...", "..."),
        ] {
            assert_eq!(key(path).unwrap().as_str(), name, "{path}");
        }
        for path in ["/%", "/%2", "/%zz", "/a%+1", "/%2%"] {
            assert_eq!(key(path), Err(Refusal::BadEscape), "{path}");
        }
        for path in ["/", "", "/a/b", "/a/", "//a", "//"] {
            assert_eq!(key(path), Err(Refusal::NoSuchPath), "{path}");
        }
        for path in [
            "/%2e%2E",
            "/.",
            "/%2F",
            "/a%00",
            "/%ff",
            "/%c0%ae",
            "/.data%2Dserver",
        ] {
            assert!(matches!(key(path), Err(Refusal::BadKey(_))), "{path}");
        }
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(name in ".{1,80}") {
            let path = format!("/{}", utf8_percent_encode(&name, NON_ALPHANUMERIC));
            prop_assert_eq!(key(&path), Key::new(name).map_err(Refusal::from));
        }

        #[test]
        fn no_path_panics_or_names_more_than_one_segment(path in "/[ -~]{0,40}") {
            if let Ok(key) = key(&path) {
                prop_assert!(!key.as_str().contains('/'));
            }
        }
    }
}
