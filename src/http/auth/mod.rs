//! The guard: authenticates the client of a request, and decides by its head alone what that client may do.
//!
//! Promises that each request is decided by one policy, that a client without the right to read a key gets the same response whether
//! the key is there or not, and that a client which fails too often is told to wait. Without `--access` each client may do everything.

pub mod authorize;
pub mod credentials;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::header::{AUTHORIZATION, HeaderMap};

use crate::access::{self, Access, Evidence, LinkKind, LinkTerms, Policy, Right, Source, Subject};
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
    Unchecked(Box<Unchecked>),
}

/// A password that is yet to be checked, with the field that it came in.
#[derive(Debug)]
pub struct Unchecked {
    pub field: Box<[u8]>,
    pub pair: NameAndPassword,
    pub source: Source,
}

/// The guard of one reactor.
#[derive(Debug)]
pub struct Guard(Option<Guarding>);

#[derive(Debug)]
struct Guarding {
    access: Arc<Access>,
    /// The policy that this reactor saw last, with its generation.
    policy: RefCell<(u64, Arc<Policy>)>,
}

impl Guard {
    pub fn new(access: Option<Arc<Access>>) -> Self {
        Self(access.map(|access| {
            let generation = access.generation();
            let policy = RefCell::new((generation, access.policy()));
            Guarding { access, policy }
        }))
    }

    /// The rules of access, where there are any.
    pub fn access(&self) -> Option<&Arc<Access>> {
        self.0.as_ref().map(|guarding| &guarding.access)
    }

    /// Authenticates a client by the fields of its request, or by the proofs of its connection.
    pub fn identify(
        &self,
        presented: AuthorizationFields<'_>,
        client: Client,
        proven: &AuthCache,
    ) -> Result<Identified, Refusal> {
        let Some(guarding) = &self.0 else {
            return Ok(Identified::Known(None));
        };
        let field = match presented {
            AuthorizationFields::Nothing => None,
            AuthorizationFields::Field(field) => Some(field),
            AuthorizationFields::Several => return Err(guarding.fails(client.peer.source())),
        };
        let generation = guarding.access.generation();
        if let Some(proof) = proven.kept(field, generation, client) {
            return Ok(Identified::Known(Some(proof)));
        }
        guarding.identify(field, generation, client, proven)
    }

    /// Authenticates a client by a signed link to `key`.
    pub fn authenticate_link(
        &self,
        link: Result<SignedLink, BadLink>,
        kind: LinkKind,
        key: &str,
    ) -> Result<Identified, Refusal> {
        let Some(guarding) = &self.0 else {
            return Ok(Identified::Known(None));
        };
        let followed = link.and_then(|link| guarding.authenticate_link(&link, kind, key));
        let result = if followed.is_ok() {
            AuthResult::Link
        } else {
            AuthResult::Wrong
        };
        guarding.count(result);
        Ok(Identified::Known(Some(followed?)))
    }

    /// The subject whose name the field Authorization gives. Other names are not told: people type their password there, too.
    pub fn tried(&self, headers: &HeaderMap) -> Option<Box<str>> {
        let guarding = self.0.as_ref()?;
        let field = only(headers, &AUTHORIZATION)?;
        let Some(Credentials::Password(pair)) = credentials(field.as_bytes()) else {
            return None;
        };
        let policy = guarding.policy(guarding.access.generation());
        let subject = policy.subject(&pair.name)?;
        Some(subject.name.clone())
    }

    /// Checks a password on the `compute` threads; the proof is kept with the connection.
    pub async fn check(
        &self,
        unchecked: Unchecked,
        proven: &AuthCache,
        compute: &BlockingPool,
    ) -> Result<Rc<Principal>, Refusal> {
        let Some(guarding) = &self.0 else {
            return Err(Refusal::ChecksBusy);
        };
        let access = &guarding.access;
        let generation = access.generation();
        let Unchecked {
            field,
            pair,
            source,
        } = unchecked;
        let NameAndPassword { name, password } = pair;
        let policy = access.policy();
        let passwords = access.passwords();
        let checking = match passwords.check(&policy, &name, password, source, compute) {
            Ok(checking) => checking,
            Err(access::Unchecked::NoPasswords) => return Err(guarding.fails(source)),
            Err(access::Unchecked::Limited(wait)) => return Err(guarding.limited(wait)),
            Err(access::Unchecked::Busy) => {
                guarding.count(AuthResult::Busy);
                return Err(Refusal::ChecksBusy);
            }
        };
        // The check has counted the failure.
        let Some(evidence) = checking.await else {
            return Err(guarding.unauthenticated(AuthResult::Wrong));
        };
        let Some(subject) = policy.prove(&evidence, SystemTime::now()) else {
            return Err(guarding.fails(source));
        };
        let proof = Principal {
            subject: Arc::clone(subject),
            by: AuthMethod::Basic,
            evidence,
        };
        guarding.count(AuthResult::Password);
        Ok(proven.keep(Some(&field), source, generation, proof))
    }

