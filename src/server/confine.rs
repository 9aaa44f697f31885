//! What a server does before its process has a second thread: it makes its directory, and gives up the rights that it does not
//! need. The directory comes first, for what is allowed has to be there.

use super::error::StartError;
use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::open_store::make_directory;
use crate::config::{Config, Values};
use crate::s3;
use crate::sandbox::{self, Confined};

/// Refuses a process with too few descriptors, makes the directory of values, and gives up all rights that serving does not need. Where clients prove who they are, what
/// they prove it by is in the memory of this process: no other process of its user may read it, and no core has it.
pub fn prepare(config: &Config) -> Result<Confined, StartError> {
    config.descriptors.check()?;
    if config.access.is_some() {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)?;
    }
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
