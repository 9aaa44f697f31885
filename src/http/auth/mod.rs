//! The guard: authenticates the client of a request, and decides by its head alone what that client may do.
//!
//! Promises that each request is decided by one policy, that a client without the right to read a key gets the same response whether
//! the key is there or not, and that a client which fails too often has to wait. Without `--access` each client may do everything.

pub mod authorize;
pub mod credentials;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::header::{AUTHORIZATION, HeaderMap};

use crate::access::{self, Access, Evidence, LinkKind, LinkTerms, Policy, Source, Subject};
use crate::http::auth::authorize::unauthenticated;
use crate::http::auth::credentials::{
    AuthCache, AuthMethod, AuthorizationFields, BadLink, Credentials, NameAndPassword, Principal,
    SignedLink, credentials,
};
use crate::http::client::Client;
use crate::http::head::syntax::only;
use crate::http::refusal::Refusal;
use crate::metrics::AuthResult;
use crate::store::BlockingPool;

/// The result of an authentication.
#[derive(Debug)]
pub enum Identified {
    /// The client is known; `None` where there are no rules.
    Known(Option<Rc<Principal>>),
    /// The password has to be checked first, which takes milliseconds.
    Unchecked(Box<UncheckedPassword>),
}

/// A password that is yet to be checked, with the field that it came in.
#[derive(Debug)]
pub struct UncheckedPassword {
    pub field: Box<[u8]>,
    pub pair: NameAndPassword,
    pub source: Source,
}

/// The guard of one reactor.
#[derive(Debug)]
pub struct Guard {
    access: Arc<Access>,
    /// The policy that this reactor saw last, with its generation.
    policy: RefCell<(u64, Arc<Policy>)>,
}

impl Guard {
    pub fn new(access: Arc<Access>) -> Self {
        let generation = access.generation();
        let policy = RefCell::new((generation, access.policy()));
        Self { access, policy }
    }

