//! The address of a key or a folder, written so that no reader can take a name for anything else. Pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// All but the unreserved characters (RFC 3986, section 2.3) and the `/` between segments. A `:` is among them: in the first
/// segment of a relative reference it would end a scheme (section 4.2).
const ALL_BUT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// How far below the root the address `path` is.
pub fn depth(path: &str) -> usize {
    path.matches('/').count().saturating_sub(1)
}

/// What leads to the root from that far below. Addresses that the server tells are relative to that of the request, as it may
/// be below a path of a proxy, which it does not know (RFC 3986, section 4.2).
pub fn up(depth: usize) -> String {
    "../".repeat(depth)
}

/// `name`, of a key or a folder, as it stands in a path.
pub fn encoded(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, ALL_BUT_UNRESERVED)
}
