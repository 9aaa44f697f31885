//! The handler of a reactor: all that its requests are performed with, and the end of each response.
//!
//! Reads no header and decides no status.

use std::sync::Arc;

use hyper::Response;
use hyper::http::request::Parts;

use crate::http::admin::Admin;
use crate::http::auth::credentials::Principal;
use crate::http::auth::guard::Guard;
use crate::http::body::response::Body;
use crate::http::client::Client;
use crate::http::exchange::access_log::{LogEntry, protocol};
use crate::http::exchange::audit_log::Audit;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::logged_fields::LoggedFields;
use crate::http::exchange::record::RequestRecord;
use crate::http::exchange::request_metrics::{LogContext, Timing};
use crate::http::head::identity::IdGenerator;
use crate::http::refusal::log::{RejectionLog, audit_outcome};
use crate::http::response::outcome::Outcome;
use crate::http::response::plain::close;
use crate::http::response::render;
use crate::http::service::operation::ResponseContext;
use crate::http::service_config::ServiceConfig;
use crate::store::Store;

/// The means that the requests of a reactor are performed with.
#[derive(Debug)]
pub struct Handler {
    pub store: Arc<Store>,
    /// The number of the reactor.
    pub reactor: usize,
    pub config: ServiceConfig,
    pub admin: Arc<Admin>,
    pub ids: IdGenerator,
    pub rejection_log: RejectionLog,
    pub guard: Guard,
}

impl Handler {
    /// `response`, once its first bytes are in memory: a value that cannot be read is an error, not a promise cut off.
    pub async fn wait_for_first_bytes(
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
        if self.config.logs.audit {
            record.set_audit(audit_outcome(&outcome, &self.config));
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

    /// The notes of a request for the log; without a `head`, it could not be understood.
    pub fn notes(
        &self,
        head: Option<&Parts>,
        client: Client,
        proof: Option<&Principal>,
    ) -> LogContext {
        let config = &self.config;
        let logs = config.logs;
        let line = logs.any().then(|| LogEntry {
            client,
            reactor: self.reactor,
            method: head.map(|head| head.method.clone()),
            target: head.map_or("-", |head| head.uri.path()).to_owned(),
            subject: proof.map(|proof| proof.subject.name.clone()),
            protocol: head.map_or("-", |head| protocol(head.version)),
            access: logs.access.then_some(logs.format),
            said: head
                .filter(|_| logs.tell_of_client())
                .map(|head| Box::new(LoggedFields::of(head))),
            audit: logs.audit.then(|| Audit::of(proof)),
            received: 0,
            bytes: 0,
        });
        let identity = head.map(|head| self.ids.identify(&head.headers));
        LogContext {
            identity: identity.unwrap_or_else(|| self.ids.anonymous()),
            line,
            timing: config.server_timing.then(Timing::default),
        }
    }
}

/// Gives `response` what every response has, and has `record` end with its body.
pub fn attach_record(
    response: &mut Response<Body>,
    connection: &ConnectionState,
    record: RequestRecord,
) {
    if connection.is_last() {
        close(response);
    }
    let status = response.status().as_u16();
    record.answered(status, response.headers_mut());
    response.body_mut().ends(record);
}
