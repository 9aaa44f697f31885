//! The store as the rooms above see it: an enum over engines.
//!
//! The engines promise the same where they can, and differ in how a value comes and goes: from a [`Directory`] as a file,
//! from an [`S3`] store as a stream. So a request matches the engine once, and then speaks to that.

use std::path::Path;
use std::sync::Arc;

use super::changes::Changes;
use super::directory::Directory;
use super::directory::open::Options;
use super::layout::OpenError;
use super::space::Free;
use crate::s3::{PIECE, S3};
use crate::transfer::{BlockingPool, CHUNK, InFlight};
use crate::value::Error;

/// Keys and their values, in one of the engines.
#[derive(Debug)]
pub enum Store {
    /// One file for each key, in a directory.
    Directory(Box<Directory>),
    /// One object for each key, in a bucket.
    S3(Arc<S3>),
}

/// A probe of the store: what is free for values, where that is known and values may be written.
pub type Probe = std::pin::Pin<Box<dyn Future<Output = Result<Option<Free>, Error>> + Send>>;

impl Store {
    /// Opens the directory `dir` for reading and writing, making it when it is missing.
    pub fn open(dir: &Path, options: &Options) -> Result<Self, OpenError> {
        Directory::open(dir, options).map(|directory| Self::Directory(Box::new(directory)))
    }

    /// Opens the directory `dir` for reading alone: nothing is created or locked.
    pub fn open_read_only(dir: &Path, options: &Options) -> Result<Self, OpenError> {
        let directory = Directory::open_read_only(dir, options)?;
        Ok(Self::Directory(Box::new(directory)))
    }

    /// Does what the engine needs done every few seconds.
    pub async fn sweep(&self) {
        match self {
            Self::Directory(directory) => directory.sweep().await,
            Self::S3(_) => {}
        }
    }

    /// Tries, beside the reactors, whether values can be read and, if they may be written, whether one can be published.
    pub fn probe(&self) -> Probe {
        match self {
            Self::Directory(directory) => Box::pin(directory.probe()),
            Self::S3(s3) => {
                let s3 = Arc::clone(s3);
                Box::pin(async move { s3.probe().await.map(|()| None) })
            }
        }
    }

    /// The reason why each write is synced by itself, where a journal should do that.
    pub fn unjournaled(&self) -> Option<&'static str> {
        match self {
            Self::Directory(directory) => directory.unjournaled(),
            Self::S3(_) => None,
        }
    }

    /// True if an upload can be received in several requests.
    pub fn resumes(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// The most bytes of an upload that are received at a time; a whole head fits, too. While an engine takes them, as many
    /// again may be received, so short ones bound the memory of many uploads at once.
    pub fn receive_buffer(&self) -> usize {
        match self {
            Self::Directory(_) => CHUNK,
            Self::S3(_) => PIECE,
        }
    }

    /// The latest changes; of a store that is only read, none; of one that others change unseen, `None`.
    pub fn changes(&self) -> Option<&Arc<Changes>> {
        match self {
            Self::Directory(directory) => Some(directory.changes()),
            Self::S3(_) => None,
        }
    }

    /// The threads for what keeps a processor busy.
    pub fn compute(&self) -> &BlockingPool {
        match self {
            Self::Directory(directory) => directory.compute(),
            Self::S3(s3) => s3.compute(),
        }
    }

    /// The threads for what may wait for a device.
    pub fn disk(&self) -> &BlockingPool {
        match self {
            Self::Directory(directory) => directory.disk(),
            Self::S3(s3) => s3.disk(),
        }
    }

    /// True if the quota of an upload in one request depends on its client.
    pub fn stages_by_client(&self) -> bool {
        match self {
            Self::Directory(directory) => directory.stages_by_client(),
            Self::S3(s3) => s3.stages_by_client(),
        }
    }

    /// The uploads and bytes that are staged at the moment, over all reactors.
    pub fn staged(&self) -> InFlight {
        match self {
            Self::Directory(directory) => directory.staged(),
            Self::S3(s3) => s3.staged(),
        }
    }
}
