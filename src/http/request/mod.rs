//! A request while it is performed: who asks, on which connection, and what the features read of it. Every feature
//! imports this, and it imports none.

pub mod head;
pub mod log;
pub mod service;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use hyper::header::HeaderValue;
use hyper::{Method, Response};
use percent_encoding::percent_decode_str;

use crate::access::Existing;
use crate::failpoint;
use crate::http::audit::AuditEvent;
use crate::http::auth::credentials::Principal;
use crate::http::body::response::Body;
use crate::http::exchange::RequestGuard;
use crate::http::head::client::Client;
use crate::http::head::path::path_of;
use crate::http::locks::{Changing, Locks, Scope};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::PRECONDITION;
use crate::http::refusal::kind::Flag;
use crate::http::response::close;
use crate::http::response::problem::ErrorForm;
use crate::metrics::ReactorCounters;
use crate::store::{Key, Uploader};

pub use service::Service;

/// The facts about a request that its response depends on.
#[derive(Debug, Default)]
pub struct ResponseContext {
    pub errors: ErrorForm,
    /// The authenticated client; `None` where there are no rules.
    pub principal: Option<Rc<Principal>>,
    /// The origin of the page that asks, if it is allowed.
    pub origin: Option<HeaderValue>,
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
    /// The tokens of locks that its client has sent.
    pub tokens: RefCell<Vec<String>>,
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

    /// Its id, as the logs have it.
    pub fn request_id(&self) -> String {
        let entry = || self.service.log_entry(None, self.client, self.principal());
        self.guard.exchange.record.request_id(entry)
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

    /// Begins a change of these names, unless this server is read-only, or one is locked; they are being changed until
    /// what this returns is dropped. Should its result never become known, the audit log has that.
    pub fn begin_change(&self, scopes: &[Scope<'_>]) -> Result<Option<Changing>, Refusal> {
        self.service.config.may_change()?;
        let begin = |locks: &Arc<Locks>| {
            locks.begin_change(scopes, &self.tokens.borrow(), &self.uploader())
        };
        let changing = self.service.locks.as_ref().map(begin).transpose()?;
        self.guard.exchange.record.begin_change();
        failpoint::reach("work", &self.path);
        Ok(changing)
    }

    /// The audit log has that the value of `key` was changed.
    pub fn changed(&self, key: &Key<'_>) {
        self.audit_change(key, "");
    }

    /// The audit log has that the folder of this name was changed.
    pub fn changed_folder(&self, folder: &Key<'_>) {
        self.audit_change(folder, "/");
    }

    fn audit_change(&self, name: &Key<'_>, end: &str) {
        if let Some(change) = self.change_of(name, end) {
            self.guard.exchange.record.audit(change);
        }
    }

    /// What the audit log has of a change of this name, if there is one. A name that is the one of the request is
    /// written as its client wrote it.
    pub fn change_of(&self, name: &Key<'_>, end: &str) -> Option<AuditEvent> {
        let asked = || percent_decode_str(&self.path).decode_utf8_lossy();
        let is_asked = || asked().trim_matches('/') == name.as_str();
        let path = || (!is_asked()).then(|| path_of(name) + end);
        let audit = self.service.config.logs.audit;
        audit.then(|| AuditEvent::Changed(path()))
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

    /// [`narrowed`] for the client of this request.
    pub fn narrowed<T>(
        &self,
        existing: Option<Existing>,
        stored: Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        narrowed(self.principal(), existing, stored)
    }
}

/// The result of a PUT. Where it was narrowed to a key without a value, its client gave no precondition that could
/// fail: it is refused because it may not replace.
pub fn narrowed<T>(
    client: Option<&Principal>,
    existing: Option<Existing>,
    stored: Result<T, Refusal>,
) -> Result<T, Refusal> {
    stored.map_err(|why| match (why, client, existing) {
        (why, Some(client), Some(existing)) if why.kind == PRECONDITION.kind => {
            client.deny_replacing(existing)
        }
        (why, ..) => why,
    })
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
