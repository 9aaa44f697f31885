//! Who asks, for the work on a request: what it may do, and for whom an upload counts.

use crate::http::auth::proven::Proof;
use crate::http::client::Peer;
use crate::http::service::handler::Handler;
use crate::store::Uploader;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// What it has proved; `None` where that does not matter.
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
