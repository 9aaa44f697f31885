//! Opens where the values are: the directory, or the S3 store.

use std::sync::Arc;

use super::error::StartError;
use crate::config::{Config, DirectoryConfig, Values};
use crate::cpus::Cpus;
use crate::s3::{self, S3};
use crate::store::{self, OpenError, Store};

/// Tries what the S3 store does; without one, nothing.
pub fn check_store(config: &Config) -> Result<s3::Report, StartError> {
    match &config.values {
        Values::Directory(..) => Ok(s3::Report::default()),
        Values::S3(settings, _) => Ok(S3::test(settings)?),
    }
}

/// Opens the directory, or reaches the S3 store.
pub(super) fn open_store(config: &Config, cpus: &Cpus) -> Result<Store, StartError> {
    match &config.values {
        Values::Directory(directory, options) => {
            let options = store::Options {
                cpus: cpus.of_others(),
                ..options.clone()
            };
            Ok(open_directory(
                directory,
                &options,
                config.service.read_only,
            )?)
        }
        Values::S3(settings, share) => {
            let share = s3::Share {
                cpus: cpus.of_others(),
                ..*share
            };
            let s3 = S3::open(settings.clone(), share)?;
            Ok(Store::S3(Arc::new(s3)))
        }
    }
}

/// Makes the directory if it is missing. The default one, which lies where any user may write, has to be this user's own.
pub(super) fn make_directory(config: &Config) -> Result<(), OpenError> {
    let Values::Directory(directory, options) = &config.values else {
        return Ok(());
    };
    let (dir, may_make) = (&directory.path, !config.service.read_only);
    if !directory.is_named {
        store::claim(dir, may_make)?;
    }
    if may_make {
        store::make(dir, options.durability)?;
        if let Some(journal) = &options.journal.dir {
            store::make(journal, options.durability)?;
        }
    }
    Ok(())
}

/// Opens the directory. The default one is looked at again: what serves need not have made it.
fn open_directory(
    config: &DirectoryConfig,
    options: &store::Options,
    read_only: bool,
) -> Result<Store, OpenError> {
    let dir = &config.path;
    if !config.is_named {
        store::claim(dir, !read_only)?;
        tracing::warn!(
            "{} is for trying out, for /tmp is emptied at reboots: give a directory of your own, as in data-server ./values",
            dir.display()
        );
    }
    if read_only {
        Store::open_read_only(dir, options)
    } else {
        Store::open(dir, options)
    }
}