    /// Authenticates a client by the fields of its request, or by what its connection has proved.
    pub fn identify(
        &self,
        presented: AuthorizationFields<'_>,
        client: Client,
        proven: &AuthCache,
    ) -> Result<Identified, Refusal> {
        let source = client.peer.source();
        let field = match presented {
            AuthorizationFields::Nothing => None,
            AuthorizationFields::Field(field) => Some(field),
            AuthorizationFields::Several => return Err(self.wrong_credentials(source)),
        };
        let generation = self.access.generation();
        if let Some(principal) = proven.kept(field, generation, client) {
            return Ok(Identified::Known(Some(principal)));
        }
        let (policy, now) = (self.policy(generation), SystemTime::now());
        let (evidence, by) = match field {
            None => match policy.certificate(proven.certificate_names()) {
                Some(evidence) => (evidence, AuthMethod::Certificate),
                None => (Evidence::Nothing, AuthMethod::Nothing),
            },
            Some(field) => match credentials(field) {
                None => return Err(self.wrong_credentials(source)),
                Some(Credentials::Token(token)) => (Evidence::token(token), AuthMethod::Bearer),
                Some(Credentials::Password(pair)) => {
                    let Some(evidence) = self.known_evidence(&policy, &pair, source, now) else {
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
        let subject = match policy.prove(&evidence, now) {
            Some(subject) => Arc::clone(subject),
            // A certificate of an expired subject is no failure: its client is anonymous.
            None if by == AuthMethod::Certificate => Arc::clone(policy.anonymous()),
            None => return Err(self.wrong_credentials(source)),
        };
        match by {
            AuthMethod::Nothing | AuthMethod::Link { .. } => {}
            AuthMethod::Bearer => self.access.count(AuthResult::Token),
            AuthMethod::Basic => self.access.count(AuthResult::Password),
            AuthMethod::Certificate => self.access.count(AuthResult::Certificate),
        }
        let principal = self.principal(subject, by, evidence);
        proven.keep(field, source, generation, Rc::clone(&principal));
        Ok(Identified::Known(Some(principal)))
    }

    /// Authenticates a client by a signed link to `key`.
    pub fn authenticate_link(
        &self,
        link: Result<SignedLink, BadLink>,
        kind: LinkKind,
        key: &str,
    ) -> Result<Rc<Principal>, BadLink> {
        let followed = link.and_then(|link| self.follow(&link, kind, key));
        self.access.count(match followed {
            Ok(_) => AuthResult::Link,
            Err(_) => AuthResult::Wrong,
        });
        followed
    }

    /// The subject whose name the field Authorization gives. Other names are not logged: people type their password there, too.
    pub fn tried(&self, headers: &HeaderMap) -> Option<Box<str>> {
        let field = only(headers, &AUTHORIZATION)?;
        let Some(Credentials::Password(pair)) = credentials(field.as_bytes()) else {
            return None;
        };
        let policy = self.policy(self.access.generation());
        let subject = policy.subject(&pair.name)?;
        Some(subject.name.clone())
    }

    /// Checks a password on the `compute` threads; the principal is kept with the connection.
    pub async fn check(
        &self,
        unchecked: UncheckedPassword,
        proven: &AuthCache,
        compute: &BlockingPool,
    ) -> Result<Rc<Principal>, Refusal> {
        let access = &self.access;
        let generation = access.generation();
        let UncheckedPassword {
            field,
            pair: NameAndPassword { name, password },
            source,
        } = unchecked;
        let policy = access.policy();
        let passwords = access.passwords();
        let checking = match passwords.check(&policy, &name, password, source, compute) {
            Ok(checking) => checking,
            Err(access::CheckError::NoPasswords) => return Err(self.wrong_credentials(source)),
            Err(access::CheckError::Limited(wait)) => return Err(self.limited(wait)),
            Err(access::CheckError::Busy) => {
                access.count(AuthResult::Busy);
                return Err(Refusal::ChecksBusy);
            }
        };
        // The check has counted the failure.
        let Some(evidence) = checking.await else {
            return Err(unauthenticated(access, AuthResult::Wrong));
        };
        let Some(subject) = policy.prove(&evidence, SystemTime::now()) else {
            return Err(self.wrong_credentials(source));
        };
        let principal = self.principal(Arc::clone(subject), AuthMethod::Basic, evidence);
        access.count(AuthResult::Password);
        proven.keep(Some(&field), source, generation, Rc::clone(&principal));
        Ok(principal)
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
            access: Arc::clone(&self.access),
        })
    }

    /// The evidence of a name and a password that needs no long check: of a token in place of the password, or of a password that
    /// `source` proved a short while ago.
    fn known_evidence(
        &self,
        policy: &Policy,
        pair: &NameAndPassword,
        source: Source,
        now: SystemTime,
    ) -> Option<Evidence> {
        let NameAndPassword { name, password } = pair;
        let token = Evidence::token(password);
        if policy.prove(&token, now).is_some() {
            return Some(token);
        }
        let passwords = self.access.passwords();
        passwords.remembered(policy, name, password, source, Instant::now())
    }

    fn follow(
        &self,
        link: &SignedLink,
        kind: LinkKind,
        key: &str,
    ) -> Result<Rc<Principal>, BadLink> {
        let policy = self.policy(self.access.generation());
        let now = SystemTime::now();
        let terms = LinkTerms {
            kind,
            key,
            expires: link.expires,
            max: link.max,
        };
        let subject = policy.by_link(&link.by, &terms, &link.signature, now);
        let subject = subject.ok_or(BadLink::Invalid)?;
        let is_over = |now: Duration| now.as_secs() >= link.expires;
        if now.duration_since(UNIX_EPOCH).is_ok_and(is_over) {
            return Err(BadLink::Expired);
        }
        let by = AuthMethod::Link { max: link.max };
        Ok(self.principal(Arc::new(subject), by, Evidence::Nothing))
    }

    fn policy(&self, generation: u64) -> Arc<Policy> {
        let (seen, policy) = &mut *self.policy.borrow_mut();
        if *seen != generation {
            *policy = self.access.policy();
            *seen = generation;
        }
        Arc::clone(policy)
    }

    /// The refusal of wrong credentials.
    fn wrong_credentials(&self, source: Source) -> Refusal {
        let failures = self.access.passwords().failures();
        match failures.count(source, Instant::now()) {
            Ok(()) => unauthenticated(&self.access, AuthResult::Wrong),
            Err(wait) => self.limited(wait),
        }
    }

    fn limited(&self, wait: Duration) -> Refusal {
        self.access.count(AuthResult::Limited);
        Refusal::TooManyFailures {
            retry_after: wait.as_secs() + 1,
        }
    }
}
