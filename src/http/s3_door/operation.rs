//! An operation of this door: what it needs, and what it does, as a function of the head makes it. Its answer names the
//! request.

use async_trait::async_trait;
use hyper::header::HeaderValue;

use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::request::RequestContext;
use crate::http::response::Outcome;
use crate::http::s3_door::errors::REQUEST_ID;
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};

/// What an operation has of its body.
#[derive(Clone, Copy)]
pub enum Takes {
    Nothing,
    Body,
    /// Names of values, each of which gets a request of this method.
    Names(&'static str),
}

struct Operation<F> {
    needs: Vec<Need<'static>>,
    takes: Takes,
    perform: F,
}

/// The operation that `perform` performs.
pub fn operation<F>(
    takes: Takes,
    needs: impl IntoIterator<Item = Need<'static>>,
    perform: F,
) -> Parsed
where
    F: AsyncFnOnce(&RequestContext, &mut Received<'_>) -> Outcome + 'static,
{
    let needs = needs.into_iter().collect();
    parsed(Operation {
        needs,
        takes,
        perform,
    })
}

#[async_trait(?Send)]
impl<F> Verb for Operation<F>
where
    F: AsyncFnOnce(&RequestContext, &mut Received<'_>) -> Outcome + 'static,
{
    fn body(&self) -> BodyUse {
        match self.takes {
            Takes::Nothing => BodyUse::Ignored,
            Takes::Body | Takes::Names(_) => BodyUse::Value,
        }
    }

    fn needs(&self) -> Vec<Need<'_>> {
        self.needs.clone()
    }

    fn of_each(&self) -> Option<&'static str> {
        match self.takes {
            Takes::Names(method) => Some(method),
            Takes::Nothing | Takes::Body => None,
        }
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let reply = (self.perform)(request, body).await?;
        let id = HeaderValue::try_from(request.request_id()).ok();
        Ok(reply.with(|headers| headers.extend(id.map(|id| (REQUEST_ID, id)))))
    }
}
