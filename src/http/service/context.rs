//! What a request is performed with: the parts of the service, and the context of the request; and the end of each
//! response: logged, audited, rendered.
//!
//! Any client can cause lines of the log, with or without an access log: they go through a [`Throttle`]. Reads no
//! header and decides no status.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use tokio::sync::Semaphore;
use tracing::field::display;

use crate::access::Existing;
use crate::http::admin::Admin;
use crate::http::audit::AuditEvent;
use crate::http::auth::Guard;
use crate::http::auth::credentials::Principal;
use crate::http::body::response::Body;
use crate::http::exchange::request_log::{
    Audit, IdGenerator, LogEntry, Timing, logged_fields, protocol,
};
use crate::http::exchange::{Exchange, RequestGuard};
use crate::http::head::client::{Client, Peer};
use crate::http::head::encode::Encoder;
use crate::http::head::path::path_of;
use crate::http::head::syntax::encoded;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::PRECONDITION;
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::response::{Reply, close};
use crate::http::service::operation::{PutOptions, ResponseContext};
use crate::http::service::respond::render;
use crate::http::service_config::ServiceConfig;
use crate::http::watch::feed::Subscribers;
use crate::log::Throttle;
use crate::metrics::ReactorCounters;
use crate::store::{Error, Key, Store, Uploader};

const PANICKED: &Kind = &Kind::new(StatusCode::INTERNAL_SERVER_ERROR, "internal")
    .flags(&[Flag::Closes, Flag::OfUnknownResult]);

/// The response to a request, as hyper takes it.
pub type Answer = Result<Response<Body>, Infallible>;

