//! Keys and values. Knows no HTTP.
//!
//! [`Store`] is an enum over the engines: a [`Directory`] takes and gives values as files, an [`S3`] store as streams. A request matches the
//! engine once, and then speaks to that. The contract, of which S3 promises less (docs/s3.md):
//!
//! - **Atomic.** A value is whole or absent, at every moment, to every reader, after every crash. An [`Upload`] that is
//!   dropped, cut off or refused leaves the old value and nothing else.
//! - **Acknowledged.** When [`Directory::put`] or [`Directory::delete`] returns, the change survives the death of the
//!   process, or under [`Durability::Disk`] the loss of power.
//! - **Visible.** A read finds what was published before it began, and what other programs have placed, edited or removed
//!   in the directory. A read that has begun goes on with the value it began with.
//! - **Versions.** No two writes of a key ever have the same [`Version`].
//! - **Complete.** [`Changes`] has every acknowledged change, in the order of publishing, or reports a [`Gap`].
//!
//! **Cancel safety.** Any future of this room may be dropped. An upload then leaves nothing. A change that the publisher
//! has been handed is made all the same, so a caller that gives up waiting does not learn its outcome.

use std::path::Path;
use std::sync::Arc;

use crate::s3::{PIECE, S3};
use crate::transfer::CHUNK;

mod attributes;
mod batch_reply;
mod cache;
mod changes;
mod clock;
mod directory;
mod directory_fd;
mod inherit;
mod journal;
mod layout;
mod list;
mod object;
mod publish;
mod publish_method;
mod resumable;
mod space;
mod temp_file;
mod upload;
mod upload_claim;
mod value_file;
mod write_context;

pub use crate::transfer::{
    BlockingPool, BodySource, IN_MEMORY, InFlight, Piped, StagingBounds, UPLOADS_OF_ONE, Uploader,
    is_large, read,
};
pub use crate::value::{
    BadKey, Checksum, ChecksumKind, Digest, Digests, Error, Key, Listing, MAX_LEN, MAX_SEGMENT,
    Meta, Page, Prefixes, RESERVED, Version, Wanted,
};
pub use attributes::MAX_FIELDS;
pub use changes::{Change, Changes, Gap};
pub use directory::Directory;
pub use directory::open::{Inspected, JournalOptions, Options, inspect, take_default};
pub use journal::{Report as JournalReport, check as check_journal};
pub use layout::{OpenError, make};
pub use object::{Descriptor, IsText, Object};
pub use publish::Condition;
pub use resumable::{Field, NewUpload, Resumable};
pub use space::Free;
pub use upload::Upload;
pub use upload_claim::UploadId;
pub use write_context::Durability;

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

    /// Why each write is synced by itself, where a journal should do that.
    pub fn unjournaled(&self) -> Option<&'static str> {
        match self {
            Self::Directory(directory) => directory.unjournaled(),
            Self::S3(_) => None,
        }
    }

    /// Whether what was received of an upload can be kept between its requests.
    pub fn resumes(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// How many bytes of an upload are received at a time at most; a whole head fits, too. While an engine takes them, as many
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

    /// Whether it matters whose an upload is that comes in one request.
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
