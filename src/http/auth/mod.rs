//! The guard: authenticates the client of a request, and decides by its head alone what that client may do.
//!
//! Promises that each request is decided by one policy, that a client without the right to read a key gets the same
//! response whether the key is there or not, and that a client which fails too often has to wait. Without `--access`
//! each client may do everything.

pub mod authorize;
pub mod credentials;
pub mod need;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, RETRY_AFTER};

use crate::access::{
    Access, CheckError, ClientSource, Evidence, LinkKind, LinkTerms, Policy, S3Key, Subject,
};
use crate::http::auth::credentials::{
    AuthCache, AuthMethod, Credentials, EXPIRED, INVALID, NameAndPassword, Presented, Principal,
    SignedLink, credentials, proven_subject, unauthenticated,
};
use crate::http::head::client::Client;
use crate::http::head::names::AuthorizationFields;
use crate::http::head::syntax::only;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use crate::metrics::AuthResult;
use crate::store::{BlockingPool, second};

const TOO_MANY: &Kind =
    &Kind::new(StatusCode::TOO_MANY_REQUESTS, "too-many-failures").flags(&[Flag::Audited]);

pub const CHECKS_BUSY: Refusal = Refusal::new(
    &Kind::new(StatusCode::SERVICE_UNAVAILABLE, "checks-busy").fields(&[("retry-after", "1")]),
    "too many passwords are being checked: try again in a moment",
);

pub const CERTIFICATE_ENDED: Refusal = Refusal::new(
    &Kind::new(StatusCode::FORBIDDEN, "certificate-ended").flags(&[Flag::Audited, Flag::Closes]),
    "the client certificate of this connection has ended: connect again with a valid one",
);

const UNKNOWN_USER: Refusal = Refusal::new(
    &Kind::new(StatusCode::FORBIDDEN, "unknown-user").flags(&[Flag::Audited]),
    "the proxy has signed on a user that is no subject of this server",
);

const TWO_PROOFS: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "two-proofs").flags(&[Flag::Audited]),
    "the proxy has signed on a user, beside another proof: it must replace its field, and remove Authorization",
);

/// The result of an authentication.
pub enum Identified {
    /// The client is known; `None` where there are no rules.
    Known(Option<Rc<Principal>>),
    /// The password has to be checked first, which takes milliseconds.
    Unchecked(Box<UncheckedPassword>),
}

/// A password that is yet to be checked, with the field that it came in.
pub struct UncheckedPassword {
    pub field: Box<[u8]>,
    pub pair: NameAndPassword,
    pub source: ClientSource,
}

/// The guard of one reactor.
#[derive(Debug)]
pub struct Guard(pub Arc<Access>);

