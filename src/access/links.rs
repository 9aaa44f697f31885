//! The key of `--links`: a secret of the server's own, which it makes at its first start, and keeps.
//!
//! Promises that the file is whole from the moment it has its name, and that only its owner can read it.

use std::fs::{OpenOptions, rename};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

use super::credentials::{LinkKey, read_secret};
use super::file::BadAccess;
use super::policy::Policy;

/// The name of the link key of `--links`, and the longest that its links last: 30 days.
const LINKS: &str = "links";
const LINKS_LAST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Policy {
    /// Has every subject without a link key of its own sign links with this `secret`.
    pub fn add_links(&mut self, secret: &[u8]) {
        let own = || LinkKey {
            lasts: LINKS_LAST,
            ..LinkKey::new(secret, "", None)
        };
        self.link_keys.entry(LINKS.into()).or_insert_with(own);
        for name in self.subjects.keys().chain([&self.anonymous.name]) {
            let by = self.shares.entry(name.clone());
            by.or_insert_with(|| LINKS.into());
        }
    }
}

/// The secret in the file at `path`, which is made where it is not there, if that `may` be.
pub fn own_secret(path: &Path, may: bool) -> Result<Vec<u8>, BadAccess> {
    let bad = |why: String| BadAccess {
        place: format!("the key of --links, {}", path.display()),
        why,
    };
    let is_absent = |error: std::io::Error| error.kind() == ErrorKind::NotFound;
    if std::fs::metadata(path).is_err_and(is_absent) {
        if !may {
            let why =
                "there is none: start once without --read-only and --share, which store nothing";
            return Err(bad(why.to_owned()));
        }
        make(path).map_err(|error| bad(error.to_string()))?;
    }
    read_secret(path).map_err(bad)
}

fn make(path: &Path) -> std::io::Result<()> {
    let (new, mut secret) = (path.with_extension("new"), [0; 32]);
    retry_on_intr(|| getrandom(&mut secret, GetRandomFlags::empty()))?;
    // What a crash left has the rights that it was made with.
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(HEXLOWER.encode(&secret).as_bytes())?;
    file.sync_all()?;
    rename(new, path)
}
