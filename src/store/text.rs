//! Whether a value is UTF-8 text, as far as its first bytes show. Pure.

use std::str::from_utf8;

use memchr::{memchr, memmem};

/// Bytes at the beginning of a value that are looked at.
pub(super) const LOOKED_AT: usize = 64 << 10;

/// Which values are looked at, by key and stored media type.
pub type IsText = fn(key: &str, stored: Option<&str>) -> bool;

/// Begins an escape sequence of ISO-2022-JP, whose bytes are all ASCII.
const ISO_2022: &[u8] = b"\x1b$";

/// Whether a value is UTF-8 that begins with `start`; with `is_all`, that is all of it, else a character may be cut off at
/// the end. Two other encodings that are valid UTF-8 by their bytes are told apart: UTF-16, by its zeros, and ISO-2022.
pub(super) fn is_utf8(start: &[u8], is_all: bool) -> bool {
    let is_valid = match from_utf8(start) {
        Ok(_) => true,
        Err(error) => !is_all && error.error_len().is_none(),
    };
    is_valid && memchr(0, start).is_none() && memmem::find(start, ISO_2022).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_encodings_are_no_utf8() {
        for other in [
            &b"caf\xe9 au lait"[..],          // Latin-1
            b"\x82\xb1\x82\xf1",              // Shift JIS
            b"\xff\xfeh\0i\0",                // UTF-16 with its mark
            b"h\0i\0",                        // and without
            b"\x1b$B$3$s\x1b(B",              // ISO-2022-JP
            b"\xc0\xaf",                      // overlong
            b"\xed\xa0\x80",                  // half a surrogate pair
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", // an image
        ] {
            assert!(!is_utf8(other, true), "{}", other.escape_ascii());
            assert!(!is_utf8(other, false), "{}", other.escape_ascii());
        }
        // Coloured output of a terminal.
        assert!(is_utf8(b"\x1b[31mred\x1b[0m", true));
        assert!(is_utf8(b"", true));
    }

    proptest! {
        #[test]
        fn text_is_found_wherever_it_is_cut(text in "[^\0\u{1b}]{0,40}", at in 0_usize..160) {
            let bytes = text.as_bytes();
            let start = &bytes[..at.min(bytes.len())];
            prop_assert!(is_utf8(bytes, true));
            prop_assert!(is_utf8(start, false));
            prop_assert_eq!(is_utf8(start, true), from_utf8(start).is_ok());
        }

        #[test]
        fn a_byte_that_is_none_shows(text in "[^\0\u{1b}]{0,20}", more in "[a-z]{4}") {
            let bytes = [text.as_bytes(), b"\xff", more.as_bytes()].concat();
            prop_assert!(!is_utf8(&bytes, false));
        }
    }
}
