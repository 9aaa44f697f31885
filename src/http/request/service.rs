//! What every request of a reactor is performed with, and the lines of the log about requests and their failures.
//!
//! Any client can cause lines of the log, with or without an access log: they go through a [`Throttle`]. Reads no
//! header but those that the logs have, and decides no status.

use std::sync::Arc;

use hyper::Method;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use tokio::sync::Semaphore;
use tracing::field::display;

use crate::http::auth::Guard;
use crate::http::auth::credentials::Principal;
use crate::http::exchange::ConnectionState;
use crate::http::exchange::request_log::{
    Audit, IdGenerator, LogEntry, Timing, logged_fields, protocol,
};
use crate::http::head::client::{Client, Peer};
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Flag;
use crate::http::request::{RequestContext, audit};
use crate::http::service_config::ServiceConfig;
use crate::log::Throttle;
use crate::store::{Error, Store};

/// What every request of one reactor is performed with.
pub struct Service {
    pub(crate) store: Arc<Store>,
    /// The number of the reactor.
    pub(crate) reactor: usize,
    pub(crate) config: ServiceConfig,
    pub(crate) ids: IdGenerator,
    /// The lines of the log that any client can cause.
    pub(crate) throttle: Throttle,
    /// The memory for the directories of zips while they are made, in bytes.
    pub(crate) directories: Arc<Semaphore>,
    /// `None` where there are no rules of access.
    pub(crate) guard: Option<Guard>,
}

impl Service {
    /// The error of a body that ends before its end for the reason `why`: the logs have that, and the client no more
    /// than that it broke off.
    pub fn broke_off(&self, why: Refusal, connection: &ConnectionState) -> Error {
        self.log_refusal(&why, None, None);
        let (events, _) = audit::of_refusal(&why, &self.config);
        let audit = |event| connection.record.audit_now(event);
        events.into_iter().for_each(audit);
        match why {
            Refusal::Store(error) => error,
            _ => Error::Incomplete,
        }
    }

    /// Logs a refusal of a host or an origin, which an option can allow, and a failure of the store with the cause,
    /// which the client does not get.
    pub fn log_refusal(
        &self,
        refusal: &Refusal,
        peer: Option<Peer>,
        request: Option<&RequestContext>,
    ) {
        let message = "refused a host or an origin";
        match refusal.reason() {
            Refusal::Store(error) => self.log_failure(error, request),
            cause if cause.kind(self.config.compat).has(Flag::Logged) => {
                if let Some(left_out) = self.throttle.pass(message) {
                    let peer = peer.map(display);
                    tracing::warn!(peer, %cause, left_out, "{message}");
                }
            }
            _ => {}
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
        connection: &ConnectionState,
        client: Client,
        method: &Method,
        path: &str,
        head: Option<&Parts>,
    ) -> Refusal {
        let entry = || self.log_entry(head, client, None);
        let request_id = connection.record.request_id(entry);
        tracing::error!(request_id, peer = %client.peer, %method, key = path, "a request panicked");
        connection.counters().panics.add(1);
        connection.leave_unread();
        Refusal::Panicked
    }
}
