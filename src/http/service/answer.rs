//! The end of each response: logged, audited, rendered.

use std::convert::Infallible;

use hyper::Response;

use crate::http::body::response::Body;
use crate::http::exchange::{Exchange, RequestGuard};
use crate::http::head::client::Peer;
use crate::http::refusal::Refusal;
use crate::http::request::log::audited;
use crate::http::request::{RequestContext, ResponseContext, Service, attach};
use crate::http::response::Outcome;
use crate::http::service::respond::render;

/// The response to a request, as hyper takes it.
pub type ServiceResult = Result<Response<Body>, Infallible>;

impl Service {
    /// Waits until the first bytes of the body are in memory, so that an unreadable value becomes an error response
    /// instead of a truncated body.
    pub async fn finish(
        &self,
        mut response: Response<Body>,
        context: &ResponseContext,
        guard: RequestGuard,
    ) -> ServiceResult {
        if let Err(error) = response.body_mut().make_resident().await {
            response = self.render(Err(error.into()), context);
        }
        attach(&mut response, guard);
        Ok(response)
    }

    /// The response to a request, by what came of it, which the audit log gets.
    pub fn conclude(
        &self,
        mut result: Outcome,
        context: &ResponseContext,
        exchange: &Exchange,
        peer: Peer,
        request: Option<&RequestContext>,
    ) -> Response<Body> {
        if exchange.progress.given_up.get() {
            result = result.map_err(Refusal::of_late_body);
        }
        let refusal = result.as_ref().err();
        if self.config.logs.audit {
            if let Some(event) = refusal.and_then(audited) {
                exchange.record.audit(event);
            }
            if !refusal.is_some_and(Refusal::leaves_doubt) {
                exchange.record.end_change();
            }
        }
        if let Some(refusal) = refusal {
            self.log_refusal(refusal, Some(peer), request);
        }
        if let (Some(_), Err(refusal)) = (context.errors.by_door, &mut result) {
            let id = exchange
                .record
                .with_entry(|entry| entry.request_id().into());
            refusal.more().request_id = id;
        }
        render(result, context, &self.config)
    }

    /// The response to a request that has no more in the logs.
    pub fn render(&self, result: Outcome, context: &ResponseContext) -> Response<Body> {
        if let Err(refusal) = &result {
            self.log_refusal(refusal, None, None);
        }
        render(result, context, &self.config)
    }
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use crate::http::audit::AuditEvent;
    use crate::http::refusal::kind::{Flag, Kind};
    use crate::http::refusal::{BulkProgress, BulkWork};
    use crate::http::service::answer::*;
    use crate::store::Error;

    #[test]
    fn of_what_ends_early_the_place_is_told_and_whether_its_result_is_known() {
        const REFUSED: &Kind = &Kind::new(StatusCode::FORBIDDEN, "").flags(&[Flag::Audited]);
        let halted = |why: Refusal| {
            let refusal = why.after(BulkProgress {
                at: Some("out/c d".to_owned()),
                ..BulkProgress::of(BulkWork::Archive)
            });
            (audited(&refusal), refusal.leaves_doubt())
        };
        let event = AuditEvent::Refused("", Some("/out/c%20d".to_owned()));
        assert_eq!(halted(REFUSED.because("why")), (Some(event), false));
        let unknown = halted(Error::OutcomeUnknown { is_late: true }.into());
        assert_eq!(unknown, (None, true));
        let unsynced = halted(Error::Unsynced(Box::new(Error::Truncated)).into());
        assert_eq!(unsynced, (None, true));
        assert_eq!(halted(Error::TooLarge.into()), (None, false));
    }
}
