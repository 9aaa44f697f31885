//! What lies in the directory and is never served: links, and names that are not UTF-8. The log names the first of each, once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[derive(Debug, Default)]
pub struct Unserved {
    link: AtomicBool,
    name: AtomicBool,
}

impl Unserved {
    /// Notes a link at or above `path`.
    pub fn link(&self, path: &str) {
        if is_first(&self.link) {
            tracing::warn!(
                path,
                "links are not followed, so nothing is listed or served through them: mount the other directory here instead (mount --bind); no other link is logged"
            );
        }
    }

    /// Notes a `name` in `folder` that is not UTF-8.
    pub fn name(&self, folder: &str, name: &[u8]) {
        if is_first(&self.name) {
            let name = name.escape_ascii();
            tracing::warn!(folder, %name, "names that are not UTF-8 are no keys, so they are not listed or served; no other is logged");
        }
    }
}

fn is_first(is_told: &AtomicBool) -> bool {
    !is_told.load(Relaxed) && !is_told.swap(true, Relaxed)
}
