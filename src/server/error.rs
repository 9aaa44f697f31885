//! Why a server does not start.

use std::io;

use crate::access::BadAccess;
use crate::config::TooFew;
use crate::net::{At, Listen, TlsError};
use crate::s3;
use crate::sandbox::NotConfined;
use crate::store::OpenError;

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
    #[error("cannot listen on {at}: {source}{hint}", hint = hint_of_place(.at, .source))]
    Listen {
        /// Where.
        at: Listen,
        /// The cause.
        source: io::Error,
    },
    /// Who may do what is not known.
    #[error("--access: {0}")]
    Access(#[from] BadAccess),
    /// The journal is damaged: what `data-server journal check` says.
    #[error("the journal cannot be replayed: {}", .0.trim_end().replace('\n', "; "))]
    Journal(String),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refused something a server needs: a thread, a runtime, a signal handler.
    #[error("cannot start: {0}{hint}", hint = hint(.0))]
    System(#[from] io::Error),
}

/// Advice for the operator. Nothing but a thread fails so before the server serves.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            ": the system gives no more threads, or no memory for them; raise TasksMax= of systemd, pids.max of the cgroup, or ulimit -u"
        }
        _ => "",
    }
}

/// Advice about a place that cannot be listened on.
fn hint_of_place(at: &Listen, error: &io::Error) -> String {
    let At::Address(address) = at.at else {
        return String::new();
    };
    match (error.kind(), address.port()) {
        (io::ErrorKind::AddrInUse, port) => format!(
            "; another process has this port (`ss -ltnp 'sport = :{port}'` names it): choose another with --listen"
        ),
        (io::ErrorKind::AddrNotAvailable, _) => {
            "; no interface of this machine has this address".to_owned()
        }
        (io::ErrorKind::PermissionDenied, ..1024) => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE, or a socket that the service manager passes".to_owned()
        }
        _ => String::new(),
    }
}

impl StartError {
    /// Whether another server has the directory.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Directory(OpenError::InUse { .. }))
    }
}