impl Guard {
    /// Authenticates a client by the fields of its request, or by what its connection has proved. A `user` whom a
    /// trusted proxy has signed on counts alone, so that no client is two subjects.
    pub fn identify(
        &self,
        presented: AuthorizationFields<'_>,
        user: AuthorizationFields<'_>,
        client: Client,
        proven: &AuthCache,
    ) -> Result<Identified, Refusal> {
        let source = client.peer.source();
        let field = match presented {
            AuthorizationFields::Nothing => None,
            _ if !self.0.has_subjects() => None,
            AuthorizationFields::Field(field) => Some(field),
            AuthorizationFields::Several => return Err(self.wrong_credentials(source)),
        };
        let user = match (user, field) {
            (AuthorizationFields::Nothing | AuthorizationFields::Field(b""), _) => None,
            (AuthorizationFields::Field(user), None) => Some(user),
            _ => return Err(TWO_PROOFS),
        };
        let presented = Presented {
            field: user.or(field),
            by_proxy: user.is_some(),
            source,
            generation: self.0.generation(),
        };
        if let Some(principal) = proven.kept(&presented) {
            return Ok(Identified::Known(Some(principal)));
        }
        let policy = self.0.policy();
        let (evidence, by) = match field {
            None => match (policy.certificate(proven.certificate_names()), user) {
                (None, Some(user)) => {
                    // No subject has the empty name.
                    let name = str::from_utf8(user).unwrap_or_default();
                    (Evidence::Proxy(name.into()), AuthMethod::Proxy)
                }
                (Some(_), Some(_)) => return Err(TWO_PROOFS),
                (Some(evidence), None) => (evidence, AuthMethod::Certificate),
                (None, None) => (Evidence::Nothing, AuthMethod::Nothing),
            },
            Some(field) => match credentials(field) {
                None => return Err(self.wrong_credentials(source)),
                Some(Credentials::Token(token)) => (Evidence::token(token), AuthMethod::Bearer),
                Some(Credentials::Password(pair)) => {
                    let Some(evidence) = self.known_evidence(&policy, &pair, source) else {
                        let field = field.into();
                        return Ok(Identified::Unchecked(Box::new(UncheckedPassword {
                            field,
                            pair,
                            source,
                        })));
                    };
                    (evidence, AuthMethod::Basic)
                }
            },
        };
        let principal = self.admit(&policy, evidence, by, &presented, proven)?;
        Ok(Identified::Known(Some(principal)))
    }

    /// The client that `evidence` proves, kept with its connection.
    fn admit(
        &self,
        policy: &Policy,
        evidence: Evidence,
        by: AuthMethod,
        presented: &Presented<'_>,
        proven: &AuthCache,
    ) -> Result<Rc<Principal>, Refusal> {
        let Some(subject) = proven_subject(policy, &evidence, by) else {
            if by == AuthMethod::Proxy {
                self.0.count(AuthResult::Wrong);
                return Err(UNKNOWN_USER);
            }
            return Err(self.wrong_credentials(presented.source));
        };
        match by {
            AuthMethod::Nothing
            | AuthMethod::Signature { .. }
            | AuthMethod::Link { .. }
            | AuthMethod::FolderLink => {}
            AuthMethod::Bearer => self.0.count(AuthResult::Token),
            // Clients that know Basic alone send a token so.
            AuthMethod::Basic => self.0.count(match evidence {
                Evidence::Token(_) => AuthResult::Token,
                _ => AuthResult::Password,
            }),
            AuthMethod::Certificate => self.0.count(AuthResult::Certificate),
            AuthMethod::Proxy => self.0.count(AuthResult::Proxy),
        }
        let principal = self.principal(Arc::clone(subject), by, evidence);
        proven.keep(presented, &principal);
        Ok(principal)
    }

    /// The client of a request that is signed by this `key`.
    pub fn admit_signed(
        &self,
        policy: &Policy,
        key: &S3Key,
        is_of_url: bool,
        source: ClientSource,
    ) -> Result<Rc<Principal>, Refusal> {
        let (evidence, by) = (key.evidence(), AuthMethod::Signature { is_of_url });
        let subject = proven_subject(policy, &evidence, by);
        let subject = subject.ok_or_else(|| self.wrong_credentials(source))?;
        self.0.count(AuthResult::Signature);
        Ok(self.principal(Arc::clone(subject), by, evidence))
    }

    /// Authenticates a client by a signed link to `key`, or to the folder of this name.
    pub fn authenticate_link(
        &self,
        link: Result<SignedLink, Refusal>,
        kind: LinkKind,
        key: &str,
    ) -> Result<Rc<Principal>, Refusal> {
        let (policy, now) = (self.0.policy(), SystemTime::now());
        let followed = link.and_then(|link| {
            let terms = LinkTerms {
                kind,
                key,
                expires: link.expires,
                max: link.max,
            };
            let subject = policy.by_link(&link.by, &terms, &link.signature, now);
            let subject = subject.ok_or(INVALID)?;
            if second(now) >= link.expires {
                return Err(EXPIRED);
            }
            let by = if terms.is_of_folder() {
                AuthMethod::FolderLink
            } else {
                AuthMethod::Link { max: link.max }
            };
            Ok(self.principal(Arc::new(subject), by, Evidence::Nothing))
        });
        self.0.count(match followed {
            Ok(_) => AuthResult::Link,
            Err(_) => AuthResult::Wrong,
        });
        followed
    }

