//! Access control: subjects, their credentials, and their rights.
//!
//! Owns the policy that holds now ([`Access`]): read at the start, and replaced whole by a reload. Promises that each
//! request sees one policy, and that a file which cannot be used leaves the old one. Pure except for the files that it
//! is read from. Knows no HTTP: only evidence of a client, and a [`Right`] on a key.

mod attempts;
mod credentials;
mod file;
mod htpasswd;
mod links;
mod passwords;
mod policy;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::metrics::AuthResult;

pub use attempts::ClientSource;
pub use credentials::{
    BadHash, Evidence, LinkKey, LinkKind, LinkTerms, PasswordHash, S3Key, SubjectCredentials,
    TokenDigest, read_secret,
};
pub use file::{BadAccess, parse};
pub use links::own_secret;
pub use passwords::{CheckError, Passwords};
pub use policy::{Existing, Grant, Policy, Right, Rule, Subject};

/// The policy of the moment, read anew while the server runs.
pub struct Access {
    /// The file; none where there are no subjects, and the rights are those of everybody.
    path: Option<PathBuf>,
    /// The secret of `--links`.
    links: Option<Box<[u8]>>,
    policy: watch::Sender<Arc<Policy>>,
    /// The number of replacements of the policy. A decision of an earlier policy is made anew.
    generation: AtomicU64,
    /// The checker of passwords, with the failures of clients.
    pub passwords: Arc<Passwords>,
}

impl Access {
    /// Reads the policy from the file at `path`.
    pub fn read(path: PathBuf) -> Result<Self, BadAccess> {
        let policy = file::read(&path)?;
        warn(&policy);
        Self::new(Some(path), policy)
    }

    /// These rights for everybody, to all keys; where a value may not be replaced, that is a conflict.
    pub fn for_all(rights: &[Right]) -> Result<Self, BadAccess> {
        let rule = Rule {
            who: vec![Rule::ANONYMOUS.to_owned()],
            prefix: String::new(),
            may: rights.to_vec(),
            existing: Some(Existing::Conflict),
        };
        Self::new(None, Policy::new(file::REALM, vec![rule]))
    }

    fn new(path: Option<PathBuf>, policy: Policy) -> Result<Self, BadAccess> {
        let no_random = |error: std::io::Error| BadAccess {
            place: "random bytes".to_owned(),
            why: error.to_string(),
        };
        let passwords = Passwords::new().map_err(no_random)?;
        Ok(Self {
            path,
            links: None,
            policy: watch::Sender::new(Arc::new(policy)),
            generation: AtomicU64::new(0),
            passwords: Arc::new(passwords),
        })
    }

    /// The same, where every client with the rights to it shares links that are signed with this `secret`.
    #[must_use]
    pub fn with_links(self, secret: &[u8]) -> Self {
        self.policy.send_modify(|policy| {
            if let Some(policy) = Arc::get_mut(policy) {
                policy.add_links(secret);
            }
        });
        Self {
            links: Some(secret.into()),
            ..self
        }
    }

    /// True where a client can prove to be a subject; else credentials mean nothing.
    pub fn has_subjects(&self) -> bool {
        self.path.is_some()
    }

    /// The policy that holds now.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.borrow())
    }

    /// Replacements of the policy so far. Read it before [`Access::policy`]: what is remembered with it is then never
    /// newer than it says.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Reads the file again. A file that cannot be used leaves the policy as it is.
    pub fn reload(&self) -> Result<(), BadAccess> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let read = file::read(path);
        self.passwords.counters.reloads[usize::from(read.is_err())].add(1);
        let mut policy = read?;
        warn(&policy);
        self.links
            .iter()
            .for_each(|secret| policy.add_links(secret));
        let mut policy = Arc::new(policy);
        // Those that wait for a replacement find its generation. The old policy is freed when no reactor waits for the
        // lock.
        self.policy.send_modify(|held| {
            std::mem::swap(held, &mut policy);
            self.generation.fetch_add(1, Ordering::Release);
        });
        Ok(())
    }

    /// Counts an authentication or a refusal.
    pub fn count(&self, result: AuthResult) {
        self.passwords.counters.results[result as usize].add(1);
    }

    /// Receives each replacement of the policy.
    pub fn replacements(&self) -> watch::Receiver<Arc<Policy>> {
        self.policy.subscribe()
    }
}

impl fmt::Debug for Access {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

/// Logs the parts of the file that have no effect.
fn warn(policy: &Policy) {
    for warning in &policy.warnings {
        tracing::warn!(target: "audit", "{warning}");
    }
}
