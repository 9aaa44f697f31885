//! The fields of the response to a refused request: they say what the client can do about it.

use hyper::header::{
    ALLOW, CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};

use crate::http::head::range::unsatisfied;
use crate::http::head::syntax::put;
use crate::http::refusal::Refusal;
use crate::http::service::operation::Target;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads;
use crate::store::Error;

/// The challenge with which a browser forgets a password: it names a scheme that browsers neither answer nor ask for.
const FORGET_PASSWORD: HeaderValue = HeaderValue::from_static("Bearer realm=\"signed out\"");

/// Adds the fields of the `refusal`.
pub fn describe(refusal: &Refusal, headers: &mut HeaderMap, config: &ServiceConfig) {
    match refusal {
        Refusal::OfUpload(why, state) => {
            describe(why, headers, config);
            uploads::describe(headers, state, config);
        }
        Refusal::OfForm(_) | Refusal::OfArchive(_) | Refusal::OfFolder(..) => {
            describe(refusal.reason(), headers, config);
        }
        Refusal::Unsatisfiable { len } => put(headers, CONTENT_RANGE, unsatisfied(*len)),
        Refusal::Method(methods) if !config.compat => allow(headers, methods),
        Refusal::Store(Error::NameTaken(_) | Error::FolderKept) => {
            allow(headers, Target::Existing.methods(config));
        }
        Refusal::PageMethod(methods) => allow(headers, methods),
        Refusal::TooLarge { .. } if config.announces_uploads() => {
            uploads::add_limit(headers, config);
        }
        Refusal::Unauthenticated { realm } => challenge(headers, realm),
        Refusal::SignedOut => {
            headers.insert(WWW_AUTHENTICATE, FORGET_PASSWORD);
        }
        Refusal::TooManyFailures { retry_after } => retry(headers, *retry_after),
        Refusal::ChecksBusy => retry(headers, 1),
        Refusal::Of(kind, _) => {
            for &(name, value) in kind.fields {
                let name = HeaderName::from_static(name);
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        Refusal::NotPartialUpload => uploads::add_accept_patch(headers),
        Refusal::Store(error) if refusal.kind(config.compat).status.as_u16() == 503 => {
            retry(headers, error.retry_after());
        }
        _ => {}
    }
}

fn allow(headers: &mut HeaderMap, methods: &'static str) {
    headers.insert(ALLOW, HeaderValue::from_static(methods));
}

/// Asks the client to wait for `seconds`.
fn retry(headers: &mut HeaderMap, seconds: u64) {
    headers.insert(RETRY_AFTER, seconds.into());
}

/// Adds the schemes of authentication (RFC 9110, section 11.6.1). The realm is printable, and holds no quote.
fn challenge(headers: &mut HeaderMap, realm: &str) {
    for (scheme, rest) in [("Basic", ", charset=\"UTF-8\""), ("Bearer", "")] {
        let challenge = format!("{scheme} realm=\"{realm}\"{rest}");
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            headers.append(WWW_AUTHENTICATE, challenge);
        }
    }
}
