//! Why a server does not start.

use std::io;

use crate::access::BadAccess;
use crate::config::TooFew;
use crate::net::{Listen, TlsError};
use crate::sandbox::NotConfined;
use crate::store::{OpenError, s3};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be served.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The S3 store cannot be served.
    #[error(transparent)]
    S3(#[from] s3::OpenError),
    /// The rights of the process could not be given up, as was demanded.
    #[error(transparent)]
    Sandbox(#[from] NotConfined),
    /// The limit on descriptors is too low.
    #[error(transparent)]
    Descriptors(#[from] TooFew),
    /// That cannot be listened on.
    #[error("cannot listen on {at}: {source}")]
    Listen {
        /// Where.
        at: Listen,
        /// The cause.
        source: io::Error,
    },
    /// Who may do what is not known.
    #[error("--access: {0}")]
    Access(#[from] BadAccess),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refused something a server needs: a thread, a runtime, a signal handler.
    #[error("cannot start: {0}{hint}", hint = hint(.0))]
    System(#[from] io::Error),
}

/// What to do about it. Nothing but a thread fails so before the server serves.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            ": the system gives no more threads, or no memory for them; raise TasksMax= of systemd, pids.max of the cgroup, or ulimit -u"
        }
        _ => "",
    }
}

impl StartError {
    /// Whether another server has the directory.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Directory(OpenError::InUse { .. }))
    }
}
