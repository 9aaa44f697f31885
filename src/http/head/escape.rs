//! Percent-encoding (RFC 3986, section 2.1), held to its grammar: decoders pass over what is malformed.

/// Whether a `%` is not followed by two hexadecimal digits.
pub fn has_bad_escape(segment: &str) -> bool {
    let is_hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
    let bytes = segment.as_bytes();
    let bad = |(i, &b): (usize, &u8)| {
        b == b'%' && !(is_hex(bytes.get(i + 1)) && is_hex(bytes.get(i + 2)))
    };
    bytes.iter().enumerate().any(bad)
}
