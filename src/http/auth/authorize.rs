//! Authorization: the rights that an operation needs. The [`Principal`] decides.
//!
//! Rights are decided by names alone, never by the state of the store. An operation that is allowed in part is narrowed
//! to that part: a PUT without the right to replace, to keys that have no value; a listing, to the keys that may be
//! listed. Keys that only the execution finds, in forms and in resumed uploads, are decided there.

use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};

use crate::access::{Access, Evidence, Existing, LinkKind, Policy, Right, Subject};
use crate::http::admin::Page;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::too_large;
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::service::operation::{FolderMove, MoveRequest, Operation, Otherwise, PutOptions};
use crate::http::service_config::Routes;
use crate::metrics::AuthResult;
use crate::store::{self, Preconditions, WriteCondition};

const UNAUTHENTICATED: &Kind =
    &Kind::new(StatusCode::UNAUTHORIZED, "unauthenticated").flags(&[Flag::Audited]);
const NOT_ALLOWED: &Kind = &Kind::new(StatusCode::FORBIDDEN, "not-allowed").flags(&[Flag::Audited]);
const EXISTS: &Kind = &Kind::new(StatusCode::CONFLICT, "exists").flags(&[Flag::Audited]);
const EXISTS_412: &Kind =
    &Kind::new(StatusCode::PRECONDITION_FAILED, "exists").flags(&[Flag::Audited]);

/// True for a page that needs no right: monitors of a server have no secret.
pub fn is_open(page: Option<Page>, routes: Routes) -> bool {
    page.is_some_and(|page| page != Page::Metrics || routes == Routes::Pages)
}

/// The kind of signed link that allows this method.
pub fn link_kind(method: &Method) -> Option<LinkKind> {
    match *method {
        Method::GET | Method::HEAD => Some(LinkKind::Read),
        Method::PUT => Some(LinkKind::Create),
        _ => None,
    }
}

/// The subject that `evidence` proves now; `None` where it proves none.
pub fn proven_subject<'p>(
    policy: &'p Policy,
    evidence: &Evidence,
    by: AuthMethod,
) -> Option<&'p Arc<Subject>> {
    // A certificate of an expired subject is no failure: its client is anonymous.
    let otherwise = (by == AuthMethod::Certificate).then_some(&policy.anonymous);
    policy.prove(evidence, SystemTime::now()).or(otherwise)
}

/// The refusal of a client without this right.
fn not_allowed(right: Right) -> Refusal {
    let right = right.name();
    NOT_ALLOWED.because(format!("not allowed: this needs the right to {right} here"))
}

/// The refusal of a client that has to authenticate, counted as `result`.
pub fn unauthenticated(access: &Access, result: AuthResult) -> Refusal {
    access.count(result);
    let policy = access.policy();
    let mut refusal = UNAUTHENTICATED
        .because("authentication required: send a valid token, or name and password");
    // The schemes (RFC 9110, section 11.6.1). The realm is printable, and holds no quote.
    for (scheme, rest) in [("Basic", ", charset=\"UTF-8\""), ("Bearer", "")] {
        let challenge = format!("{scheme} realm=\"{}\"{rest}", policy.realm);
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            refusal = refusal.with(WWW_AUTHENTICATE, challenge);
        }
    }
    refusal
}

impl Principal {
    /// Narrows `operation` to what the client may do of it.
    pub fn permit(&self, operation: &mut Operation<'_>) -> Result<(), Refusal> {
        match operation {
            Operation::Get { key, .. } => self.need(Right::Read, key.as_str()),
            Operation::Put { key, options, len } => {
                self.permit_put(key.as_str(), options)?;
                self.limit(options, *len)
            }
            Operation::Delete { key, preconditions } => {
                self.need(Right::Delete, key.as_str())?;
                match preconditions {
                    // A condition reveals the state of the value.
                    Some(_) => self.need(Right::Read, key.as_str()),
                    None => Ok(()),
                }
            }
            Operation::Site(asked) => match &mut asked.otherwise {
                // To one who may read the index, the listing is permitted where there is none.
                Otherwise::Listing(listing) if !self.may_read(asked.key.as_str()) => {
                    self.permit(listing)
                }
                _ => self.need(Right::Read, asked.key.as_str()),
            },
            Operation::Move(request) => self.permit_move(request),
            // As for a folder that is removed, and one that is made: of all keys that there could be below both.
            Operation::MoveFolder(asked) => {
                self.permit_removal(asked.from.as_str())?;
                self.need(Right::Read, &format!("{}/", asked.from))?;
                self.need(Right::Create, &format!("{}/", asked.to))
            }
            // Each key is looked at before the first is copied, and when its turn comes.
            Operation::CopyFolder(asked) => self.permit_copy(asked),
            // For all keys that there could be below it: none is asked for afterwards.
            Operation::MakeFolder(folder) => self.need(Right::Create, &format!("{folder}/")),
            Operation::RemoveFolder { folder, .. } => self.permit_removal(folder.as_str()),
            Operation::List(target) => self.permit_list(&mut target.page),
            Operation::Ui(request) => self.permit_list(&mut request.target.page),
            // Each key is looked at when its turn comes.
            Operation::Archive(request) => {
                self.need_any(Right::Read, &request.page.prefix)?;
                self.permit_list(&mut request.page)
            }
            Operation::Share(request) => self.permit_share(request.key.as_str()),
            Operation::Unpack(request) => self.need_any(Right::Create, &request.folder),
            Operation::Page(Page::Metrics, _) => self.need_any(Right::Metrics, ""),
            Operation::Watch(request) => self.need_any(Right::Watch, &request.prefix),
            // The refusal of an anonymous client asks it to authenticate, whatever the right.
            Operation::SignIn(_) if self.subject.is_anonymous => Err(self.deny(Right::List)),
            Operation::Page(..)
            | Operation::SignIn(_)
            | Operation::Redirect(_)
            | Operation::Options(_)
            | Operation::Upload(..)
            | Operation::Form(_) => Ok(()),
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

    fn permit_list(&self, page: &mut store::Page) -> Result<(), Refusal> {
        self.permit_if(self.may_list(page), Right::List)
    }

    /// Limits an upload of `len` bytes by a signed link to the length of the link, in one request.
    fn limit(&self, options: &mut PutOptions, len: Option<u64>) -> Result<(), Refusal> {
        let AuthMethod::Link { max } = self.by else {
            return Ok(());
        };
        if options.creation.is_some() {
            return Err(not_allowed(Right::Write));
        }
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
    fn need_any(&self, right: Right, prefix: &str) -> Result<(), Refusal> {
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
