//! From the path of a request to what it names: a key, or one of the server's own pages.
//!
//! Pure functions. A key is one segment and a page has two, `/-/name`, so that neither can ever be taken for the other.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::http::request::escape::has_bad_escape;
use crate::http::request::page::Page;
use crate::http::request::rejection::Rejection;
use crate::http::service_config::Routes;
use crate::store::Key;

/// Where changes are told.
pub(in crate::http) const WATCH: &str = "/-/watch";

/// The page that `path` names on a listener for this, if there is one.
pub(in crate::http) fn page(path: &str, routes: Routes) -> Option<Page> {
    match (routes, path) {
        (Routes::Values, _) => None,
        (Routes::Pages, "/") => Some(Page::Index),
        _ => Page::named(path.strip_prefix("/-/")?),
    }
}

/// The key that `path` names: its one segment, percent-decoded once.
pub(in crate::http) fn key(path: &str) -> Result<Key<'_>, Rejection> {
    let segment = path.strip_prefix('/').unwrap_or(path);
    if segment.is_empty() || segment.contains('/') {
        return Err(Rejection::NoSuchPath);
    }
    if !segment.contains('%') {
        return Ok(Key::new(segment)?);
    }
    if has_bad_escape(segment) {
        return Err(Rejection::BadEscape);
    }
    let decoded: Cow<'_, [u8]> = percent_decode_str(segment).into();
    Ok(Key::from_bytes(decoded)?)
}

#[cfg(test)]
mod tests {
    use crate::http::request::path::*;
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
            assert_eq!(key(path), Err(Rejection::BadEscape), "{path}");
        }
        for path in ["/", "", "/a/b", "/a/", "//a", "//"] {
            assert_eq!(key(path), Err(Rejection::NoSuchPath), "{path}");
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
            assert!(matches!(key(path), Err(Rejection::BadKey(_))), "{path}");
        }
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(name in ".{1,80}") {
            let path = format!("/{}", utf8_percent_encode(&name, NON_ALPHANUMERIC));
            prop_assert_eq!(key(&path), Key::new(name).map_err(Rejection::from));
        }

        #[test]
        fn no_path_panics_or_names_more_than_one_segment(path in "/[ -~]{0,40}") {
            if let Ok(key) = key(&path) {
                prop_assert!(!key.as_str().contains('/'));
            }
        }
    }
}
