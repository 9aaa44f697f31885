//! What a request asks for beside GET, HEAD and PUT of a value: a value of its feature, which says what it needs and
//! does it. An operation is added by a folder, and a row of its door's table: a function of the folder that makes the
//! verb of each request which is its own.
//!
//! Knows no feature.

use async_trait::async_trait;
use hyper::header::{ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderValue};

use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::Outcome;

/// The verb of a request, or its refusal; `None` where the request is not of this feature.
pub type Parsed = Result<Option<Box<dyn Verb>>, Refusal>;

/// A row of a door's table.
pub type Row = for<'a> fn(&RequestHead<'a>) -> Parsed;

/// This verb, as a row answers.
#[expect(clippy::unnecessary_wraps, reason = "what a row answers")]
pub fn parsed(verb: impl Verb + 'static) -> Parsed {
    Ok(Some(Box::new(verb)))
}

/// An OPTIONS request, of a target with these methods.
#[derive(Debug)]
pub struct OptionsRequest {
    /// A browser asks on behalf of a page of another origin.
    pub is_preflight: bool,
    /// The fields of requests that the page wants to send.
    pub fields: Option<Box<HeaderValue>>,
    pub methods: &'static str,
}

impl OptionsRequest {
    pub fn of(asked: &RequestHead<'_>, methods: &'static str) -> Self {
        let headers = &asked.head.headers;
        let fields = headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
        Self {
            is_preflight: headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD),
            fields: fields.cloned().map(Box::new),
            methods,
        }
    }
}

/// The use of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyUse {
    /// None: a short one is passed over.
    Ignored,
    /// None, and there may be none.
    Refused,
    /// At most that of one value is received.
    Value,
    /// Each value in it is held to the limit, not their sum.
    Values,
}

/// An operation of a feature.
#[async_trait(?Send)]
pub trait Verb {
    fn body(&self) -> BodyUse {
        BodyUse::Value
    }

    /// What it needs. The keys that only its performing finds are looked at then.
    fn needs(&self) -> Vec<Need<'_>> {
        Vec::new()
    }

    /// The request that it is for each value which it does not name.
    fn of_each(&self) -> Option<&'static str> {
        None
    }

    /// Narrows it to what the client may do of it.
    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())
    }

    async fn perform(self: Box<Self>, request: &RequestContext, body: &mut Received<'_>)
    -> Outcome;
}
