//! The page that a browser gets at `/` and at a folder: when it is wanted, what it holds, and its headers. And the index of
//! links that other programs get there. And the page that it gets in place of what failed.
//!
//! The server writes a folder's listing into the page, so that clients that follow links find every key. The scripts of
//! the page take over from there, where they run.

mod failure;
mod folder;
mod frame;
mod markup;
mod rights;

use std::time::SystemTime;

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, VARY,
};

use crate::http::listing::query::{ListFormat, ListTarget, Listed};
use crate::http::refusal::rejection::Rejection;
use crate::http::values::conditional::{Current, Preconditions, Verdict};
use crate::store::Listing;

pub use failure::{FAILURE_POLICY, FailedForm, Failure, SIGNED_OUT};
pub use folder::index;
pub use frame::Document;
use frame::FRAME;
pub use rights::PageRights;

/// Whether the client prefers the page to the listing: browsers do, other clients only if their Accept says so.
pub fn is_preferred(headers: &HeaderMap) -> bool {
    ListFormat::preferred(headers, ListFormat::Json) == ListFormat::Html
}

/// The page that shows `listing`, of `place`, to a client with these rights.
pub fn document<V: Listed>(
    place: &ListTarget,
    listing: &Listing<V>,
    rights: &PageRights,
) -> Document {
    FRAME.fill(&folder::slots(place, listing, rights))
}

/// Whether the client has the page of this entity tag already. It has no date, so preconditions that go by one say nothing.
pub fn is_known(preconditions: Option<&Preconditions>, etag: &str) -> Result<bool, Rejection> {
    let current = Current {
        etag,
        variants: &[],
        modified: SystemTime::now(),
    };
    let verdict = |preconditions: &Preconditions| match preconditions.for_read(Some(current)) {
        Verdict::Failed => Err(Rejection::Precondition),
        Verdict::NotModified(_) => Ok(true),
        Verdict::Proceed => Ok(false),
    };
    preconditions.map_or(Ok(false), verdict)
}

/// The headers of an answer with the page of this entity tag, and of one that says that it is known.
pub fn headers(etag: &str) -> [(HeaderName, HeaderValue); 7] {
    let text = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    let fixed = HeaderValue::from_static;
    [
        (CONTENT_TYPE, fixed("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, text(&FRAME.policy)),
        (ETAG, text(etag)),
        (CACHE_CONTROL, fixed("no-cache")),
        (VARY, fixed("accept, accept-encoding")),
        // Not `no-referrer`: a browser would send the Origin `null` with the form.
        (REFERRER_POLICY, fixed("same-origin")),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            fixed("same-origin"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::http::ui::*;

    fn preferred(accept: &str) -> bool {
        let headers = [(hyper::header::ACCEPT, accept.parse().unwrap())];
        is_preferred(&headers.into_iter().collect())
    }

    #[test]
    fn browsers_get_the_page_and_nobody_else_by_accident() {
        assert!(preferred(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        ));
        assert!(preferred("text/html"));
        for other in [
            "*/*",
            "",
            "application/json",
            "text/plain",
            "text/*",
            "image/png",
        ] {
            assert!(!preferred(other), "{other}");
        }
        assert!(!preferred("application/json, text/html;q=0.9"));
        assert!(!is_preferred(&HeaderMap::new()));
    }
}
