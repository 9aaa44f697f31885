//! Where temporary files are made, and how they get the names of their keys.
//!
//! A temporary file has no name at all (`O_TMPFILE`), or, where the file system lacks that or a name is needed, one in
//! `.data-server/staging`, which the next start sweeps. That of a resumable upload has a name in `.data-server/uploads`.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::Mode;

use super::directory_fd::Dir;
use super::inherit;
use super::publish_method::PublishMethod;

/// Values are made with this mode; the process's umask takes away from it, as it does for `cp`.
pub(super) const VALUE_MODE: u32 = 0o666;

/// The directories that temporary files are made in.
#[derive(Debug)]
pub(super) struct TempDir {
    values: Arc<Dir>,
    own: OwnedFd,
    staging: OwnedFd,
    uploads: OwnedFd,
    method: PublishMethod,
    exchanges: bool,
    mode: Mode,
    next_name: AtomicU64,
}

impl TempDir {
    /// For files that `method` publishes in `values`, and an exchange in place of others if it `exchanges`. `own` is `.data-server`, and `staging` and `uploads` are the
    /// directories in it.
    pub(super) fn new(
        values: Arc<Dir>,
        own: OwnedFd,
        staging: OwnedFd,
        uploads: OwnedFd,
        method: PublishMethod,
        exchanges: bool,
    ) -> Self {
        Self {
            values,
            own,
            staging,
            uploads,
            method,
            exchanges,
            mode: inherit::unmasked(VALUE_MODE),
            next_name: AtomicU64::new(0),
        }
    }

    /// The directory of the values.
    pub(super) fn values(&self) -> &Arc<Dir> {
        &self.values
    }

    /// `.data-server`, for names that are no keys.
    pub(super) fn own(&self) -> &OwnedFd {
        &self.own
    }

    /// `.data-server/staging`, for files that need a name before they have their key's.
    pub(super) fn staging(&self) -> &OwnedFd {
        &self.staging
    }

    /// `.data-server/uploads`, for files that outlive the server: those of resumable uploads.
    pub(super) fn uploads(&self) -> &OwnedFd {
        &self.uploads
    }

    /// How files get the names of their keys.
    pub(super) fn method(&self) -> PublishMethod {
        self.method
    }

    /// Whether a journaled value takes the name of another by an exchange: where a rename would flush its file.
    pub(super) fn exchanges(&self) -> bool {
        self.exchanges
    }

    /// The mode of files that inherit nothing.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// A name that nothing in [`TempDir::staging`] has.
    pub(super) fn new_name(&self) -> String {
        self.next_name.fetch_add(1, Ordering::Relaxed).to_string()
    }
}
