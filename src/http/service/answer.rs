//! The end of each response: logged, audited, rendered.

use std::convert::Infallible;

use hyper::Response;

use crate::http::body::response::Body;
use crate::http::exchange::{ConnectionState, RequestGuard};
use crate::http::head::client::Peer;
use crate::http::refusal::Refusal;
use crate::http::request::{RequestContext, ResponseContext, Service, attach};
use crate::http::response::outcome::Outcome;
use crate::http::response::render;
use crate::http::service::audit;

/// The response to a request, as hyper takes it.
pub type Answer = Result<Response<Body>, Infallible>;

impl Service {
    /// Waits until the first bytes of the body are in memory, so that an unreadable value becomes an error response
    /// instead of a truncated body.
    pub async fn finish(
        &self,
        mut response: Response<Body>,
        context: &ResponseContext,
        guard: RequestGuard,
    ) -> Answer {
        if let Err(error) = response.body_mut().make_resident().await {
            response = self.render(Err(error.into()), context);
        }
        attach(&mut response, guard);
        Ok(response)
    }

    /// The response to a request, by what came of it, which the audit log gets.
    pub fn conclude(
        &self,
        mut result: Result<Outcome, Refusal>,
        context: &ResponseContext,
        connection: &ConnectionState,
        peer: Peer,
        request: Option<&RequestContext>,
    ) -> Response<Body> {
        if connection.progress.given_up.get() {
            result = result.map_err(Refusal::of_late_body);
        }
        if self.config.logs.audit {
            let events = audit::events(&result);
            connection.record.set_audit(events);
        }
        if let Err(refusal) = &result {
            self.log_refusal(refusal, Some(peer), request);
        }
        render(result, context, &self.config)
    }

    /// The response to a request that has no more in the logs.
    pub fn render(
        &self,
        result: Result<Outcome, Refusal>,
        context: &ResponseContext,
    ) -> Response<Body> {
        if let Err(refusal) = &result {
            self.log_refusal(refusal, None, None);
        }
        render(result, context, &self.config)
    }
}
