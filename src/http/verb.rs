//! What a request asks for beside GET, HEAD and PUT of a value: a value of its feature, which says what it needs and
//! does it. An operation is added by a folder with its verb, and the line of the parser that makes it.
//!
//! Knows no feature.

use async_trait::async_trait;

use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::response::Outcome;

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
    /// True where it changes the store, or gives up an upload.
    fn changes(&self) -> bool {
        false
    }

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
