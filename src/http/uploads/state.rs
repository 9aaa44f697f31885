//! The address of the resource of a resumable upload, as responses report it.

use crate::http::head::syntax::up;
use crate::store::UploadId;

/// The beginning of the paths of upload resources.
pub const UPLOADS: &str = "/-/uploads/";

/// The address of an upload resource, relative to the request that created it, whose address has this `depth` below the
/// root.
pub fn address(id: UploadId, depth: usize) -> String {
    format!("{}{}{id}", up(depth), &UPLOADS[1..])
}
