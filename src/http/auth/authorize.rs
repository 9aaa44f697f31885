//! Authorization: whether the client of a request has the rights that it [needs](Need). The [`Principal`] decides.
//!
//! Rights are decided by names alone, never by the state of the store. An operation that is allowed in part is narrowed
//! to that part: a PUT without the right to replace, to keys that have no value; a listing, to the keys that may be
//! listed. Keys that only the execution finds, in forms and in resumed uploads, are decided there.

use std::sync::Arc;

use hyper::{Method, StatusCode};

use crate::access::{Existing, LinkKind, Policy, Right};
use crate::http::auth::credentials::{AuthMethod, Principal, proven_subject, unauthenticated};
use crate::http::auth::need::Need;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use crate::metrics::AuthResult;
use crate::store;

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
pub fn not_allowed(right: Right) -> Refusal {
    let right = right.name();
    NOT_ALLOWED.because(format!("not allowed: this needs the right to {right} here"))
}

impl Principal {
    /// Refuses what does not meet this `need`. What is to be stored may then be narrowed.
    pub fn meet(&self, need: &Need<'_>) -> Result<(), Refusal> {
        match need {
            Need::All(right, of) => self.need(*right, of),
            Need::Any(right, prefix) => {
                let keys = self.subject.grant.keys(*right);
                self.permit_if(keys.may_have_below(prefix), *right)
            }
            Need::Store(key) => self.need(Right::Create, key),
        }
    }

    /// Refuses what does not meet all these `needs`.
    pub fn meet_all<'a>(&self, needs: impl IntoIterator<Item = Need<'a>>) -> Result<(), Refusal> {
        needs.into_iter().try_for_each(|need| self.meet(&need))
    }

    /// True where the client has this right to `key`.
    pub fn allows(&self, right: Right, key: &str) -> bool {
        self.subject.grant.allows(right, key)
    }

    /// True where the client may read the value of `key`, which its request does not name: a signed link is for the key
    /// that it names.
    pub fn may_read(&self, key: &str) -> bool {
        let by_link = matches!(self.by, AuthMethod::Link { .. });
        !by_link && self.allows(Right::Read, key)
    }

    /// True for a client that has a link by which it hands in files with this prefix, and sees none.
    pub fn hands_in(&self, prefix: &str) -> bool {
        let creates = self.subject.grant.keys(Right::Create);
        self.by == AuthMethod::FolderLink && creates.may_have_below(prefix)
    }

    /// The same client by the rules of now, which may be others than when its request began.
    pub fn by_now(&self) -> Result<Self, Refusal> {
        self.by_policy(&self.access.policy())
    }

    /// The same client by the rules of `policy`.
    pub fn by_policy(&self, policy: &Policy) -> Result<Self, Refusal> {
        let mut now = self.clone();
        // The subject of a link is made of its terms.
        if !matches!(self.by, AuthMethod::Link { .. } | AuthMethod::FolderLink) {
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

    /// Refuses a `key` without this `right`.
    pub fn need(&self, right: Right, key: &str) -> Result<(), Refusal> {
        self.permit_if(self.allows(right, key), right)
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
        if self.subject.is_anonymous && self.access.has_subjects() {
            return unauthenticated(&self.access, AuthResult::Missing);
        }
        self.access.count(AuthResult::NotAllowed);
        not_allowed(right)
    }
}
