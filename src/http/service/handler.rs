//! What performs the requests of a reactor, and gives each response what every response has.
//!
//! Reads no header and decides no status.

use std::sync::Arc;

use hyper::Response;

use crate::http::admin::Admin;
use crate::http::auth::guard::Guard;
use crate::http::body::response::Body;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::record::RequestRecord;
use crate::http::head::identity::Ids;
use crate::http::refusal::audited::told;
use crate::http::refusal::log::RejectionLog;
use crate::http::response::outcome::Outcome;
use crate::http::response::plain::close;
use crate::http::response::render;
use crate::http::service::operation::ResponseContext;
use crate::http::service_config::ServiceConfig;
use crate::store::Store;

/// What the requests of a reactor are performed with.
#[derive(Debug)]
pub struct Handler {
    pub store: Arc<Store>,
    /// The number of the reactor.
    pub reactor: usize,
    pub config: ServiceConfig,
    pub admin: Arc<Admin>,
    pub ids: Ids,
    pub rejection_log: RejectionLog,
    pub guard: Guard,
}

impl Handler {
    /// `response`, once its first bytes are in memory: a value that cannot be read is an error, not a promise cut off.
    pub async fn begun(
        &self,
        mut response: Response<Body>,
        context: &ResponseContext,
    ) -> Response<Body> {
        match response.body_mut().begin().await {
            Ok(()) => response,
            Err(error) => self.render(error.into(), context),
        }
    }

    /// The response to the request of `record`, which came to `outcome`.
    pub fn conclude(
        &self,
        mut outcome: Outcome,
        context: &ResponseContext,
        record: &RequestRecord,
    ) -> Response<Body> {
        if record.is_late() {
            outcome = outcome.of_late_body();
        }
        if self.config.audit_log {
            record.tells(told(&outcome, &self.config));
        }
        self.render(outcome, context)
    }

    /// The response to a request that came to `outcome`.
    pub fn render(&self, outcome: Outcome, context: &ResponseContext) -> Response<Body> {
        let why = match &outcome {
            Outcome::FormHalted(halted) => &halted.why,
            why => why,
        };
        if let Outcome::Failed(error) = why {
            self.rejection_log.failed(error);
        }
        render(outcome, context, &self.config)
    }
}

/// Gives `response` what every response has, and has `record` end with its body.
pub fn seal(
    mut response: Response<Body>,
    connection: &ConnectionState,
    record: RequestRecord,
) -> Response<Body> {
    if connection.is_last() {
        close(&mut response);
    }
    let status = response.status().as_u16();
    record.answered(status, response.headers_mut());
    response.map(|body| body.ends(record))
}
