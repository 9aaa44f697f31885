//! The names of fields that the pass over each head looks for, and that a feature reads. Pure, and imports nothing of
//! its siblings.

use hyper::header::HeaderName;

/// Begins and ends a resumable upload.
pub const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
/// Asks for a Repr-Digest.
pub const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");
/// The header of the id, in requests and responses.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The prefixes of fields that only clients of a store send, and proxies of its cloud.
pub const STORES: [&str; 3] = ["x-amz-", "x-ms-", "x-goog-"];

/// The fields Authorization of a request, or those by which a proxy names a user.
#[derive(Clone, Copy, Debug, Default)]
pub enum AuthorizationFields<'a> {
    /// There is none.
    #[default]
    Nothing,
    /// There is one field.
    Field(&'a [u8]),
    /// There are several fields, which count as none.
    Several,
}

impl<'a> AuthorizationFields<'a> {
    /// Adds one more field.
    pub fn and(self, field: &'a [u8]) -> Self {
        match self {
            Self::Nothing => Self::Field(field),
            Self::Field(_) | Self::Several => Self::Several,
        }
    }
}

/// Fields that clients of S3, Azure or Google's store alone send.
pub fn is_of_store(name: &HeaderName) -> bool {
    STORES.iter().any(|store| name.as_str().starts_with(store))
}
