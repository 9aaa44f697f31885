//! MOVE and COPY of a value (RFC 4918, sections 9.8 and 9.9): what the fields ask for, and the doing. And what they ask
//! for of a folder.

pub mod perform;
pub mod request;

use hyper::StatusCode;

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use crate::http::values::put::PutRequest;
use crate::store::{Key, Preconditions};

const DESTINATION: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-destination");
pub const FIELD: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-field");
/// RFC 4918, sections 9.8.5 and 9.9.5.
const ELSEWHERE: &Kind = &Kind::new(StatusCode::BAD_GATEWAY, "other-destination");
pub const EXISTS: &Kind = &Kind::new(StatusCode::PRECONDITION_FAILED, "precondition-failed");
pub const SAME: &Kind = &Kind::new(StatusCode::FORBIDDEN, "same-key");
const MIXED: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "folder-and-key");
pub const WITHIN: &Kind = &Kind::new(StatusCode::FORBIDDEN, "folder-within");
pub const OTHER_RULES: &Kind = &Kind::new(StatusCode::CONFLICT, "other-rules");
pub const TAKEN: &Kind = &Kind::new(StatusCode::CONFLICT, "folder-taken");
pub const KEPT: &Kind = &Kind::new(StatusCode::PRECONDITION_FAILED, "folder-taken");

/// A MOVE or COPY.
#[derive(Debug)]
pub struct MoveRequest {
    pub from: Key<'static>,
    /// The PUT that it is to the destination.
    pub to: PutRequest,
    pub is_copy: bool,
    /// The preconditions of the source.
    pub preconditions: Option<Preconditions>,
    /// The client may learn whether the destination had a value.
    pub may_tell: bool,
    /// A copy has what is kept of `to` in place of what is kept with the source.
    pub replaces: bool,
}

/// What is to be moved or copied.
#[derive(Debug)]
pub enum Relocating {
    Value(Box<MoveRequest>),
    Folder(FolderMove),
}

/// A MOVE or COPY of a folder.
#[derive(Clone, Debug)]
pub struct FolderMove {
    /// The names of the folders.
    pub from: Key<'static>,
    pub to: Key<'static>,
    /// Values that are in the way of a copy are replaced.
    pub overwrites: bool,
}

/// The refusal of a MOVE or COPY without a Destination that is understood.
pub fn no_destination() -> Refusal {
    DESTINATION.because(
        "MOVE and COPY need one Destination: a path as /key, or the URL of a key of this server, percent-encoded, without query and fragment",
    )
}

/// The refusal of a Destination that another server has.
pub fn elsewhere() -> Refusal {
    ELSEWHERE.because(
        "Destination is no http or https URL of this server, and a value is moved and copied within it",
    )
}

/// The refusal of a folder for a key, and of a key for a folder.
pub fn mixed() -> Refusal {
    MIXED.because(
        "a folder is moved and copied to a folder, and a value to a key: of both names the last character is '/', or of none; the root has no name",
    )
}
