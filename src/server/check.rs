//! The checks of a start, without a start: what `data-server config check` does.

use super::error::StartError;
use crate::access::Access;
use crate::config::{Config, Values};
use crate::net::Tls;
use crate::store::{self, Inspected};

/// Checks what a start reads: certificates, who may do what, the directory and its journal. Changes nothing. What could not be
/// checked, in words.
pub fn check(config: &Config) -> Result<Vec<&'static str>, StartError> {
    let mut unchecked = vec!["whether the addresses are free"];
    config.descriptors.check()?;
    config.access.clone().map(Access::read).transpose()?;
    config.tls.clone().map(Tls::new).transpose()?;
    match &config.values {
        Values::Directory(directory, options) => {
            let may_write = !config.service.read_only;
            match store::inspect(&directory.path, may_write)? {
                Inspected::Missing => {}
                Inspected::InUse => unchecked.push("the journal: a server has the directory"),
                Inspected::Free => {
                    let at = options.journal.dir.as_deref();
                    let report = store::check_journal(&directory.path, at)?;
                    if report.is_damaged && !options.journal.discards {
                        return Err(StartError::Journal(report.text));
                    }
                }
            }
        }
        Values::S3(..) => unchecked.push("the store, which data-server check-store tries"),
    }
    Ok(unchecked)
}
