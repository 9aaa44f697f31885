//! The target of a request: a key, the keys below a folder, or one of the server's own pages.
//!
//! Pure. No key begins with `-/`, so that no page, `/-/name`, can ever be taken for one. A path is decoded once, and
//! then cut into segments: `%2F` is a `/` like any other, as it is to S3, nginx and npm.

use hyper::StatusCode;
use percent_encoding::percent_decode_str;

use crate::http::head::syntax::{encoded, has_bad_escape};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{BAD_KEY, NO_SUCH_PATH};
use crate::http::refusal::kind::Kind;
use crate::store::{BadKey, Key};

const TOO_DEEP: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "key-too-deep");
const BAD_ESCAPE: Refusal = Refusal::new(
    BAD_KEY,
    "bad key: '%' must be followed by two hexadecimal digits",
);

/// The path of the feed of changes.
pub const WATCH: &str = "/-/watch";

/// The beginning of the paths of the server's own pages.
pub const PAGES: &str = "/-/";

/// The key that `path` names, percent-decoded once. With `compat` it has one segment, as keys of the C server had.
pub fn key(path: &str, compat: bool) -> Result<Key<'_>, Refusal> {
    let name = path.strip_prefix('/').unwrap_or(path);
    if name.is_empty() || path.starts_with(PAGES) || (compat && name.contains('/')) {
        return Err(NO_SUCH_PATH);
    }
    if !name.contains('%') {
        return Ok(Key::new(name)?);
    }
    if has_bad_escape(name) {
        return Err(BAD_ESCAPE);
    }
    let name = percent_decode_str(name).decode_utf8();
    let key = Key::new(name.map_err(|_| BadKey::NotUtf8)?)?;
    if compat && !key.is_flat() {
        return Err(BadKey::Slash.into());
    }
    Ok(key)
}

/// The path of `key`, percent-encoded.
pub fn path_of(key: &Key<'_>) -> String {
    format!("/{}", encoded(key.as_str()))
}

/// Refuses to store a value of a key with more than `most` segments: each may be a folder that is made for it.
pub fn check_depth(key: &Key<'_>, most: usize) -> Result<(), Refusal> {
    if key.as_str().split('/').count() > most {
        return Err(TOO_DEEP.because(format!(
            "the key has more segments than this server makes folders for ({most}, --max-key-depth)"
        )));
    }
    Ok(())
}

/// The prefix of the keys in the folder that `path` names: a path that ends with `/`; `None` where it is none.
pub fn folder(path: &str) -> Result<Option<String>, Refusal> {
    let name = path.strip_prefix('/').unwrap_or(path);
    if !name.ends_with(['/', 'F', 'f']) {
        return Ok(None);
    }
    let encoded = ["/", "%2F", "%2f"];
    let Some(folder) = encoded.iter().find_map(|slash| name.strip_suffix(slash)) else {
        return Ok(None);
    };
    // The rules are for keys: one below the folder has to be valid.
    let path = format!("/{folder}/k");
    let key = key(&path, false)?;
    let text = key.as_str();
    Ok(Some(text[..text.len() - 1].to_owned()))
}

/// The name of the value or folder that `path` names, and whether the path ends with `/`; empty for the root.
pub fn name(path: &str) -> Result<(String, bool), Refusal> {
    if path == "/" {
        return Ok((String::new(), true));
    }
    let (found, is_folder) = match folder(path)? {
        Some(found) => (found, true),
        None => (folder(&format!("{path}/"))?.ok_or(NO_SUCH_PATH)?, false),
    };
    Ok((found.trim_end_matches('/').to_owned(), is_folder))
}

#[cfg(test)]
mod tests {
    use crate::http::head::path::*;
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;

    fn any(path: &str) -> Result<Key<'_>, Refusal> {
        key(path, false)
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(name in "[^/]{1,30}(/[^/]{1,30}){0,3}") {
            const ALL_BUT_SLASHES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/');
            let expected = Key::new(name.as_str()).map_err(Refusal::from);
            for set in [NON_ALPHANUMERIC, ALL_BUT_SLASHES] {
                let path = format!("/{}", utf8_percent_encode(&name, set));
                prop_assert_eq!(&any(&path), &expected);
            }
        }

        #[test]
        fn no_path_panics_or_leads_anywhere_else(path in "/[ -~]{0,40}") {
            let _ = folder(&path);
            if let Ok(key) = any(&path) {
                let segments = key.as_str().split('/');
                prop_assert!(segments.into_iter().all(|s| !matches!(s, "" | "." | "..")));
            }
        }
    }
}
