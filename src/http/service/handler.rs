//! The handler of a reactor: the means that its requests are performed with, and the end of each response: logged, audited, rendered.
//!
//! Any client can cause lines of the log, with or without an access log: they go through a [`Throttle`]. Reads no header and decides no status.

use std::sync::Arc;

use hyper::Response;
use hyper::http::request::Parts;
use tracing::field::display;

use crate::http::admin::Admin;
use crate::http::auth::Guard;
use crate::http::auth::credentials::Principal;
use crate::http::body::response::Body;
use crate::http::client::{Client, Peer};
use crate::http::exchange::ConnectionState;
use crate::http::exchange::record::{RequestInfo, RequestRecord};
use crate::http::exchange::request_log::{
    Audit, AuditEvent, AuditOutcome, IdGenerator, LogEntry, LoggedFields, protocol,
};
use crate::http::exchange::request_metrics::{LogContext, Timing};
use crate::http::forms::StoredFile;
use crate::http::head::syntax::encoded;
use crate::http::refusal::Refusal;
use crate::http::refusal::table::Flag;
use crate::http::response::outcome::Outcome;
use crate::http::response::plain::close;
use crate::http::response::render;
use crate::http::service::operation::ResponseContext;
use crate::http::service_config::ServiceConfig;
use crate::log::Throttle;
use crate::store::{Error, Key, Store};

/// The means that the requests of a reactor are performed with.
#[derive(Debug)]
pub struct Handler {
    pub store: Arc<Store>,
    /// The number of the reactor.
    pub reactor: usize,
    pub config: ServiceConfig,
    pub admin: Arc<Admin>,
    pub ids: IdGenerator,
    /// The lines of the log that any client can cause.
    pub throttle: Throttle,
    pub guard: Guard,
}

impl Handler {
    /// Waits until the first bytes of the body are in memory, so that an unreadable value becomes an error response instead of a truncated
    /// body.
    pub async fn wait_for_first_bytes(
        &self,
        mut response: Response<Body>,
        context: &ResponseContext,
    ) -> Response<Body> {
        match response.body_mut().begin().await {
            Ok(()) => response,
            Err(error) => self.render(Err(error.into()), context),
        }
    }

    /// The response to a request, by what came of it, which the audit log gets.
    pub fn conclude(
        &self,
        mut result: Result<Outcome, Refusal>,
        context: &ResponseContext,
        record: &RequestRecord,
        peer: Peer,
        info: Option<&RequestInfo>,
    ) -> Response<Body> {
        if record.is_late() {
            result = result.map_err(Refusal::of_late_body);
        }
        if self.config.logs.audit {
            record.set_audit(audit_outcome(&result, &self.config));
        }
        if let Err(refusal) = &result {
            self.log_refusal(refusal, Some(peer), info);
        }
        render(result, context, &self.config)
    }

    /// The response to a request of which no log tells more.
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

    /// Logs a refusal of a host or an origin, which an option can allow, and a failure of the store with the cause, which the client does
    /// not get.
    fn log_refusal(&self, refusal: &Refusal, peer: Option<Peer>, info: Option<&RequestInfo>) {
        let message = "refused a host or an origin";
        match refusal.reason() {
            Refusal::Store(error) => self.log_failure(error, info),
            cause if cause.row(&self.config).has(Flag::Logged) => {
                if let Some(left_out) = self.throttle.pass(message) {
                    let peer = peer.map(display);
                    tracing::warn!(peer, %cause, left_out, "{message}");
                }
            }
            _ => {}
        }
    }

    fn log_failure(&self, error: &Error, info: Option<&RequestInfo>) {
        let message = match error {
            Error::Unsynced(why) => return self.log_failure(why, info),
            Error::Failed { .. } | Error::BadGateway { .. } => "the store failed",
            Error::Refused { .. } => "the store refuses requests",
            Error::Unreachable { .. } => "the store cannot be reached",
            Error::Busy { .. } | Error::TimedOut | Error::OutcomeUnknown { .. } => {
                "no answer of the store"
            }
            Error::Truncated => "a read failed",
            Error::NoSpace { .. } | Error::Exhausted { .. } | Error::TooLarge => "out of resources",
            Error::Forbidden { .. } => "the file system denies access",
            // The store itself logs once that its directory has gone, or is read-only.
            Error::Displaced { .. }
            | Error::ReadOnly
            | Error::Occupied(_)
            | Error::Precondition
            | Error::NotSupported { .. }
            | Error::BadKey(_)
            | Error::Incomplete => return,
        };
        let Some(left_out) = self.throttle.pass(message) else {
            return;
        };
        match error {
            Error::Failed { doing, source } => {
                tracing::error!(doing, cause = %source, left_out, "{message}");
            }
            Error::Forbidden { doing, source } => {
                tracing::warn!(doing, cause = %source, left_out, "{message}");
            }
            Error::Refused { said } | Error::BadGateway { said } => {
                tracing::error!(%said, left_out, "{message}");
            }
            Error::Unreachable { said } => tracing::warn!(%said, left_out, "{message}"),
            error => {
                let peer = info.map(|info| display(&info.peer));
                let key = info.map(|info| &*info.path);
                let size = info.and_then(|info| info.size);
                tracing::warn!(%error, peer, key, size, left_out, "{message}");
            }
        }
    }

