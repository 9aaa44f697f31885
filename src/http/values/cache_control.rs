//! The Cache-Control field of values and listings: `no-cache` unless the operator says otherwise, and `private` for a client
//! that proved who it is.
//!
//! Without the field, a cache may guess how long a value stays fresh (RFC 9111, section 4.2.2), and then serves the
//! old one after a replacement. With `no-cache` it keeps the value, and asks again before each use: a 304 costs little.

use hyper::header::{AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderValue, VARY};

use crate::http::auth::credentials::Principal;
use crate::http::head::syntax::{is_token, skip_quoted};

/// The field unless the operator says otherwise.
pub const DEFAULT: &str = "no-cache";

/// A text that is no value of Cache-Control.
#[derive(Debug, thiserror::Error)]
#[error(
    "no value of Cache-Control; give directives such as no-cache, or 'public, max-age=60', or '' to send none"
)]
pub struct BadCacheControl;

/// The field that `text` is the value of; none for an empty one.
pub fn cache_control(text: &str) -> Result<Option<HeaderValue>, BadCacheControl> {
    let text = text.trim_matches(' ');
    match text {
        "" => return Ok(None),
        // Copied into each answer of every reactor: what is static has no count that they would share.
        DEFAULT => return Ok(Some(HeaderValue::from_static(DEFAULT))),
        _ => {}
    }
    let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~'));
    if !is_plain || directives(text).is_none() {
        return Err(BadCacheControl);
    }
    HeaderValue::try_from(text)
        .map(Some)
        .map_err(|_| BadCacheControl)
}

/// The members of `#cache-directive` (RFC 9111, section 5.2), as a sender writes it: without empty ones.
fn directives(text: &str) -> Option<Vec<&str>> {
    let (mut directives, mut rest) = (Vec::new(), text.trim_matches(' '));
    loop {
        let behind = skip_directive(rest)?;
        directives.push(&rest[..rest.len() - behind.len()]);
        match behind.trim_matches(' ') {
            "" => return Some(directives),
            more => rest = more.strip_prefix(',')?.trim_matches(' '),
        }
    }
}

/// The directives of `given`, for one client alone (RFC 9111, section 5.2.2.7): without those that let a cache keep it for others.
fn private(given: Option<&HeaderValue>) -> HeaderValue {
    let text = given.and_then(|given| given.to_str().ok());
    // What most values have.
    if text == Some(DEFAULT) {
        return HeaderValue::from_static("private, no-cache");
    }
    let for_all = ["public", "s-maxage", "private"];
    let is_for_one = |directive: &&str| {
        let name = directive.split('=').next().unwrap_or_default();
        !for_all.iter().any(|it| name.eq_ignore_ascii_case(it))
    };
    let given = text.and_then(directives).unwrap_or_default();
    let kept = given.into_iter().filter(is_for_one);
    let private: Vec<&str> = ["private"].into_iter().chain(kept).collect();
    HeaderValue::try_from(private.join(", ")).unwrap_or(HeaderValue::from_static("private"))
}

/// Says in `headers` for whom the answer is, where that matters: for caches between (RFC 9111, section 3.5) and in browsers.
/// The headers of a value say already that it varies.
pub fn mark_private(headers: &mut HeaderMap, proof: Option<&Principal>, is_value: bool) {
    let Some(proof) = proof else { return };
    if !is_value {
        headers.append(VARY, AUTHORIZATION.into());
    }
    if !proof.subject.is_anonymous {
        let private = private(headers.get(CACHE_CONTROL));
        headers.insert(CACHE_CONTROL, private);
    }
}

/// The text behind the directive at the front.
fn skip_directive(text: &str) -> Option<&str> {
    let rest = skip_token(text)?;
    match rest.strip_prefix('=') {
        None => Some(rest),
        Some(value) => match value.strip_prefix('"') {
            Some(quoted) => skip_quoted(quoted),
            None => skip_token(value),
        },
    }
}

fn skip_token(text: &str) -> Option<&str> {
    let end = text.find(['=', ',', ' ']).unwrap_or(text.len());
    let (token, rest) = text.split_at(end);
    is_token(token).then_some(rest)
}

#[cfg(test)]
mod tests {
    use crate::http::values::cache_control::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_for_one_client_is_kept_for_no_other() {
        for (given, expected) in [
            ("no-cache", "private, no-cache"),
            ("public, max-age=60", "private, max-age=60"),
            (
                "Public,S-MaxAge=3 , no-cache=\"a, b\"",
                "private, no-cache=\"a, b\"",
            ),
            ("private", "private"),
            ("private=\"x\", no-store", "private, no-store"),
            ("not, = valid", "private"),
        ] {
            assert_eq!(
                private(Some(&HeaderValue::from_static(given))),
                expected,
                "{given}"
            );
        }
        assert_eq!(private(None), "private");
    }

    #[test]
    fn directives_are_sent_as_given() {
        for good in [
            DEFAULT,
            "no-store",
            "public, max-age=60",
            "public,max-age=60 , immutable",
            "private=\"x-a, x-b\", stale-while-revalidate=30",
            "no-cache=\"set-cookie\"",
            "community=\"a\\\"b\"",
        ] {
            let field = cache_control(good).unwrap();
            assert_eq!(field.unwrap(), good);
        }
        assert_eq!(cache_control(" no-cache ").unwrap().unwrap(), "no-cache");
    }

    #[test]
    fn an_empty_value_sends_none() {
        assert_eq!(cache_control("").unwrap(), None);
        assert_eq!(cache_control("  ").unwrap(), None);
    }

    #[test]
    fn what_caches_would_misread_is_refused() {
        for bad in [
            "Cache-Control: no-cache",
            "max-age: 60",
            "max-age 60",
            "max-age=",
            "max-age =60",
            "max-age=60; public",
            "no-cache,",
            ",no-cache",
            "no-cache,,public",
            "=60",
            "private=\"x",
            "private=\"x\"y",
            "no-cache\r\nx-a: b",
            "no-cache\tpublic",
            "no-c\u{e4}che",
            "\"no-cache\"",
        ] {
            assert!(cache_control(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_one_field(text in "[ -~\r\n\t\u{e9}]{0,30}") {
            if let Ok(Some(field)) = cache_control(&text) {
                prop_assert_eq!(field.to_str().unwrap(), text.trim_matches(' '));
            }
        }

        #[test]
        fn well_formed_directives_are_taken(text in "[a-z-]{1,8}(=([a-z0-9]{1,5}|\"[a-z, ]{0,5}\"))?( ?, ?[a-z-]{1,8}(=[0-9]{1,5})?){0,3}") {
            prop_assert!(cache_control(&text).is_ok());
        }
    }
}
