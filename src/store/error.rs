//! What can go wrong in the store, as meanings.
//!
//! The operating system's error numbers stop here: what leaves `store/` says what happened to the value, and carries
//! the cause for the log alone. It holds no HTTP status.

use rustix::io::Errno;

/// Why an operation on the store failed. Whatever it was, the value is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device, the quota or the inodes are used up, or the file system is read-only: `reason` says which.
    #[error("{reason}")]
    NoSpace {
        /// What is missing, for the client.
        reason: &'static str,
    },
    /// The process or the system is out of file descriptors or memory; the same request may succeed later.
    #[error("out of {reason}; try again")]
    Exhausted {
        /// What ran out, for the client.
        reason: &'static str,
    },
    /// The value is larger than the file system or the process's limit (`RLIMIT_FSIZE`) allows.
    #[error("the value is larger than the file system allows")]
    TooLarge,
    /// Something that is not a regular file has this name, and is left alone.
    #[error("a directory, link or device has this name")]
    Occupied,
    /// The condition of a change did not hold when it was to be made.
    #[error("the precondition does not hold")]
    Precondition,
    /// What was to be stored broke off before it was whole.
    #[error("the value broke off before it was whole")]
    BrokenOff,
    /// The file is shorter than it was when the read began.
    #[error("the file was cut short while it was read")]
    Truncated,
    /// Everything else.
    #[error("the file system failed ({doing})")]
    Failed {
        /// The operation, for the log.
        doing: &'static str,
        /// The cause, for the log.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err`: a failure with no meaning of its own, met while `doing`.
    pub fn failed(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Failed { doing, source }
    }

    /// The meaning of `errno`, met while `doing`.
    pub(super) fn new(doing: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::NOSPC => Self::NoSpace {
                reason: "no space left on the device",
            },
            Errno::DQUOT => Self::NoSpace {
                reason: "the disk quota is used up",
            },
            Errno::ROFS => Self::NoSpace {
                reason: "the file system is read-only",
            },
            Errno::MFILE | Errno::NFILE => Self::Exhausted {
                reason: "file descriptors",
            },
            Errno::NOMEM => Self::Exhausted { reason: "memory" },
            Errno::FBIG => Self::TooLarge,
            other => Self::Failed {
                doing,
                source: other.into(),
            },
        }
    }

    /// For `map_err`: what an error number means, met while `doing`.
    pub(super) fn while_(doing: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::new(doing, errno)
    }
}
