//! The words that all engines share: keys, versions, digests, pages of a listing, and errors. Pure: it opens no file.

mod digest;
mod error;
mod key;
mod meta;
mod page;

pub use digest::{Checksum, ChecksumKind, Digest, Digests, Hasher, Wanted};
pub use error::Error;
pub use key::{
    BadKey, Key, MAX_LEN, MAX_SEGMENT, Prefixes, RESERVED, folder_and_above, may_have_keys,
};
pub use meta::{Meta, Version, is_directory, is_regular};
pub use page::{Failure, Listing, Page};
