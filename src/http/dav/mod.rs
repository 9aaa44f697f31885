//! The door of `WebDAV` (RFC 4918, classes 1 and 2): its methods, and who asks for what.
//!
//! Values and folders are those of every other door, and so are rights, limits, versions and locks: each method calls
//! what the others call, and says the result in the words of its RFC. GET and HEAD are the plain ones. Keeps no state.

mod changes;
mod conditions;
mod find;
mod locking;
mod name;
mod properties;
mod relocate;
mod xml;

use async_trait::async_trait;
use hyper::header::{ALLOW, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use crate::http::body::request::Received;
use crate::http::dav::conditions::Conditions;
use crate::http::dav::name::Name;
use crate::http::head::path::PAGES;
use crate::http::refusal::common::no_method;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, empty};
use crate::http::verb::{OptionsRequest, Parsed, Verb, parsed};

const METHODS: &str =
    "GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK, OPTIONS";
const READING: &str = "GET, HEAD, PROPFIND, OPTIONS";

/// The operation of a request of this door; `None` for one that the plain door has: another method, a page of the
/// server, and an upload in parts, which would be stored as if its first part were all.
pub fn verb(asked: &RequestHead<'_>) -> Parsed {
    let head = asked.head;
    let is_plain = [Method::GET, Method::HEAD, Method::POST, Method::PATCH].contains(&head.method);
    if is_plain || asked.path.starts_with(PAGES) || asked.common.resumable {
        return Ok(None);
    }
    if head.method == Method::OPTIONS {
        return parsed(Options(OptionsRequest::of(asked, methods(asked))));
    }
    let prefix = asked.client.forwarded_prefix(&head.headers);
    let conditions = Conditions::of(&head.headers, prefix)?;
    let name = Name::at(asked.path)?;
    match head.method.as_str() {
        "PROPFIND" => return find::find(asked, name),
        _ if asked.config.read_only => {}
        "PROPPATCH" => return find::patch(asked, name, conditions),
        "LOCK" => return locking::lock(asked, name, conditions),
        "UNLOCK" => return locking::unlock(asked, name),
        "MOVE" | "COPY" => return relocate::relocation(asked, name, conditions),
        _ => {
            if let Some(verb) = changes::change(asked, name, conditions)? {
                return Ok(Some(verb));
            }
        }
    }
    asked.config.may_change()?;
    let methods = methods(asked);
    Err(no_method(methods).with(ALLOW, HeaderValue::from_static(methods)))
}

fn methods(asked: &RequestHead<'_>) -> &'static str {
    if asked.config.read_only {
        return READING;
    }
    METHODS
}

/// OPTIONS: the methods, and the classes of `WebDAV`. Office asks for the way to edit.
struct Options(OptionsRequest);

#[async_trait(?Send)]
impl Verb for Options {
    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let listed = Box::new(self.0).perform(request, body).await?;
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        *headers = listed.response.into_parts().0.headers;
        headers.insert("dav", HeaderValue::from_static("1, 2"));
        let how = HeaderName::from_static("ms-author-via");
        headers.insert(how, HeaderValue::from_static("DAV"));
        Ok(Reply::from(response))
    }
}
