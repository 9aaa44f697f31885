//! What lies in the directory and is not served: links, and names that are not UTF-8, of which the log names the first, once; and the folders
//! that listings leave out because they cannot be read, each of which the log names once.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::io::Errno;

/// The most folders that are remembered as left out. Any other is in the log each time.
const MOST_LEFT_OUT: usize = 1000;

#[derive(Debug, Default)]
pub struct Unserved {
    link: OnceLock<()>,
    name: OnceLock<()>,
    /// The folders that are left out: those that this server has no right to, and mounts that have gone.
    left_out: Mutex<BTreeSet<Box<str>>>,
}

impl Unserved {
    /// Notes a link at or above `path`.
    pub fn link(&self, path: &str) {
        self.link.get_or_init(|| {
            tracing::warn!(
                path,
                "links are not followed, so nothing is listed or served through them: mount the other directory here instead (mount --bind); no other link is logged"
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

    /// Returns true if `errno` means that the folder `path` cannot be read, so that listings skip it.
    pub fn leaves_out(&self, path: &str, errno: Errno) -> bool {
        let is_left_out = matches!(
            errno,
            Errno::ACCESS | Errno::NOTCONN | Errno::STALE | Errno::HOSTDOWN
        );
        if is_left_out && self.remember(path) {
            tracing::warn!(folder = path, cause = %errno, "listings leave a folder out that cannot be read");
        }
        is_left_out
    }

    /// Notes that a value was found in the folder `path`. Opening the folder proves nothing: without the right to search, each look-up
    /// fails.
    pub fn found_in(&self, path: &str) {
        if self.left_out.lock().remove(path) {
            tracing::info!(folder = path, "listings have a folder again");
        }
    }

    /// True if a folder at, above or below `path` may be left out: it was, as far as that is remembered.
    pub fn may_leave_out(&self, path: &str) -> bool {
        let lies_in = |folder: &str, other: &str| {
            let below = folder.strip_prefix(other);
            other.is_empty() || below.is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        let left_out = self.left_out.lock();
        left_out.len() >= MOST_LEFT_OUT
            || left_out
                .iter()
                .any(|it| lies_in(it, path) || lies_in(path, it))
    }

    /// True if the folder `path` was not left out before.
    fn remember(&self, path: &str) -> bool {
        let mut left_out = self.left_out.lock();
        if left_out.len() >= MOST_LEFT_OUT {
            return !left_out.contains(path);
        }
        left_out.insert(path.into())
    }
}
