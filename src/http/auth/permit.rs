//! What of a request its client may have, once it is known who that is.

use hyper::Method;

use crate::access::{LinkKind, Right};
use crate::http::auth::authorize::{Denied, authorize, authorize_watch};
use crate::http::auth::proven::{By, Proof};
use crate::http::refusal::rejection::Rejection;
use crate::http::service::operation::{Intent, Operation};

/// What a signed link has to allow for this method.
pub fn link_kind(method: &Method) -> Option<LinkKind> {
    match *method {
        Method::GET | Method::HEAD => Some(LinkKind::Read),
        Method::PUT => Some(LinkKind::Create),
        _ => None,
    }
}

/// Narrows `intent` to what the client of `proof` may do.
pub fn permit(intent: &mut Intent<'_>, proof: &Proof) -> Result<(), Denied> {
    let grant = &proof.subject.grant;
    match intent {
        // The answer to one who has proved nothing asks for a proof, whatever the right.
        Intent::Operation(Operation::SignIn { .. }) if proof.subject.is_anonymous => {
            Err(Denied(Right::List))
        }
        Intent::Operation(operation) => authorize(operation, grant),
        Intent::Watch(request) => authorize_watch(request, grant),
        Intent::Prove(_) => Ok(()),
    }
}

/// Holds an upload to what its link allows: so many bytes, in one request.
pub fn limit(intent: &mut Intent<'_>, proof: &Proof) -> Result<(), Rejection> {
    let By::Link { max } = proof.by else {
        return Ok(());
    };
    if let Intent::Operation(Operation::Put { options, len, .. }) = intent {
        if options.creation.is_some() {
            return Err(Rejection::NotAllowed(Right::Write));
        }
        options.most = max;
        if let (Some(limit), Some(len)) = (max, *len)
            && len > limit
        {
            return Err(Rejection::TooLarge { limit });
        }
    }
    Ok(())
}
