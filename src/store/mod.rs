//! Keys and values. Knows no HTTP.
//!
//! [`Store`] is the one type that the rooms above see. Its contract, which every engine behind it keeps, but where a
//! store behind an [`S3`](crate::s3) engine promises less (docs/s3.md):
//!
//! - **Atomic.** A value is whole or absent, at every moment, to every reader, after every crash. An [`Upload`] that is
//!   dropped, cut off or refused leaves the old value and nothing else.
//! - **Acknowledged.** When [`Directory::put`] or [`Directory::delete`] returns, the change survives the death of the
//!   process, or under [`Durability::Disk`] the loss of power.
//! - **Visible.** A read finds what was published before it began, and what other programs have placed, edited or
//!   removed in the directory. A read that has begun goes on with the value it began with.
//! - **Versions.** No two writes of a key ever have the same [`Version`].
//! - **Complete.** [`Changes`] has every acknowledged change, in the order of publishing, or reports a [`Gap`].
//!
//! **Cancel safety.** Any future of this room may be dropped. An upload then leaves nothing. A change that the
//! publisher has been handed is made all the same, so a caller that gives up waiting does not learn its outcome.

mod attributes;
mod batch_reply;
pub mod bounds;
mod cache;
mod changes;
mod clock;
mod commit;
mod copy_plan;
mod directory;
mod directory_fd;
mod empty_folders;
mod end;
mod engine;
mod folders;
mod fs_type;
mod implicit;
mod inherit;
mod journal;
mod journal_state;
mod layout;
mod list;
mod location;
mod may_have;
mod moves;
mod multipart;
mod new_value;
mod object;
mod publish;
mod publish_method;
mod resumable;
mod small_file;
mod space;
mod symlinks;
mod temp_file;
mod unserved;
mod upload;
mod upload_claim;
mod upload_room;
mod value_file;
mod write_context;

pub use crate::transfer::{
    BlockingPool, BodySource, IN_MEMORY, NoPlace, StagingBounds, StagingQuota, UPLOADS_OF_ONE,
    UploadHead, Uploader, is_large, read,
};
pub use crate::value::{
    Attributes, BadKey, CONTENDED, Checksum, ChecksumKind, Current, DATE, DELETE_AFTER, DELETE_AT,
    Digest, Digests, Error, GZIP, Hasher, Key, ListedValue, Listing, MAX_LEN, MAX_LIST,
    MAX_SEGMENT, Meta, NamePattern, Page, Preconditions, Prefixes, RESERVED, TRIES, Tags,
    UNKNOWN_TYPE, Validators, Verdict, Version, Wanted, WriteCondition, check_prefix, coded_tag,
    date_text, end_after, etag, guessed_type, hide, kept_lines, kept_value, now, parse_date,
    parse_end, second,
};
pub use attributes::MAX_FIELDS;
pub use changes::{Change, Changes, Gap, Removal};
pub use copy_plan::CopyPlan;
pub use directory::bounds_report::{
    BoundReport, MOST_NAMED, report as report_bounds, report_now as report_bounds_now,
};
pub use directory::open::{Inspected, JournalOptions, Options, inspect, take_default};
pub use directory::{Directory, Purpose};
pub use empty_folders::Stays;
pub use engine::{Found, Probe, Published, Publishing, Store, Upload, check};
pub use folders::{RemovedFolder, ValuesBelow};
pub use journal::{Report as JournalReport, check as check_journal};
pub use layout::{OpenError, make, server_of};
pub use list::{Order, Unlisted};
pub use moves::{Relocated, Relocation};
pub use multipart::{MOST_PARTS, Multipart, OpenPart, ReceivedPart};
pub use object::{Descriptor, IsText, Object};
pub use resumable::{Field, Resumable};
pub use space::Free;
pub use symlinks::Target;
pub use upload::FileUpload;
pub use upload_claim::UploadId;
pub use write_context::Durability;
