//! The reload: certificates and the access file are read again while the server runs, at SIGHUP or at `data-server reload`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::access::Access;
use crate::metrics::LAST_RELOAD_FAILED;
use crate::net::Tls;
use crate::reload::Requests;
use crate::sandbox;

/// Rereads what can change while the server runs: certificates, and who may do what.
#[derive(Debug)]
pub struct Reloader {
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) access: Option<Arc<Access>>,
    /// The files that both are read from.
    pub files: Vec<PathBuf>,
    requests: Option<Requests>,
}

impl Reloader {
    pub(crate) fn new(
        tls: Option<Arc<Tls>>,
        access: Option<Arc<Access>>,
        files: Vec<PathBuf>,
    ) -> Self {
        let unheard =
            |error| tracing::warn!(%error, "data-server reload is not heard: only SIGHUP is");
        Self {
            tls,
            access,
            files,
            requests: Requests::listen().map_err(unheard).ok(),
        }
    }

    /// Reloads at each `data-server reload`. This future never resolves.
    pub async fn serve(&self) {
        let Some(requests) = &self.requests else {
            return std::future::pending().await;
        };
        loop {
            let request = requests.next().await;
            request.answer(&self.reload());
        }
    }

    /// Rereads, logs what came of it, and says what is wrong. What cannot be used leaves all as it was.
    pub fn reload(&self) -> Result<(), String> {
        if self.tls.is_none() && self.access.is_none() {
            tracing::info!("reload: nothing to reread; options change with a restart");
        }
        let mut wrong = Vec::new();
        match self.tls.as_deref().map(Tls::reload) {
            None => {}
            Some(Ok(())) => tracing::info!("reload: certificates reread"),
            Some(Err(error)) => {
                tracing::error!(%error, "reload: certificates not reread: the old ones stay");
                wrong.push(error.to_string());
            }
        }
        match self.access.as_deref().map(Access::reload) {
            None => {}
            Some(Ok(())) => tracing::info!(target: "audit", "reload: access reread"),
            Some(Err(error)) => {
                tracing::error!(target: "audit", %error, "reload: access not reread: the old rules stay");
                wrong.push(error.to_string());
            }
        }
        LAST_RELOAD_FAILED.store(!wrong.is_empty(), Ordering::Relaxed);
        if wrong.is_empty() {
            return Ok(());
        }
        if let Some(file) = self.files.iter().find(|file| sandbox::hides(file)) {
            let hint = format!(
                "the sandbox keeps {} out of reach: it is in a folder that was made after the start; restart the server",
                file.display()
            );
            tracing::error!("reload: {hint}");
            wrong.push(hint);
        }
        Err(wrong.join("; "))
    }
}