    /// The subject whose name the field Authorization gives. Other names are not logged: people type their password
    /// there, too.
    pub fn tried(&self, headers: &HeaderMap) -> Option<Box<str>> {
        let field = only(headers, &AUTHORIZATION)?;
        let Some(Credentials::Password(pair)) = credentials(field.as_bytes()) else {
            return None;
        };
        let policy = self.0.policy();
        let subject = policy.subjects.get(&*pair.name)?;
        Some(subject.name.clone())
    }

    /// Checks a password on the `compute` threads; the principal is kept with the connection.
    pub async fn check(
        &self,
        unchecked: UncheckedPassword,
        proven: &AuthCache,
        compute: &BlockingPool,
    ) -> Result<Rc<Principal>, Refusal> {
        let access = &self.0;
        let (pair, source) = (unchecked.pair, unchecked.source);
        let presented = Presented {
            field: Some(&unchecked.field),
            by_proxy: false,
            source,
            generation: access.generation(),
        };
        let (policy, passwords) = (access.policy(), &access.passwords);
        let checking = passwords.check(&policy, &pair.name, pair.password, source, compute);
        let checking = checking.map_err(|why| match why {
            CheckError::NoPasswords => self.wrong_credentials(source),
            CheckError::Limited(wait) => self.limited(wait),
            CheckError::Busy => {
                access.count(AuthResult::Busy);
                CHECKS_BUSY
            }
        })?;
        // The check has counted the failure.
        let Some(evidence) = checking.await else {
            return Err(unauthenticated(access, AuthResult::Wrong));
        };
        self.admit(&policy, evidence, AuthMethod::Basic, &presented, proven)
    }

    fn principal(
        &self,
        subject: Arc<Subject>,
        by: AuthMethod,
        evidence: Evidence,
    ) -> Rc<Principal> {
        Rc::new(Principal {
            subject,
            by,
            evidence,
            access: Arc::clone(&self.0),
        })
    }

    /// The evidence of a name and a password that needs no long check: of a token in place of the password, or of a
    /// password that `source` proved a short while ago.
    fn known_evidence(
        &self,
        policy: &Policy,
        pair: &NameAndPassword,
        source: ClientSource,
    ) -> Option<Evidence> {
        let NameAndPassword { name, password } = pair;
        let token = Evidence::token(password);
        if policy.prove(&token, SystemTime::now()).is_some() {
            return Some(token);
        }
        let passwords = &self.0.passwords;
        passwords.remembered(policy, name, password, source, Instant::now())
    }

    /// The refusal of wrong credentials.
    fn wrong_credentials(&self, source: ClientSource) -> Refusal {
        match self.0.passwords.failures.count(source, Instant::now()) {
            Ok(()) => unauthenticated(&self.0, AuthResult::Wrong),
            Err(wait) => self.limited(wait),
        }
    }

    /// The refusal of a wrong signature, or of its key, for this reason.
    pub fn wrong_signature(&self, source: ClientSource, why: Refusal) -> Refusal {
        match self.0.passwords.failures.count(source, Instant::now()) {
            Ok(()) => {
                self.0.count(AuthResult::Wrong);
                why
            }
            Err(wait) => self.limited(wait),
        }
    }

    fn limited(&self, wait: Duration) -> Refusal {
        self.0.count(AuthResult::Limited);
        let wait = wait.as_secs() + 1;
        let why = format!("too many wrong tokens or passwords from this address: wait {wait} s");
        TOO_MANY.because(why).with(RETRY_AFTER, wait.into())
    }
}
