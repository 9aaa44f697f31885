//! The address and the state of a resumable upload, as responses report them.

use crate::http::head::syntax::up;
use crate::store::UploadId;

/// The state of a resumable upload.
#[derive(Clone, Debug, Default)]
pub struct UploadState {
    /// Its address, if the response has it.
    pub location: Option<String>,
    /// The response is of the target of the upload, not of the upload resource.
    pub complete: bool,
    pub offset: Option<u64>,
    pub length: Option<u64>,
}

/// The beginning of the paths of upload resources.
pub const UPLOADS: &str = "/-/uploads/";

/// The address of an upload resource, relative to the request that created it, whose address has this `depth` below the
/// root.
pub fn address(id: UploadId, depth: usize) -> String {
    format!("{}{}{id}", up(depth), &UPLOADS[1..])
}
