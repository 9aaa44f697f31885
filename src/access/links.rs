//! The key of `--links`: a secret of the server's own, which it makes at its first start, and keeps.
//!
//! Promises that the file is whole from the moment it has its name, and that only its owner can read it.

use std::fs::{OpenOptions, rename};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use data_encoding::HEXLOWER;
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

use super::credentials::read_secret;
use super::file::BadAccess;

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
