//! The rights of a client where only the work on its request finds the key: in forms, and of uploads that go on.

use crate::access::Right;
use crate::http::auth::authorize::{Denied, authorize_put};
use crate::http::auth::proven::Proof;
use crate::http::refusal::rejection::Rejection;
use crate::http::response::outcome::Outcome;
use crate::http::service::handler::Handler;
use crate::http::service::operation::PutOptions;
use crate::store::{Error, Key};

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

    /// What came of storing a value that was allowed only where there was none, for the client of `proof`: it is told that
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
