//! The errors of the store, as meanings.
//!
//! The operating system's error numbers stop here: an error that leaves `store/` says what happened to the value, and
//! carries the cause only for the log. It holds no HTTP status.

use std::borrow::Cow;
use std::sync::Arc;

use rustix::io::Errno;

/// The error of an operation on the store. Whatever it is, the value is as it was before.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The device, the quota or the inodes are used up: which, for the client.
    #[error("{0}")]
    NoSpace(Cow<'static, str>),
    /// The values are being counted for their bounds: no write that a bound holds for is taken before that ends.
    #[error(
        "the values are being counted for their bounds, {counted} so far: it is not known yet whether there is room; \
         try again in about {retry_after} s"
    )]
    Counting {
        /// How many there are so far.
        counted: u64,
        /// Seconds after which that may be over.
        retry_after: u64,
    },
    /// The file system is read-only: it was mounted so, or has become so when it found itself damaged or its device
    /// failed.
    #[error("the file system is read-only")]
    ReadOnly,
    /// The process or the system is out of file descriptors or memory; the same request may succeed later.
    #[error("out of {0}; try again")]
    Exhausted(&'static str),
    /// The value is larger than the file system or the process's limit (`RLIMIT_FSIZE`) allows.
    #[error("the value is larger than the file system allows")]
    TooLarge,
    /// The server's user lacks the permission: by the owner and mode of a file or of the directory, or by an attribute
    /// of the file system that makes a file immutable.
    #[error("the user that the server runs as may not do this ({doing}: permission denied)")]
    Forbidden {
        /// The operation, for the log.
        doing: &'static str,
        /// The cause, for the log.
        source: Arc<std::io::Error>,
    },
    /// The name or a part of it is taken by something else, which is left alone: its description, for the client.
    #[error("{0}")]
    Occupied(String),
    /// No folder can be made of a name that is taken: by what, for the client.
    #[error("{0} has this name")]
    NameTaken(&'static str),
    /// A folder that a PUT made has the name: it stays from now on.
    #[error("a folder has this name")]
    FolderKept,
    /// No folder can be made in what is none, or is not there: in words, for the client.
    #[error("{0}")]
    NoParent(String),
    /// There is no folder that could be moved.
    #[error("there is no folder of this name")]
    NoFolder,
    /// The condition of a change did not hold when it was to be made.
    #[error("the precondition does not hold")]
    Precondition,
    /// The body of the value ended before it was whole.
    #[error("the value broke off before it was whole")]
    Incomplete,
    /// The directory is not where it was opened, or no longer this server's: which, for the client.
    #[error("{0}")]
    Displaced(&'static str),
    /// The store behind this one cannot be reached, and nothing was done: why, for the log.
    #[error("the store cannot be reached; try again")]
    Unreachable(String),
    /// The store behind this one asks for fewer requests: nothing was done.
    #[error("the store is busy; try again")]
    Busy {
        /// Seconds after which it may be asked again.
        retry_after: u64,
    },
    /// The store behind this one did not answer in time; nothing was to be changed.
    #[error("the store did not answer in time")]
    TimedOut,
    /// A change was perhaps made: the answer of the store behind this one was lost, or it failed.
    #[error("whether the change was made is not known")]
    OutcomeUnknown {
        /// No answer came in time.
        is_late: bool,
    },
    /// A value was copied to the second key, and the first has not lost it: it has another value by now, or another
    /// request removed it.
    #[error(
        "{1:?} has a copy of the value that {0:?} had: {0:?} was changed meanwhile, and was left as it is"
    )]
    HalfMoved(String, String),
    /// The store behind this one refuses what the server asks, as its credentials, its bucket or its region are wrong:
    /// its words, for the log.
    #[error("the store refuses the server's requests")]
    Refused(String),
    /// The store behind this one failed: what it answered, for the log.
    #[error("the store failed")]
    BadGateway(String),
    /// The store behind this one cannot do it: what, for the client.
    #[error("{what}")]
    NotSupported {
        /// A short name of what is missing.
        name: &'static str,
        /// The missing thing, for the client.
        what: &'static str,
    },
    /// A key that the store behind this one cannot hold: why, for the client.
    #[error("bad key: {0}")]
    BadKey(&'static str),
    /// The written bytes could not be put on the disk. The kernel has forgotten what it could not write, so that
    /// another sync of the same would prove nothing: it is to be written anew.
    #[error(transparent)]
    Unsynced(Box<Error>),
    /// The file is shorter than it was when the read began.
    #[error("the file was cut short while it was read")]
    Truncated,
    /// Everything else.
    #[error("the file system failed ({doing})")]
    Failed {
        /// The operation, for the log.
        doing: &'static str,
        /// The cause, for the log.
        source: Arc<std::io::Error>,
    },
}

/// The most tries of a request to an S3 store whose value is another one each time.
pub const TRIES: usize = 8;

/// The value was another one at each of [`TRIES`].
pub const CONTENDED: Error = Error::Busy { retry_after: 1 };

impl Error {
    /// For `map_err`: a failure with no meaning of its own, in the call that `doing` names.
    pub fn failed(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Failed {
            doing,
            source: source.into(),
        }
    }

    /// Seconds after which the same may be tried again.
    pub fn retry_after(&self) -> u64 {
        match self {
            Self::Busy { retry_after } | Self::Counting { retry_after, .. } => *retry_after,
            _ => 1,
        }
    }

    /// True where the bytes that were received may be published later. After a failed sync they may not: they, or their
    /// name, may not be on the disk, and a later sync would not tell.
    pub fn is_transient(&self) -> bool {
        !matches!(
            self,
            Self::TooLarge
                | Self::Occupied(_)
                | Self::NameTaken(_)
                | Self::FolderKept
                | Self::NoParent(_)
                | Self::NoFolder
                | Self::Precondition
                | Self::HalfMoved(..)
                | Self::Incomplete
                | Self::Truncated
                | Self::NotSupported { .. }
                | Self::BadKey(_)
                | Self::Unsynced(_)
        )
    }

    /// True when the file went away while it was worked on. File systems that look a file up by its name at each call,
    /// as FUSE programs do, lose one that is replaced meanwhile.
    pub fn is_gone(&self) -> bool {
        let Self::Failed { source, .. } = self else {
            return false;
        };
        matches!(
            Errno::from_io_error(source),
            Some(Errno::NOENT | Errno::STALE)
        )
    }

    /// The meaning of `errno`, in the call that `doing` names.
    pub fn new(doing: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::NOSPC => Self::NoSpace("no space left on the device".into()),
            Errno::DQUOT => Self::NoSpace("the disk quota is used up".into()),
            Errno::ROFS => Self::ReadOnly,
            Errno::MFILE | Errno::NFILE => Self::Exhausted("file descriptors"),
            Errno::NOMEM => Self::Exhausted("memory"),
            Errno::FBIG => Self::TooLarge,
            Errno::ACCESS | Errno::PERM => Self::Forbidden {
                doing,
                source: Arc::new(errno.into()),
            },
            other => Self::Failed {
                doing,
                source: Arc::new(other.into()),
            },
        }
    }

    /// The same, of a change that may have been made: not what its cause means for one that was not.
    pub(crate) fn in_doubt(&self) -> Self {
        Self::Unsynced(Box::new(match self.clone() {
            failed @ (Self::Failed { .. } | Self::Unsynced(_)) => failed,
            other => Self::failed("publish")(std::io::Error::other(other.to_string())),
        }))
    }

    /// For `map_err`: the meaning of an error number of a sync, in the call that `doing` names.
    pub fn unsynced(doing: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Unsynced(Box::new(Self::new(doing, errno)))
    }

    /// For `map_err`: the meaning of an error number, in the call that `doing` names.
    pub fn errno_while(doing: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::new(doing, errno)
    }
}
