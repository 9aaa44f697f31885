//! Who asks, for the work on a request: for whom an upload counts, and the rights where only the work finds the key, in forms and
//! of uploads that go on.

use crate::access::Right;
use crate::http::auth::authorize::{Denied, authorize_put};
use crate::http::auth::proven::Proof;
use crate::http::client::Peer;
use crate::http::refusal::rejection::Rejection;
use crate::http::response::outcome::Outcome;
use crate::http::service::handler::Handler;
use crate::http::service::operation::PutOptions;
use crate::store::{Error, Key, Uploader};

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// Its proof; `None` where that does not matter.
    pub proof: Option<&'a Proof>,
    pub peer: Peer,
}

impl Asker<'_> {
    /// For whom an upload counts: a subject that was proved, wherever it connects from, else the address.
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
    /// For whom an upload counts that comes in one request, where that matters.
    pub fn uploader(&self, asker: Asker<'_>) -> Option<Uploader> {
        self.store.stages_by_client().then(|| asker.uploader())
    }
}

impl Handler {
    /// Narrows what is to be stored as the value of `key` to what the client of `proof` may store there.
    pub fn permit_put(
        &self,
        proof: Option<&Proof>,
        key: &Key<'_>,
        options: &mut PutOptions,
    ) -> Result<(), Rejection> {
        let Some(proof) = proof else { return Ok(()) };
        authorize_put(options, key.as_str(), &proof.subject.grant)
            .map_err(|Denied(right)| self.guard.deny(&proof.subject, right))
    }

    /// The result of storing a value that was allowed only where there was none, for the client of `proof`: it is told that
    /// it may not replace, for it asked no condition that could have failed.
    pub fn without_replacing(
        &self,
        stored: Result<Outcome, Outcome>,
        proof: Option<&Proof>,
    ) -> Result<Outcome, Outcome> {
        stored.map_err(|why| match (why, proof) {
            (
                Outcome::Refused(Rejection::Precondition) | Outcome::Failed(Error::Precondition),
                Some(proof),
            ) => self.guard.deny(&proof.subject, Right::Write).into(),
            (why, _) => why,
        })
    }
}
