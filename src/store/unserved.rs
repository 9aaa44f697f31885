//! What lies in the directory and is not served: links, and names that are not UTF-8, of which the log names the first,
//! once; and the folders and values that listings leave out because they cannot be read, each of which the log names
//! once.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::io::Errno;

/// The most that are remembered as left out, are in the log, and count.
const MOST_LEFT_OUT: usize = 1000;

#[derive(Debug, Default)]
pub struct Unserved {
    link: OnceLock<()>,
    name: OnceLock<()>,
    /// What is left out: what this server has no right to, mounts that have gone, and what is damaged.
    left_out: Mutex<BTreeSet<Box<str>>>,
}

impl Unserved {
    /// Notes a link at or above `path`.
    pub fn link(&self, path: &str) {
        self.link.get_or_init(|| {
            tracing::warn!(
                path,
                "symbolic links are not listed, and followed with --follow-symlinks alone, and not out of the directory: mount another directory here instead (mount --bind); no other link is logged"
            );
        });
    }

    /// Notes a `name` in `folder` that is not UTF-8.
    pub fn name(&self, folder: &str, name: &[u8]) {
        self.name.get_or_init(|| {
            let name = name.escape_ascii();
            tracing::warn!(folder, %name, "names that are not UTF-8 are no keys, so they are not listed or served; no other is logged");
        });
    }

    /// Returns true if `errno` means that `path`, a folder or a value, cannot be read, so that walks and listings skip
    /// it: not where that concerns the whole directory.
    pub fn leaves_out(&self, path: &str, errno: Errno) -> bool {
        let is_of_server = matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM);
        if path.is_empty() || is_of_server {
            return false;
        }
        let mut left_out = self.left_out.lock();
        if left_out.len() < MOST_LEFT_OUT && left_out.insert(path.into()) {
            tracing::warn!(path, cause = %errno, "listings leave out what cannot be read");
        }
        true
    }

    /// Notes that the folder or the value `path` was read. Opening a folder proves nothing: its names may be what is
    /// damaged.
    pub fn can_be_read(&self, path: &str) {
        let mut left_out = self.left_out.lock();
        if left_out.remove(path) {
            tracing::info!(path, "listings have again what could not be read");
        }
    }

    /// How much is left out.
    pub fn left_out(&self) -> usize {
        self.left_out.lock().len()
    }
}