    /// Refuses the client of `proof` if it has no `right` to `key`.
    pub fn allow(&self, proof: Option<&Principal>, right: Right, key: &str) -> Result<(), Refusal> {
        match proof {
            Some(proof) if !proof.subject.grant.allows(right, key) => {
                Err(self.deny(&proof.subject, right))
            }
            _ => Ok(()),
        }
    }

    /// The refusal of a client without this right; an anonymous one is asked to prove who it is.
    pub fn deny(&self, subject: &Subject, right: Right) -> Refusal {
        let Some(guarding) = &self.0 else {
            return Refusal::NotAllowed(right);
        };
        if subject.is_anonymous {
            return guarding.unauthenticated(AuthResult::Missing);
        }
        guarding.count(AuthResult::NotAllowed);
        Refusal::NotAllowed(right)
    }
}

impl Guarding {
    fn identify(
        &self,
        field: Option<&[u8]>,
        generation: u64,
        client: Client,
        proven: &AuthCache,
    ) -> Result<Identified, Refusal> {
        let (policy, now) = (self.policy(generation), SystemTime::now());
        let source = client.peer.source();
        let (evidence, by) = match field {
            None => match policy.certificate(proven.certificate_names()) {
                Some(evidence) => (evidence, AuthMethod::Certificate),
                None => (Evidence::Nothing, AuthMethod::Nothing),
            },
            Some(field) => match credentials(field) {
                None => return Err(self.fails(source)),
                Some(Credentials::Token(token)) => (Evidence::token(token), AuthMethod::Bearer),
                Some(Credentials::Password(pair)) => {
                    let Some(evidence) = self.at_once(&policy, &pair, source, now) else {
                        let field = field.into();
                        return Ok(Identified::Unchecked(Box::new(Unchecked {
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
            // A certificate that has ended is no proof, and no false claim either.
            None if by == AuthMethod::Certificate => Arc::clone(policy.anonymous()),
            None => return Err(self.fails(source)),
        };
        match by {
            AuthMethod::Nothing | AuthMethod::Link { .. } => {}
            AuthMethod::Bearer => self.count(AuthResult::Token),
            AuthMethod::Basic => self.count(AuthResult::Password),
            AuthMethod::Certificate => self.count(AuthResult::Certificate),
        }
        let proof = Principal {
            subject,
            by,
            evidence,
        };
        let proof = proven.keep(field, source, generation, proof);
        Ok(Identified::Known(Some(proof)))
    }

    /// The evidence of a name and a password that takes no long check: of a token in place of the password, or of a password that
    /// `source` proved a short while ago.
    fn at_once(
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

    fn authenticate_link(
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
        Ok(Rc::new(Principal {
            subject: Arc::new(subject),
            by: AuthMethod::Link { max: link.max },
            evidence: Evidence::Nothing,
        }))
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
    fn fails(&self, source: Source) -> Refusal {
        match self
            .access
            .passwords()
            .failures()
            .count(source, Instant::now())
        {
            Ok(()) => self.unauthenticated(AuthResult::Wrong),
            Err(wait) => self.limited(wait),
        }
    }

    fn limited(&self, wait: Duration) -> Refusal {
        self.count(AuthResult::Limited);
        Refusal::TooManyFailures {
            retry_after: wait.as_secs() + 1,
        }
    }

    fn unauthenticated(&self, result: AuthResult) -> Refusal {
        self.count(result);
        let realm = self.policy(self.access.generation()).realm().into();
        Refusal::Unauthenticated { realm }
    }

    fn count(&self, result: AuthResult) {
        self.access.counters().results[result as usize].add(1);
    }
}
