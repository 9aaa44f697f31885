//! Proofs of the client of a connection, kept with the connection: the same credentials are proved once.
//!
//! Promises that what is kept counts for nothing once the policy has been replaced, or the subject or the certificate has ended.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::access::{Evidence, Subject};

/// By what a client proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By nothing: it is anyone.
    Nothing,
    /// By a token in a field that programs set.
    Bearer,
    /// By a name and a password, which browsers send by themselves.
    Basic,
    /// By the certificate of its connection.
    Certificate,
    /// By the signed link that it follows.
    Link {
        /// The most of a value that it may store, in bytes.
        max: Option<u64>,
    },
}

/// Who asks, and by what that was proved.
#[derive(Debug)]
pub struct Proof {
    pub subject: Arc<Subject>,
    pub by: By,
    /// The evidence that proves it again, by other rules.
    pub evidence: Evidence,
}

impl Proof {
    /// Whether browsers send it by themselves, also on behalf of pages of other origins.
    pub fn is_ambient(&self) -> bool {
        matches!(self.by, By::Basic | By::Certificate)
    }

    /// By what it was proved, as the audit log says it.
    pub fn name_of_evidence(&self) -> &'static str {
        match (self.by, &self.evidence) {
            (By::Link { .. }, _) => "link",
            (_, Evidence::Token(_)) => "token",
            (_, Evidence::Password { .. }) => "password",
            (_, Evidence::Certificate(_)) => "certificate",
            (_, Evidence::Nothing) => "nothing",
        }
    }
}

/// The last proof, and the field Authorization that it was proved by.
#[derive(Debug)]
struct Kept {
    field: Option<Box<[u8]>>,
    generation: u64,
    proof: Rc<Proof>,
}

/// The certificate of a client, which was verified.
#[derive(Debug)]
pub struct ClientCertificate {
    /// The DNS names in it.
    pub names: Box<[String]>,
    /// Its last second, since the epoch.
    pub end: u64,
}

/// The proofs of one connection.
#[derive(Debug, Default)]
pub struct Proven {
    kept: RefCell<Option<Kept>>,
    certificate: OnceCell<ClientCertificate>,
}

impl Proven {
    /// The client has shown this certificate.
    pub fn set_certificate(&self, certificate: ClientCertificate) {
        let _ = self.certificate.set(certificate);
    }

    /// Whether the client has shown a certificate that has ended since: a handshake would be refused now.
    pub fn has_ended(&self) -> bool {
        self.certificate.get().is_some_and(|certificate| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.unwrap_or_default().as_secs() > certificate.end
        })
    }

    /// The names of the client's certificate.
    pub fn certificate_names(&self) -> impl Iterator<Item = &str> {
        let certificate = self.certificate.get().into_iter();
        certificate.flat_map(|certificate| certificate.names.iter().map(String::as_str))
    }

    /// The proof that `field` gave before, by the policy of this `generation`.
    pub fn kept(&self, field: Option<&[u8]>, generation: u64) -> Option<Rc<Proof>> {
        let kept = self.kept.borrow();
        let kept = kept.as_ref()?;
        let is_same = kept.generation == generation && kept.field.as_deref() == field;
        let subject = &kept.proof.subject;
        let is_valid = || subject.not_after.is_none() || subject.is_valid(SystemTime::now());
        (is_same && is_valid()).then(|| Rc::clone(&kept.proof))
    }

    /// Keeps what `field` proves by the policy of this `generation`.
    pub fn keep(&self, field: Option<&[u8]>, generation: u64, proof: Proof) -> Rc<Proof> {
        let proof = Rc::new(proof);
        *self.kept.borrow_mut() = Some(Kept {
            field: field.map(Box::from),
            generation,
            proof: Rc::clone(&proof),
        });
        proof
    }
}
