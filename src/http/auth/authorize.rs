//! Authorization: the rights that operations need. The [`Principal`] decides.
//!
//! Rights are decided by names alone, never by the state of the store. An operation that is allowed in part is narrowed
//! to that part: a PUT without the right to replace, to keys that have no value; a listing, to the keys that may be
//! listed. Keys that only the execution finds, in forms and in resumed uploads, are decided there.

use std::sync::Arc;

use hyper::{Method, StatusCode};

use crate::access::{Existing, LinkKind, Policy, Right};
use crate::http::auth::credentials::{AuthMethod, Principal, proven_subject, unauthenticated};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::too_large;
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::values::moves::{FolderMove, MoveRequest};
use crate::http::values::put::PutOptions;
use crate::metrics::AuthResult;
use crate::store::{self, Preconditions, WriteCondition};

const NOT_ALLOWED: &Kind = &Kind::new(StatusCode::FORBIDDEN, "not-allowed").flags(&[Flag::Audited]);
const EXISTS: &Kind = &Kind::new(StatusCode::CONFLICT, "exists").flags(&[Flag::Audited]);
const EXISTS_412: &Kind =
    &Kind::new(StatusCode::PRECONDITION_FAILED, "exists").flags(&[Flag::Audited]);

/// The kind of signed link that allows this method.
pub fn link_kind(method: &Method) -> Option<LinkKind> {
    match *method {
        Method::GET | Method::HEAD => Some(LinkKind::Read),
        Method::PUT => Some(LinkKind::Create),
        _ => None,
    }
}

/// The refusal of a client without this right.
fn not_allowed(right: Right) -> Refusal {
    let right = right.name();
    NOT_ALLOWED.because(format!("not allowed: this needs the right to {right} here"))
}

impl Principal {
    /// Narrows a PUT of `key` that may come in several requests. A link is for one.
    pub fn permit_upload(&self, key: &str, options: &mut PutOptions) -> Result<(), Refusal> {
        self.permit_put(key, options)?;
        match self.by {
            AuthMethod::Link { .. } => Err(not_allowed(Right::Write)),
            _ => Ok(()),
        }
    }

    /// Refuses a link to `key` without the rights to it.
    pub fn permit_share(&self, key: &str) -> Result<(), Refusal> {
        self.need(Right::Link, key)?;
        self.need(Right::Read, key)
    }

    /// True where the client may read the value of `key`, which its request does not name: a signed link is for the key
    /// that it names.
    pub fn may_read(&self, key: &str) -> bool {
        let by_link = matches!(self.by, AuthMethod::Link { .. });
        !by_link && self.subject.grant.allows(Right::Read, key)
    }

    /// Narrows a MOVE or COPY: at the source it is a GET and, if that loses its value, a DELETE, and at the destination
    /// a PUT.
    pub fn permit_move(&self, request: &mut MoveRequest) -> Result<(), Refusal> {
        let from = request.from.as_str();
        self.need(Right::Read, from)?;
        if !request.is_copy {
            self.need(Right::Delete, from)?;
        }
        let to = request.to.as_str();
        // Whether there was a value is the state of that.
        request.may_tell = self.subject.grant.allows(Right::Read, to);
        self.permit_put(to, &mut request.options)
    }

    /// Refuses the copy of a folder without the right to list it, or to create any key below the other.
    pub fn permit_copy(&self, asked: &FolderMove) -> Result<(), Refusal> {
        self.need(Right::List, &format!("{}/", asked.from))?;
        self.need_any(Right::Create, &format!("{}/", asked.to))
    }

    /// Refuses the removal of `folder` without the rights for all keys that there could be below it.
    pub fn permit_removal(&self, folder: &str) -> Result<(), Refusal> {
        let below = format!("{folder}/");
        self.need(Right::Delete, &below)?;
        // The answer has names and numbers.
        self.need(Right::List, &below)
    }

    /// Narrows a PUT of `key`.
    pub fn permit_put(&self, key: &str, options: &mut PutOptions) -> Result<(), Refusal> {
        self.need(Right::Create, key)?;
        let may_replace = self.subject.grant.allows(Right::Write, key);
        let exact = options.preconditions.as_ref().map(Preconditions::exact);
        match exact {
            Some(Some(WriteCondition::Create)) => Ok(()),
            Some(_) if !may_replace => Err(self.deny(Right::Write)),
            // A condition reveals the state of the value.
            Some(_) => self.need(Right::Read, key),
            None if may_replace => Ok(()),
            None => {
                options.preconditions = Some(Preconditions::NEW);
                options.existing = Some(self.subject.grant.existing(key));
                Ok(())
            }
        }
    }

    /// The same client by the rules of now, which may be others than when its request began.
    pub fn by_now(&self) -> Result<Self, Refusal> {
        self.by_policy(&self.access.policy())
    }

    /// The same client by the rules of `policy`.
    pub fn by_policy(&self, policy: &Policy) -> Result<Self, Refusal> {
        let mut now = self.clone();
        // The subject of a link is made of its terms.
        if !matches!(self.by, AuthMethod::Link { .. }) {
            let subject = proven_subject(policy, &self.evidence, self.by);
            let subject =
                subject.ok_or_else(|| unauthenticated(&self.access, AuthResult::Wrong))?;
            now.subject = Arc::clone(subject);
        }
        Ok(now)
    }

    /// Narrows a listing to the keys that may be listed; false where there is none.
    pub fn may_list(&self, page: &mut store::Page) -> bool {
        page.within = self.subject.grant.keys(Right::List).clone();
        page.within.may_have_below(&page.prefix)
    }

    pub fn permit_list(&self, page: &mut store::Page) -> Result<(), Refusal> {
        self.permit_if(self.may_list(page), Right::List)
    }

    /// Limits an upload of `len` bytes by a signed link to the length of the link.
    pub fn limit(&self, options: &mut PutOptions, len: Option<u64>) -> Result<(), Refusal> {
        let AuthMethod::Link { max } = self.by else {
            return Ok(());
        };
        options.most = max;
        match (max, len) {
            (Some(limit), Some(len)) if len > limit => Err(too_large(limit)),
            _ => Ok(()),
        }
    }

    /// Refuses a `key` without this `right`.
    pub fn need(&self, right: Right, key: &str) -> Result<(), Refusal> {
        self.permit_if(self.subject.grant.allows(right, key), right)
    }

    /// Refuses a `prefix` that no key with this `right` may have.
    pub fn need_any(&self, right: Right, prefix: &str) -> Result<(), Refusal> {
        self.permit_if(self.subject.grant.keys(right).may_have_below(prefix), right)
    }

    fn permit_if(&self, is_allowed: bool, right: Right) -> Result<(), Refusal> {
        is_allowed.then_some(()).ok_or_else(|| self.deny(right))
    }

    /// The refusal of a client that may create and not replace, for a key that has a value.
    pub fn deny_replacing(&self, existing: Existing) -> Refusal {
        if existing == Existing::NotAllowed {
            return self.deny(Right::Write);
        }
        self.access.count(AuthResult::NotAllowed);
        let kind = match existing {
            Existing::Precondition => EXISTS_412,
            _ => EXISTS,
        };
        kind.because("the key has a value: to replace it needs the right to write here")
    }

    /// The refusal of a client without this right; an anonymous one is asked to authenticate.
    pub fn deny(&self, right: Right) -> Refusal {
        if self.subject.is_anonymous {
            return unauthenticated(&self.access, AuthResult::Missing);
        }
        self.access.count(AuthResult::NotAllowed);
        not_allowed(right)
    }
}
