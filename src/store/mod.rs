//! Keys and values. Knows no HTTP.
//!
//! The contract, which every future store behind this room keeps as well:
//!
//! - **Atomic.** A value is whole or absent, at every moment, to every reader, after every crash. An [`Upload`] that is
//!   dropped, cut off or refused leaves the old value and nothing else.
//! - **Acknowledged.** When [`Directory::put`] or [`Directory::delete`] returns, the change survives the death of the
//!   process, or under
//!   [`Durability::Disk`] the loss of power.
//! - **Visible.** A value published before a read begins is what the read finds, whoever asks; so is a file placed,
//!   edited or removed by hand. A read that has begun goes on with the value it began with.
//! - **Versions.** No two writes of a key ever have the same [`Version`].
//! - **Told.** [`Changes`] has every acknowledged change, in the order of publishing, or says that some are missing.
//!
//! **Cancel safety.** Any future of this room may be dropped. An upload then leaves nothing; a change that the publisher
//! has been handed is made all the same, so who gave up waiting does not know its outcome.

mod attributes;
mod budget;
mod cache;
mod changes;
mod clock;
mod content;
mod digest;
mod digesting;
mod directory;
mod error;
mod home;
mod key;
mod list;
mod names;
mod object;
mod piece;
mod pipes;
mod publish;
mod read;
mod reply;
mod residency;
mod staged;
mod staging;
mod stamp;
mod threads;
mod upload;

pub use budget::InFlight;
pub use changes::{Change, Changes, Gap};
pub use digest::{Digest, Digests, Wanted};
pub use directory::{Directory, Options};
pub use error::Error;
pub use home::OpenError;
pub use key::{BadKey, Key, MAX_LEN, RESERVED};
pub use list::{Listing, Page};
pub use object::{Descriptor, Meta, Object, Version};
pub use publish::Condition;
pub use staging::Durability;
pub use threads::Threads;
pub use upload::{Inflow, Upload, read};
