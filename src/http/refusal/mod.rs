//! The refusals of requests, in words for the client: found before the store is asked, or while the request is
//! performed.
//!
//! A refusal that several features have has its text here, and its status and its name in the [`table`]. What one
//! feature alone refuses is a [`Kind`] beside that feature. Knows no feature.

pub mod kind;
pub mod table;

use crate::access::{Existing, Right};
use crate::http::refusal::kind::Kind;
use crate::store::{self, BadKey, Key, Published};

/// The reason that a request is refused for.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A refusal whose kind stands beside its feature.
    #[error("{1}")]
    Of(&'static Kind, Box<str>),
    #[error("no such key; the path of a folder ends with '/'")]
    NoSuchKey,
    #[error("nothing has this path")]
    NoSuchPath,
    #[error("the root is not removed: delete what is in it")]
    Root,
    #[error("PUT needs a key, as in PUT /key")]
    NoKey,
    #[error("nothing was stored: PUT needs a Content-Length above 0")]
    NothingToStore,
    #[error("bad key: {0}")]
    BadKey(#[from] BadKey),
    #[error(
        "the key has more segments than this server makes folders for ({most}, --max-key-depth)"
    )]
    KeyTooDeep { most: usize },
    #[error(
        "this is the address of a folder, which has no value: name a key in it, or make the folder with MKCOL"
    )]
    Folder,
    #[error("there is no folder of this name")]
    NoSuchFolder,
    #[error("a folder is made without a body: MKCOL takes none")]
    FolderWithBody,
    #[error("a folder has no version, so a change of it takes no precondition")]
    FolderPrecondition,
    #[error(
        "this removes the folder and the {values} values below it: repeat it with Depth: infinity"
    )]
    NeedsDepth { values: u64 },
    /// The removal or the copy of a folder failed, after this was done.
    #[error("{0}; {1} before")]
    OfFolder(Box<Refusal>, FolderWork),
    #[error("bad key: '%' must be followed by two hexadecimal digits")]
    BadEscape,
    #[error("a request needs exactly one valid Host header")]
    BadHost,
    #[error("the request did not arrive in time")]
    Late,
    #[error("a body over HTTP/1.0 needs a Content-Length")]
    LengthRequired,
    #[error("only Expect: 100-continue is supported")]
    Expectation,
    #[error("the target of a request is a path, as in GET /key")]
    BadTarget,
    #[error("a part of a value cannot be stored: PUT takes no Content-Range")]
    PartialPut,
    #[error("an upload is a form: multipart/form-data, with a boundary of at most 70 bytes")]
    NoForm,
    #[error("no range lies within the value ({len} bytes)")]
    Unsatisfiable { len: u64 },
    /// The prefix, and the last segment of the key.
    #[error(
        "bad key: below {:?} the last segment is the SHA-256 of the value, 64 digits in lower case with or without sha256: \
         before them, and {:?} is none",
        .0.0, .0.1
    )]
    NoDigestInName(Box<(String, String)>),
    #[error("the value does not have the digest that was sent with it")]
    DigestMismatch,
    /// The digests in hexadecimal digits: that of the value, and that of a field or of the key.
    #[error("the value does not have the digest that was sent with it: its SHA-256 is {}, not {}", .0[0], .0[1])]
    Sha256Mismatch(Box<[String; 2]>),
    #[error("the precondition does not hold")]
    Precondition,
    #[error(
        "this server has none of the locks and states that the field If of WebDAV asks for: nothing was done; If-Match asks for a version"
    )]
    If,
    /// With the methods that the path takes.
    #[error("{}", of_method(.0))]
    Method(&'static str),
    #[error("this page knows {0}")]
    PageMethod(&'static str),
    #[error("authentication required: send a valid token, or name and password")]
    Unauthenticated { realm: Box<str> },
    #[error("you are signed out")]
    SignedOut,
    #[error("the client certificate of this connection has ended: connect again with a valid one")]
    CertificateEnded,
    #[error("not allowed: this needs the right to {} here", .0.name())]
    NotAllowed(Right),
    #[error("the key has a value: to replace it needs the right to write here")]
    Exists(Existing),
    #[error("too many wrong tokens or passwords from this address: wait {retry_after} s")]
    TooManyFailures { retry_after: u64 },
    #[error("too many passwords are being checked: try again in a moment")]
    ChecksBusy,
    #[error("this server is read-only")]
    ReadOnly,
    #[error("the value is larger than this server takes ({limit} bytes)")]
    TooLarge { limit: u64 },
    #[error("the request's body was cut off or malformed")]
    CutOff,
    #[error("there is no such upload: it was never made, was cancelled, or has expired")]
    NoSuchUpload,
    #[error("a part of an upload comes with Content-Type: application/partial-upload")]
    NotPartialUpload,
    #[error("a part of an upload comes with a valid {0}")]
    UploadField(&'static str),
    #[error("the upload goes on at offset {expected}, and this part begins at {provided}")]
    MismatchingOffset { expected: u64, provided: u64 },
    #[error("the lengths that were given for this upload differ")]
    InconsistentLength,
    #[error("the upload is complete: nothing can be appended")]
    UploadComplete,
    #[error("another request has taken the upload over")]
    UploadTaken,
    /// The refusal of a request for a resumable upload, with the state of the upload.
    #[error("{0}")]
    OfUpload(Box<Refusal>, UploadState),
    #[error("{}", .0.why)]
    OfForm(Box<HaltedForm>),
    #[error("{0}")]
    OfArchive(Box<HaltedArchive>),
    /// The store failed.
    #[error("{0}")]
    Store(store::Error),
    #[error("the server failed on this request; its log says more")]
    Panicked,
}

/// What was done to a folder before a failure.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum FolderWork {
    /// So many values were copied.
    #[error("{0} values were copied")]
    Copied(u64),
    /// So many values were removed, and so many folders.
    #[error("{0} values were removed")]
    Removed(u64, u64),
}

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

/// A file of a form that was stored.
#[derive(Debug)]
pub struct StoredFile {
    pub key: Key<'static>,
    /// `None` where it was received and dropped.
    pub published: Option<Published>,
}

/// A form that ended before all of its files were stored.
#[derive(Debug)]
pub struct HaltedForm {
    pub folder: String,
    /// The file that was not stored, if the form had come to one.
    pub file: Option<Key<'static>>,
    pub stored: Vec<StoredFile>,
    pub why: Refusal,
}

/// An archive that ended before all of its members were stored.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}{why}; values stored before: {stored} ({bytes} bytes)",
    .path.as_ref().map_or_else(String::new, |path| format!("{path}: "))
)]
pub struct HaltedArchive {
    /// The path of the member that was not stored, if the archive had come to one.
    pub path: Option<String>,
    pub why: Refusal,
    /// The values that were stored before, and their bytes.
    pub stored: u64,
    pub bytes: u64,
}

