//! What SIGHUP has read again.

use std::sync::Arc;

use crate::access::Access;
use crate::net::Tls;

/// Rereads what can change while the server runs: certificates, and who may do what.
#[derive(Clone, Debug)]
pub struct Reloader {
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) access: Option<Arc<Access>>,
}

impl Reloader {
    /// Rereads, and logs what came of it. What cannot be used leaves all as it was.
    pub fn reload(&self) {
        if self.tls.is_none() && self.access.is_none() {
            tracing::info!("SIGHUP: nothing to reread; options change with a restart");
        }
        match self.tls.as_deref().map(Tls::reload) {
            None => {}
            Some(Ok(())) => tracing::info!("SIGHUP: certificates reread"),
            Some(Err(error)) => {
                tracing::error!(%error, "SIGHUP: certificates not reread: the old ones stay");
            }
        }
        match self.access.as_deref().map(Access::reload) {
            None => {}
            Some(Ok(())) => tracing::info!(target: "audit", "SIGHUP: access reread"),
            Some(Err(error)) => {
                tracing::error!(target: "audit", %error, "SIGHUP: access not reread: the old rules stay");
            }
        }
    }
}
