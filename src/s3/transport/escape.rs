//! Percent-encoding as signatures want it (`UriEncode`), and the way back.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

/// All but the unreserved characters (RFC 3986, section 2.3).
const ALL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// As [`ALL`], for a path.
const PATH: &AsciiSet = &ALL.remove(b'/');

/// A path of a URI: `/` stays.
pub fn path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// A query of a URI, in the order of the names, as it is signed.
pub fn query(parameters: &[(&str, &str)]) -> String {
    let encode = |text| utf8_percent_encode(text, ALL).to_string();
    let mut pairs: Vec<_> = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    pairs.sort_unstable();
    pairs.join("&")
}

/// What a store with `encoding-type=url` has encoded: as in forms, where a `+` is a space.
pub fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// A name in a list, which is encoded where the list says so.
pub fn listed(name: &str, encoding: Option<&str>) -> Option<String> {
    match encoding {
        Some("url") => decode(name),
        _ => Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_reserved_is_encoded() {
        assert_eq!(path("a b/ü+~$.-_"), "a%20b/%C3%BC%2B~%24.-_");
        assert_eq!(
            query(&[("prefix", "a/b c"), ("list-type", "2"), ("acl", "")]),
            "acl=&list-type=2&prefix=a%2Fb%20c"
        );
        assert_eq!(decode("a+b%2Bc%20d").as_deref(), Some("a b+c d"));
        assert_eq!(decode("%FF"), None);
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(text in ".{0,100}") {
            prop_assert_eq!(decode(&path(&text)), Some(text));
        }
    }
}