/// The service of one reactor.
pub struct Service {
    pub(crate) store: Arc<Store>,
    /// The number of the reactor.
    pub(crate) reactor: usize,
    pub(crate) config: ServiceConfig,
    pub(crate) admin: Arc<Admin>,
    pub(crate) ids: IdGenerator,
    /// The lines of the log that any client can cause.
    pub(crate) throttle: Throttle,
    /// The memory for the directories of zips while they are made, in bytes.
    pub(crate) directories: Arc<Semaphore>,
    /// `None` where there are no rules of access.
    pub(crate) guard: Option<Guard>,
    /// `None` where the store has no feed of changes.
    pub(crate) subscribers: Option<Rc<Subscribers>>,
    /// The encoder of heads that a connection sends itself.
    pub encoder: Encoder,
}

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
        mut result: Result<Reply, Refusal>,
        context: &ResponseContext,
        exchange: &Exchange,
        peer: Peer,
        request: Option<&RequestContext>,
    ) -> Response<Body> {
        if exchange.progress.given_up.get() {
            result = result.map_err(Refusal::of_late_body);
        }
        if self.config.logs.audit {
            exchange.record.set_audit(told(&mut result));
        }
        if let Err(refusal) = &result {
            self.log_refusal(refusal, Some(peer), request);
        }
        render(result, context, &self.config)
    }

    /// The error of a body that ends before its end for the reason `why`: the logs have that, and the client no more
    /// than that it broke off.
    pub fn broke_off(&self, why: Refusal, exchange: &Exchange) -> Error {
        self.log_refusal(&why, None, None);
        let audit = |event| exchange.record.audit_now(event);
        events_of(&why).into_iter().for_each(audit);
        why.into_failure()
    }

    /// The response to a request that has no more in the logs.
    pub fn render(
        &self,
        result: Result<Reply, Refusal>,
        context: &ResponseContext,
    ) -> Response<Body> {
        if let Err(refusal) = &result {
            self.log_refusal(refusal, None, None);
        }
        render(result, context, &self.config)
    }

    /// Logs a refusal of a host or an origin, which an option can allow, and a failure of the store with the cause,
    /// which the client does not get.
    fn log_refusal(&self, refusal: &Refusal, peer: Option<Peer>, request: Option<&RequestContext>) {
        let message = "refused a host or an origin";
        if let Some(error) = refusal.cause() {
            self.log_failure(error, request);
        } else if refusal.kind.has(Flag::Logged)
            && let Some(left_out) = self.throttle.pass(message)
        {
            let peer = peer.map(display);
            tracing::warn!(peer, cause = %refusal, left_out, "{message}");
        }
    }

    /// Logs a failure of the store, at most one of a kind in a second.
    pub fn log_failure(&self, error: &Error, request: Option<&RequestContext>) {
        let message = match error {
            Error::Unsynced(why) => return self.log_failure(why, request),
            Error::Failed { .. } | Error::BadGateway { .. } => "the store failed",
            Error::Refused { .. } => "the store refuses requests",
            Error::Unreachable { .. } => "the store cannot be reached",
            Error::Busy { .. } | Error::TimedOut | Error::OutcomeUnknown { .. } => {
                "no answer of the store"
            }
            Error::Truncated => "a read failed",
            Error::NoSpace { .. } | Error::Counting | Error::Exhausted { .. } | Error::TooLarge => {
                "out of resources"
            }
            Error::Forbidden { .. } => "the file system denies access",
            // The store itself logs once that its directory has gone, or is read-only.
            Error::Displaced { .. }
            | Error::ReadOnly
            | Error::Occupied(_)
            | Error::NameTaken(_)
            | Error::FolderKept
            | Error::NoParent(_)
            | Error::NoFolder
            | Error::Precondition
            | Error::HalfMoved(..)
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
            Error::Refused(said) | Error::BadGateway(said) => {
                tracing::error!(%said, left_out, "{message}");
            }
            Error::Unreachable(said) => tracing::warn!(%said, left_out, "{message}"),
            error => {
                let peer = request.map(|request| display(&request.client.peer));
                let key = request.map(|request| &*request.path);
                let size = request.and_then(|request| request.size);
                tracing::warn!(%error, peer, key, size, left_out, "{message}");
            }
        }
    }

    /// The entry of a request in the logs; there is no `head` where it could not be understood.
    pub fn log_entry(
        &self,
        head: Option<&Parts>,
        client: Client,
        principal: Option<&Principal>,
    ) -> LogEntry {
        let Self { config, ids, .. } = self;
        let logs = config.logs;
        let logged_head = head.filter(|_| logs.have_client_fields());
        let tried = || {
            let head = head.filter(|_| principal.is_none())?;
            self.guard.as_ref()?.tried(&head.headers)
        };
        LogEntry {
            ids: ids.identify(head.map_or(&HeaderMap::new(), |head| &head.headers)),
            timing: config.server_timing.then(Timing::default),
            client,
            reactor: self.reactor,
            method: head.map(|head| head.method.clone()),
            target: head.map_or("-", |head| head.uri.path()).to_owned(),
            subject: principal.map(|principal| principal.subject.name.clone()),
            protocol: head.map_or("-", |head| protocol(head.version)),
            access: logs.access.then_some(logs.format),
            fields: logged_head.map(|head| Box::new(logged_fields(head))),
            audit: logs.audit.then(|| Audit {
                by: principal.map_or("nothing", Principal::name_of_evidence),
                tried: tried(),
                events: Vec::new(),
                is_open: false,
            }),
            received: 0,
            sent: 0,
        }
    }

    /// Logs and counts a panic. The connection ends with it: how much of the request was read is not known.
    pub fn panicked(
        &self,
        exchange: &Exchange,
        client: Client,
        method: &Method,
        path: &str,
        head: Option<&Parts>,
    ) -> Refusal {
        let entry = || self.log_entry(head, client, None);
        let request_id = exchange.record.request_id(entry);
        tracing::error!(request_id, peer = %client.peer, %method, key = path, "a request panicked");
        exchange.counters().panics.add(1);
        exchange.leave_unread();
        PANICKED.because("the server failed on this request; its log says more")
    }
}

/// A request while it is performed. It holds no part of the head, which would keep all of the head's buffer.
pub struct RequestContext {
    pub service: Rc<Service>,
    pub guard: RequestGuard,
    pub client: Client,
    pub context: ResponseContext,
    pub method: Method,
    pub path: Box<str>,
    /// The length of the body in bytes, if the head has it.
    pub size: Option<u64>,
}

impl RequestContext {
    /// True where the response is a head alone.
    pub fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// The authenticated client; `None` where there are no rules.
    pub fn principal(&self) -> Option<&Principal> {
        self.context.principal.as_deref()
    }

    /// True where the client may read the value of `key`, which its request does not name.
    pub fn may_read(&self, key: &Key<'_>) -> bool {
        self.principal()
            .is_none_or(|principal| principal.may_read(key.as_str()))
    }

