//! Who asks, of the clients of this door.

use crate::http::auth::credentials::AuthCache;
use crate::http::auth::{Guard, Identified};
use crate::http::head::names::AuthorizationFields;
use crate::http::refusal::Refusal;
use crate::http::request::head::RequestHead;

/// Authenticates the client of a request.
pub fn identify(
    asked: &RequestHead<'_>,
    guard: Option<&Guard>,
    proven: &AuthCache,
) -> Result<Identified, Refusal> {
    let nothing = AuthorizationFields::Nothing;
    guard.map_or(Ok(Identified::Known(None)), |guard| {
        guard.identify(nothing, asked.client, proven)
    })
}