    /// The log context of a request; there is no `head` where it could not be understood.
    pub fn log_context(
        &self,
        head: Option<&Parts>,
        client: Client,
        proof: Option<&Principal>,
    ) -> LogContext {
        let config = &self.config;
        let logs = config.logs;
        let entry = logs.any().then(|| LogEntry {
            client,
            reactor: self.reactor,
            method: head.map(|head| head.method.clone()),
            target: head.map_or("-", |head| head.uri.path()).to_owned(),
            subject: proof.map(|proof| proof.subject.name.clone()),
            protocol: head.map_or("-", |head| protocol(head.version)),
            access: logs.access.then_some(logs.format),
            fields: head
                .filter(|_| logs.tell_of_client())
                .map(|head| Box::new(LoggedFields::of(head))),
            audit: logs.audit.then(|| Audit {
                by: proof.map_or("nothing", Principal::name_of_evidence),
                tried: head
                    .filter(|_| proof.is_none())
                    .and_then(|head| self.guard.tried(&head.headers)),
                events: Vec::new(),
                is_open: false,
            }),
            received: 0,
            bytes: 0,
        });
        let ids = head.map(|head| self.ids.identify(&head.headers));
        LogContext {
            ids: ids.unwrap_or_else(|| self.ids.anonymous()),
            entry,
            timing: config.server_timing.then(Timing::default),
        }
    }
}

/// Gives `response` the headers that every response has, and lets `record` end with its body.
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

/// The events of a request in the audit log, by what came of it.
pub fn audit_outcome(result: &Result<Outcome, Refusal>, config: &ServiceConfig) -> AuditOutcome {
    let mut events = Vec::new();
    match result {
        Ok(Outcome::Upload(outcome, _)) => add_changes(outcome, &mut events),
        Ok(outcome) => add_changes(outcome, &mut events),
        Err(refusal) => {
            let mut file = None;
            if let Refusal::OfForm(halted) = refusal {
                events.extend(changed(&halted.stored));
                file = halted.file.as_ref().map(path);
            }
            let row = refusal.row(config);
            let is_audited = row.has(Flag::Audited);
            events.extend(is_audited.then_some(AuditEvent::Refused(row.name, file)));
        }
    }
    let reason = result.as_ref().err().map(Refusal::reason);
    AuditOutcome {
        events,
        is_complete: !matches!(
            reason,
            Some(Refusal::Store(Error::OutcomeUnknown { .. }) | Refusal::Panicked)
        ),
    }
}

fn add_changes(outcome: &Outcome, events: &mut Vec<AuditEvent>) {
    match outcome {
        Outcome::Stored(_) | Outcome::Deleted => events.push(AuditEvent::Changed(None)),
        Outcome::Completed(key, _) | Outcome::Cancelled(key) => {
            events.push(AuditEvent::Changed(Some(path(key))));
        }
        Outcome::FormStored(stored) => events.extend(changed(&stored.files)),
        _ => {}
    }
}

fn changed(files: &[StoredFile]) -> impl Iterator<Item = AuditEvent> {
    let stored = files.iter().filter(|file| file.published.is_some());
    stored.map(|file| AuditEvent::Changed(Some(path(&file.key))))
}

fn path(key: &Key<'_>) -> String {
    format!("/{}", encoded(key.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::HaltedForm;
    use crate::http::service::handler::*;
    use crate::store::Published;

    fn key(name: &str) -> Key<'static> {
        Key::new(name.to_owned()).expect("a key")
    }

    #[test]
    fn of_a_form_that_ends_early_each_file_is_told_and_why_it_ended() {
        let halted = |why| {
            let stored = vec![StoredFile {
                key: key("in/a b"),
                published: Some(Published {
                    etag: String::new(),
                    modified: None,
                }),
            }];
            let file = Some(key("out/c"));
            let halted = HaltedForm {
                folder: String::new(),
                file,
                stored,
                why,
            };
            let result = Err(Refusal::OfForm(Box::new(halted)));
            audit_outcome(&result, &ServiceConfig::default())
        };
        let first = || AuditEvent::Changed(Some("/in/a%20b".to_owned()));
        let realm = "r".into();
        let refused = halted(Refusal::Unauthenticated { realm });
        let second = AuditEvent::Refused("unauthenticated", Some("/out/c".to_owned()));
        assert_eq!(
            (refused.events, refused.is_complete),
            (vec![first(), second], true)
        );
        let unknown = halted(Error::OutcomeUnknown { is_late: true }.into());
        assert_eq!(
            (unknown.events, unknown.is_complete),
            (vec![first()], false)
        );
        let full = halted(Error::TooLarge.into());
        assert_eq!((full.events, full.is_complete), (vec![first()], true));
    }
}
