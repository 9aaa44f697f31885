//! The words that all engines share: keys, versions, digests, pages of a listing, and errors. Pure: it opens no file.

mod checksum;
mod digest;
mod error;
mod key;
mod meta;
mod page;
mod prefixes;

pub use checksum::{Checksum, ChecksumKind};
pub use digest::{Digest, Digests, Hasher, Wanted};
pub use error::Error;
pub use key::{BadKey, Key, MAX_LEN, MAX_SEGMENT, RESERVED, folder_and_above, may_have_keys};
pub use meta::{Meta, Version, is_directory, is_regular};
pub use page::{Failure, Listing, Page, Part};
pub use prefixes::Prefixes;
