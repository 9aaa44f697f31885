//! What a server does before its process has a second thread: it makes its directory, and gives up the rights that it does not
//! need. The directory comes first, for what is allowed has to be there.

use super::error::StartError;
use super::open_store::make_directory;
use crate::config::{Config, Values};
use crate::sandbox::{self, Confined};
use crate::store::s3;

/// Makes the directory of values, and gives up all rights that serving does not need.
pub fn prepare(config: &Config) -> Result<Confined, StartError> {
    make_directory(config)?;
    let mut allowed = config.sandbox.allowed.clone();
    if let Values::S3(settings, _) = &config.values {
        let needs = s3::needs(settings);
        allowed.read.extend(needs.read);
        allowed.reread.extend(needs.reread);
        allowed.connect.extend(needs.ports);
    }
    Ok(sandbox::confine(config.sandbox.mode, allowed)?)
}
