//! The journal: small values and deletes on the disk at the speed of a log, one sync for all that wait.
//!
//! A group of changes is appended to a segment as one frame, and synced. Its files are written meanwhile, and get their
//! names after that, without a sync of their own; so each key stays one file. A [`checkpoint`] has the kernel write the
//! files and frees the segments; a [`replay`] at the start makes in the files what they lack, in the order of the log.
//!
//! The order of the log is that of all changes that it has. It says nothing of other programs' files, nor of a large
//! value that was made while the journal could not be written: between these and a record the `ctime` of the file
//! decides, by a clock that is coarse and can be set back.
//!
//! Promises, for `--durability disk`, that it says of no frame that it is on the disk before it is. A segment whose
//! sync has failed is used no more: the kernel may have dropped what it could not write, and a second sync would prove
//! nothing.

mod check;
mod checkpoint;
mod control;
mod format;
mod kept;
mod log;
mod no_log;
mod recover;
mod replay;
mod segment;
mod writer;

pub use check::{Report, check};
pub use control::JournalLocation;
pub use format::FrameBuilder;
#[cfg(test)]
pub use format::{ChangeRecord, Head, Record};
#[cfg(test)]
pub use log::{Fate, History};
pub use no_log::NoLog;
pub use recover::{needs_replay, recover};
pub use writer::{Journal, Log};
