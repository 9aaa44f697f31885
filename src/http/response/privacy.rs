//! What keeps the answer to one client from another: for caches between (RFC 9111, section 3.5) and in browsers.

use hyper::header::{AUTHORIZATION, CACHE_CONTROL, HeaderMap, VARY};

use crate::http::auth::proven::Proof;
use crate::http::values::cache_control::private;

/// Says in `headers` for whom the answer is, where that matters. Those of a value say already that it varies.
pub fn protect(headers: &mut HeaderMap, proof: Option<&Proof>, is_value: bool) {
    let Some(proof) = proof else { return };
    if !is_value {
        headers.append(VARY, AUTHORIZATION.into());
    }
    if !proof.subject.is_anonymous {
        let private = private(headers.get(CACHE_CONTROL));
        headers.insert(CACHE_CONTROL, private);
    }
}
