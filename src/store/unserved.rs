//! What lies in the directory and is never served: links, and names that are not UTF-8. The log names the first of each, once.

use std::sync::OnceLock;

#[derive(Debug, Default)]
pub struct Unserved {
    link: OnceLock<()>,
    name: OnceLock<()>,
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
}
