//! The journal: small values and deletes on the disk at the speed of a log, one sync for all that wait.
//!
//! A group of changes is appended to a segment as one frame, and synced. Its files are written meanwhile, and get their names
//! after that, without a sync of their own; so each key stays one file, and no file has its key's name whose bytes a cut of power
//! could still take with no record of them. A [`checkpoint`] has the kernel write the files and frees the segments; a [`replay`]
//! at the start makes in the files what they lack.
//!
//! Promises, for `--durability disk`, that [`Journal::is_synced`] says of no frame that it is on the disk before it is. A segment whose sync
//! has failed is used no more: the kernel may have dropped what it could not write, and a second sync would prove nothing.

mod append;
mod checkpoint;
mod control;
mod frame;
mod log;
mod names;
mod note;
mod open;
mod place;
mod recover;
mod replay;
mod segment;
mod shared;
mod syncer;

pub(super) use append::Journal;
pub(super) use control::Position;
pub(super) use frame::{FrameBuilder, Mark};
pub(super) use names::Names;
pub(super) use place::Place;
pub(super) use recover::{needs_replay, recover};