/// The way to store something, where there is one beside the `methods` of the path.
fn of_method(methods: &str) -> String {
    let hint = if methods.contains("MKCOL") {
        ": store a value with PUT, a form with files by POST to /-/upload"
    } else {
        ""
    };
    format!("this path takes {methods}{hint}")
}

impl Kind {
    /// The refusal for this reason, in words for the client.
    pub fn because(&'static self, why: impl std::fmt::Display) -> Refusal {
        Refusal::Of(self, why.to_string().into())
    }
}

impl Refusal {
    /// The reason itself, without the state of an upload, a form, an archive or a folder.
    pub fn reason(&self) -> &Self {
        match self {
            Self::OfUpload(why, _) | Self::OfFolder(why, ..) => why.reason(),
            Self::OfForm(halted) => halted.why.reason(),
            Self::OfArchive(halted) => halted.why.reason(),
            reason => reason,
        }
    }

    /// The refusal of a request whose body was given up: a body that was cut off becomes one that is late.
    pub fn of_late_body(self) -> Self {
        match self {
            Self::CutOff => Self::Late,
            Self::OfForm(mut halted) => {
                halted.why = halted.why.of_late_body();
                Self::OfForm(halted)
            }
            Self::OfArchive(mut halted) => {
                halted.why = halted.why.of_late_body();
                Self::OfArchive(halted)
            }
            other => other,
        }
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Incomplete => Self::CutOff,
            store::Error::Precondition => Self::Precondition,
            store::Error::NoFolder => Self::NoSuchFolder,
            error => Self::Store(error),
        }
    }
}

/// For tests: store errors cannot be compared.
#[cfg(test)]
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_archive_that_is_late_the_reason_is_told() {
        let halted = HaltedArchive {
            path: Some("d/a".to_owned()),
            why: Refusal::CutOff,
            stored: 2,
            bytes: 3,
        };
        let late = Refusal::OfArchive(Box::new(halted)).of_late_body();
        let told = format!("d/a: {}; values stored before: 2 (3 bytes)", Refusal::Late);
        assert_eq!(late.to_string(), told);
    }
}
