//! The state of a resumable upload and the address of its resource, as responses report them.

use std::fmt;

use crate::http::head::syntax::up;
use crate::store::UploadId;

/// The beginning of the paths of upload resources.
pub const UPLOADS: &str = "/-/uploads/";

/// The state of a resumable upload.
#[derive(Clone, Copy, Debug, Default)]
pub struct UploadState {
    /// Its address, if the response has it.
    pub location: Option<UploadAddress>,
    /// The response is of the target of the upload, not of the upload resource.
    pub complete: bool,
    pub offset: Option<u64>,
    pub length: Option<u64>,
}

/// The address of an upload resource, relative to the request that created it.
#[derive(Clone, Copy, Debug)]
pub struct UploadAddress {
    pub id: UploadId,
    /// The depth of that request's address below the root.
    pub depth: usize,
}

impl fmt::Display for UploadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up, uploads) = (up(self.depth), &UPLOADS[1..]);
        write!(f, "{up}{uploads}{}", self.id)
    }
}
