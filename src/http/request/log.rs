//! The lines of the log about requests that are refused, and about failures of the store.
//!
//! Any client can cause lines of the log, with or without an access log: they go through a throttle.

use tracing::field::display;

use crate::http::audit::AuditEvent;
use crate::http::exchange::Exchange;
use crate::http::head::client::Peer;
use crate::http::head::syntax::encoded;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Flag;
use crate::http::request::{RequestContext, Service};
use crate::store::Error;

/// The event of the audit log that a client was refused, if it was the client itself.
pub fn audited(refusal: &Refusal) -> Option<AuditEvent> {
    let at = || Some(format!("/{}", encoded(refusal.done()?.at.as_ref()?)));
    let is_audited = refusal.kind.has(Flag::Audited);
    is_audited.then(|| AuditEvent::Refused(refusal.name(), at()))
}

impl Service {
    /// The error of a body that ends before its end for the reason `why`: the logs have that, and the client no more
    /// than that it broke off.
    pub fn broke_off(&self, why: Refusal, exchange: &Exchange) -> Error {
        self.log_refusal(&why, None, None);
        if let Some(event) = audited(&why) {
            exchange.record.audit_now(event);
        }
        why.into_failure()
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
            Error::NoSpace { .. } => "no room for a value",
            Error::TooLarge => "a value is too large",
            Error::Exhausted { .. } => "out of resources",
            Error::Forbidden { .. } => "the file system denies access",
            // The store itself logs once that its directory has gone, or is read-only, and how far a count is.
            Error::Displaced { .. }
            | Error::Counting { .. }
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
}
