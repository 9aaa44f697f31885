//! Authorization: the rights that an operation takes.
//!
//! Rights are decided by names alone, never by the state of the store. An operation that is allowed in part is narrowed to that part: a
//! PUT without the right to replace, to keys that have no value; a listing, to the keys that may be listed. Keys that only the
//! execution finds, in forms and in uploads that go on, are decided there.

use hyper::Method;

use crate::access::{Grant, LinkKind, Right};
use crate::http::admin::Page;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::client::Peer;
use crate::http::refusal::Refusal;
use crate::http::service::handler::Handler;
use crate::http::service::operation::{Operation, PutOptions};
use crate::http::service_config::Routes;
use crate::store::{self, Key, Preconditions, Uploader, WriteCondition};

/// A right that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied(pub Right);

/// True for a page that takes no right: monitors of a server have no secret.
pub fn is_open(page: Option<Page>, routes: Routes) -> bool {
    match page {
        Some(Page::Health | Page::Ready | Page::Index) => true,
        Some(Page::Metrics) => routes == Routes::Pages,
        None => false,
    }
}

/// Narrows `operation` to what the client of `proof` may do of it.
pub fn permit(operation: &mut Operation<'_>, proof: &Principal) -> Result<(), Denied> {
    let (grant, is_anonymous) = (&proof.subject.grant, proof.subject.is_anonymous);
    match operation {
        Operation::Get { key, .. } => need(grant, Right::Read, key.as_str()),
        Operation::Put { key, options, .. } => authorize_put(options, key.as_str(), grant),
        Operation::Delete { key, preconditions } => {
            need(grant, Right::Delete, key.as_str())?;
            match preconditions {
                // A condition reveals the state of the value.
                Some(_) => need(grant, Right::Read, key.as_str()),
                None => Ok(()),
            }
        }
        Operation::List(place) => authorize_page(&mut place.page, grant),
        Operation::Home(request) => authorize_page(&mut request.place.page, grant),
        Operation::Page(Page::Metrics, _) => need_any(grant, Right::Metrics, ""),
        Operation::Watch(request) => need_any(grant, Right::Watch, &request.prefix),
        // The refusal of an anonymous client asks for a proof, whatever the right.
        Operation::SignIn { .. } if is_anonymous => Err(Denied(Right::List)),
        Operation::Page(..)
        | Operation::SignIn { .. }
        | Operation::Moved { .. }
        | Operation::Options { .. }
        | Operation::Upload(..)
        | Operation::Form(_) => Ok(()),
    }
}

/// Narrows a PUT of `key`.
pub fn authorize_put(options: &mut PutOptions, key: &str, grant: &Grant) -> Result<(), Denied> {
    need(grant, Right::Create, key)?;
    let may_replace = grant.allows(Right::Write, key);
    let exact = options.preconditions.as_ref().map(Preconditions::exact);
    match exact {
        Some(Some(WriteCondition::Create)) => Ok(()),
        Some(_) if !may_replace => Err(Denied(Right::Write)),
        // A condition reveals the state of the value.
        Some(_) => need(grant, Right::Read, key),
        None if may_replace => Ok(()),
        None => {
            options.preconditions = Some(Preconditions::NEW);
            options.is_only_new = true;
            Ok(())
        }
    }
}

/// Narrows a listing to the keys that may be listed.
pub fn authorize_page(page: &mut store::Page, grant: &Grant) -> Result<(), Denied> {
    need_any(grant, Right::List, &page.prefix)?;
    page.within = grant.keys(Right::List).clone();
    Ok(())
}

/// The kind of signed link that allows this method.
pub fn link_kind(method: &Method) -> Option<LinkKind> {
    match *method {
        Method::GET | Method::HEAD => Some(LinkKind::Read),
        Method::PUT => Some(LinkKind::Create),
        _ => None,
    }
}

/// Limits an upload by a signed link to the length of the link, in one request.
pub fn limit(operation: &mut Operation<'_>, proof: &Principal) -> Result<(), Refusal> {
    let AuthMethod::Link { max } = proof.by else {
        return Ok(());
    };
    if let Operation::Put { options, len, .. } = operation {
        if options.creation.is_some() {
            return Err(Refusal::NotAllowed(Right::Write));
        }
        options.most = max;
        if let (Some(limit), Some(len)) = (max, *len)
            && len > limit
        {
            return Err(Refusal::TooLarge { limit });
        }
    }
    Ok(())
}

fn need(grant: &Grant, right: Right, key: &str) -> Result<(), Denied> {
    let is_allowed = grant.allows(right, key);
    is_allowed.then_some(()).ok_or(Denied(right))
}

/// Refuses a `prefix` that no key with this `right` may have.
fn need_any(grant: &Grant, right: Right, prefix: &str) -> Result<(), Denied> {
    let is_allowed = grant.keys(right).may_have_below(prefix);
    is_allowed.then_some(()).ok_or(Denied(right))
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// Its proof; `None` where there are no rules.
    pub proof: Option<&'a Principal>,
    pub peer: Peer,
}

impl Asker<'_> {
    /// The uploader in whose quota an upload counts: a subject that was proved, wherever it connects from, else the address.
    pub fn uploader(self) -> Uploader {
        match self.proof {
            Some(proof) if !proof.subject.is_anonymous => {
                Uploader::new(&format!("subject {}", proof.subject.name))
            }
            _ => Uploader::new(&self.peer.source().to_string()),
        }
    }
}

impl Handler {
    /// The uploader of an upload in one request, where the store counts by uploader.
    pub fn uploader(&self, asker: Asker<'_>) -> Option<Uploader> {
        self.store.stages_by_client().then(|| asker.uploader())
    }

    /// Narrows a PUT of `key` to what the client of `proof` may store there.
    pub fn permit_put(
        &self,
        proof: Option<&Principal>,
        key: &Key<'_>,
        options: &mut PutOptions,
    ) -> Result<(), Refusal> {
        let Some(proof) = proof else { return Ok(()) };
        authorize_put(options, key.as_str(), &proof.subject.grant)
            .map_err(|Denied(right)| self.guard.deny(&proof.subject, right))
    }

    /// The result of a PUT that was narrowed to a key without a value. The client of `proof` asked no condition that could fail: it is
    /// told that it may not replace.
    pub fn without_replacing<T>(
        &self,
        stored: Result<T, Refusal>,
        proof: Option<&Principal>,
    ) -> Result<T, Refusal> {
        stored.map_err(|why| match (why, proof) {
            (Refusal::Precondition, Some(proof)) => self.guard.deny(&proof.subject, Right::Write),
            (why, _) => why,
        })
    }
}