    /// The counters of the reactor.
    pub fn counters(&self) -> &ReactorCounters {
        self.guard.exchange.counters()
    }

    /// The uploader in whose quota an upload counts: a subject that was authenticated, wherever it connects from, else
    /// the address.
    pub fn uploader(&self) -> Uploader {
        match self.principal() {
            Some(principal) if !principal.subject.is_anonymous => {
                Uploader(format!("subject {}", principal.subject.name).into())
            }
            _ => Uploader(self.client.peer.source().to_string().into()),
        }
    }

    /// The client by the rules of now, if it is still one of those that `permit` lets go on.
    pub fn permitted_now(
        &self,
        permit: impl FnOnce(&Principal) -> Result<(), Refusal>,
    ) -> Result<Option<Principal>, Refusal> {
        let client = self.principal().map(Principal::by_now).transpose()?;
        client.as_ref().map_or(Ok(()), permit)?;
        Ok(client)
    }

    /// Narrows a PUT of `key`, which the head of the request does not name, to what the client may store there now.
    pub fn permit_put(&self, key: &Key<'_>, options: &mut PutOptions) -> Result<(), Refusal> {
        let permit = |client: &Principal| options.permit(key.as_str(), client);
        self.permitted_now(permit).map(drop)
    }

    /// Writes to the audit log that the value of `key` was stored, one of many that the request brings.
    pub fn audit_changed(&self, key: &Key<'_>) {
        if self.service.config.logs.audit {
            let event = AuditEvent::Changed(Some(path_of(key)));
            self.guard.exchange.record.audit_now(event);
        }
    }

    /// Writes to the audit log that the client was refused, if it was, what the request would do with the value of
    /// `key`, one of many.
    pub fn audit_refused(&self, key: &Key<'_>, why: &Refusal) {
        if why.kind.has(Flag::Audited) {
            let event = AuditEvent::Refused(why.name(), Some(path_of(key)));
            self.guard.exchange.record.audit_now(event);
        }
    }

    /// The result of a PUT. Where it was narrowed to a key without a value, its client gave no precondition that could
    /// fail: it is refused because it may not replace.
    pub fn narrowed<T>(
        &self,
        existing: Option<Existing>,
        stored: Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        stored.map_err(|why| match (why, self.principal(), existing) {
            (why, Some(client), Some(existing)) if why.kind == PRECONDITION.kind => {
                client.deny_replacing(existing)
            }
            (why, ..) => why,
        })
    }
}

/// Gives `response` the headers that every response has, and lets the request end with its body.
pub fn attach(response: &mut Response<Body>, guard: RequestGuard) {
    if guard.exchange.is_last() {
        guard.exchange.close_after_response();
        close(response);
    }
    let status = response.status().as_u16();
    let record = &guard.exchange.record;
    record.answered(status, response.headers_mut());
    response.body_mut().ends(guard);
}

/// What the audit log is told of a request, by what came of it. False where the result of a change is not known.
fn told(result: &mut Result<Reply, Refusal>) -> (Vec<AuditEvent>, bool) {
    match result {
        Ok(reply) => (reply.take_events(), true),
        Err(refusal) => (events_of(refusal), !refusal.leaves_doubt()),
    }
}

/// The events of a refused request: what it had changed, and whether its client was refused.
fn events_of(refusal: &Refusal) -> Vec<AuditEvent> {
    let done = refusal.done();
    let mut events = done.map_or_else(Vec::new, |done| done.events.clone());
    if let Some(Error::FolderKept) = refusal.cause() {
        events.push(AuditEvent::Changed(None));
    }
    if refusal.kind.has(Flag::Audited) {
        let at = done.and_then(|done| done.at.as_ref());
        let path = at.map(|at| format!("/{}", encoded(at)));
        events.push(AuditEvent::Refused(refusal.name(), path));
    }
    events
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::{Done, Work};
    use crate::http::service::context::*;

    #[test]
    fn of_what_ends_early_each_change_is_told_and_why_it_ended() {
        const REFUSED: &Kind = &Kind::new(StatusCode::FORBIDDEN, "").flags(&[Flag::Audited]);
        let halted = |why: Refusal| {
            let refusal = why.after(Done {
                at: Some("out/c d".to_owned()),
                events: vec![AuditEvent::Changed(Some("/in/a%20b".to_owned()))],
                ..Done::of(Work::Archive)
            });
            told(&mut Err(refusal))
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
