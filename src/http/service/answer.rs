//! The end of each response: logged, audited, rendered.

use std::convert::Infallible;

use hyper::Response;

use crate::http::audit::AuditEvent;
use crate::http::body::response::Body;
use crate::http::exchange::{Exchange, RequestGuard};
use crate::http::head::client::Peer;
use crate::http::refusal::Refusal;
use crate::http::request::audit::of_refusal;
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
        if self.config.logs.audit {
            exchange.record.set_audit(events(&mut result));
        }
        if let Err(refusal) = &result {
            self.log_refusal(refusal, Some(peer), request);
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

/// The events of a request for the audit log, by its result. False where the result of a change is not known.
fn events(result: &mut Outcome) -> (Vec<AuditEvent>, bool) {
    match result {
        Ok(reply) => (reply.take_events(), true),
        Err(refusal) => (of_refusal(refusal), !refusal.leaves_doubt()),
    }
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use crate::http::refusal::kind::{Flag, Kind};
    use crate::http::refusal::{Done, Work};
    use crate::http::service::answer::*;
    use crate::store::Error;

    #[test]
    fn of_what_ends_early_each_change_is_told_and_why_it_ended() {
        const REFUSED: &Kind = &Kind::new(StatusCode::FORBIDDEN, "").flags(&[Flag::Audited]);
        let halted = |why: Refusal| {
            let refusal = why.after(Done {
                at: Some("out/c d".to_owned()),
                events: vec![AuditEvent::Changed(Some("/in/a%20b".to_owned()))],
                ..Done::of(Work::Archive)
            });
            events(&mut Err(refusal))
        };
        let first = || AuditEvent::Changed(Some("/in/a%20b".to_owned()));
        let second = AuditEvent::Refused("", Some("/out/c%20d".to_owned()));
        assert_eq!(
            halted(REFUSED.because("why")),
            (vec![first(), second], true)
        );
        let unknown = halted(Error::OutcomeUnknown { is_late: true }.into());
        assert_eq!(unknown, (vec![first()], false));
        let unsynced = halted(Error::Unsynced(Box::new(Error::Truncated)).into());
        assert_eq!(unsynced, (vec![first()], false));
        let full = halted(Error::TooLarge.into());
        assert_eq!(full, (vec![first()], true));
    }
}
