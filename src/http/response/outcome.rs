//! The outcome of a request: what the store did, or why it did not.
//!
//! The executor makes it. The audit log and the renderer of responses read it. It has no status and no header.

use crate::http::admin;
use crate::http::body::content::{EndlessBody, RemotePart};
use crate::http::head::syntax::FramingError;
use crate::http::listing::query::ListFormat;
use crate::http::refusal::rejection::Rejection;
use crate::http::service::operation::Target;
use crate::http::ui::Document;
use crate::http::uploads::request::UploadAddress;
use crate::http::values::conditional::Selection;
use crate::http::values::encoded::Encoded;
use crate::http::values::representation::{Representation, ShownValue, etag};
use crate::store::{self, Key, Version};

/// The outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    /// A value was found.
    Value(ValueResponse),
    Stored(Published),
    /// A resumable upload has become the value of this key.
    Completed(Key<'static>, Published),
    /// A resumable upload for this key was given up.
    Cancelled(Key<'static>),
    /// A value of an S3 store was found.
    Remote(Box<RemoteResponse>),
    /// Received and dropped, as `--discard` asks.
    Discarded,
    /// All files of a form were stored.
    FormStored(FormStored),
    /// A form ended before all of its files were stored.
    FormHalted(Box<FormHalted>),
    Deleted,
    NoValue,
    Listed {
        /// The page, written.
        text: Vec<u8>,
        format: ListFormat,
        next: Option<String>,
    },
    /// The page for browsers, unless it `is_known` to the client.
    Home {
        document: Document,
        next: Option<String>,
        is_known: bool,
    },
    /// The target has another address.
    Redirect {
        to: String,
    },
    /// The value is read from where it is stored, at this address.
    RedirectToStore {
        to: String,
    },
    Options {
        preflight: bool,
        of: Target,
    },
    /// The request was performed, and its response has no content.
    NoContent,
    /// There is an upload resource now.
    UploadCreated,
    /// The outcome of a request for a resumable upload, with the state of the upload.
    Upload(Box<Outcome>, UploadState),
    /// One of the server's own pages.
    Page(admin::PageText),
    /// The changes follow as events.
    Subscribed(Box<dyn EndlessBody>),
    /// The changes follow over a WebSocket, accepted by this Sec-WebSocket-Accept.
    Upgraded(String),
    Refused(Rejection),
    Failed(store::Error),
    Panicked,
}

/// The state of a resumable upload.
#[derive(Clone, Copy, Debug)]
pub struct UploadState {
    /// Its address, if the client is told.
    pub location: Option<UploadAddress>,
    /// The response comes from the target of the upload, not from the upload resource.
    pub complete: bool,
    pub offset: Option<u64>,
    pub length: Option<u64>,
}

/// A value that was stored.
#[derive(Debug)]
pub enum Published {
    /// In a directory, as this version.
    Version(Version),
    /// In an S3 store, under this entity tag, quotes included.
    Tag(String),
}

impl Published {
    /// Its entity tag, quotes included.
    pub fn etag(&self) -> String {
        match self {
            Self::Version(version) => etag(*version),
            Self::Tag(etag) => etag.clone(),
        }
    }
}

/// A value of a directory, and the parts of it that are sent.
#[derive(Debug)]
pub struct ValueResponse {
    pub value: ShownValue,
    pub selection: Selection,
    /// The digest of all of the value, as a field.
    pub digest: Option<String>,
    pub encoded: Option<Box<Encoded>>,
}

/// A value of an S3 store, and the parts of it that are sent.
#[derive(Debug)]
pub struct RemoteResponse {
    pub representation: Representation,
    pub len: u64,
    pub selection: Selection,
    /// The digest of all of the value, as a field.
    pub digest: Option<String>,
    /// A part for each range, or one for all of the value.
    pub parts: Vec<RemotePart>,
}

impl ValueResponse {
    /// The response with all of `value`.
    pub fn whole(value: ShownValue, digest: Option<String>) -> Self {
        Self {
            value,
            selection: Selection::Whole,
            digest,
            encoded: None,
        }
    }
}

/// A file of a form, stored.
#[derive(Debug)]
pub struct StoredFile {
    pub key: Key<'static>,
    /// `None` where it was received and dropped.
    pub published: Option<Published>,
}

/// A form whose files were stored.
#[derive(Debug)]
pub struct FormStored {
    pub files: Vec<StoredFile>,
    pub folder: String,
    /// The client is led to the folder's page.
    pub wants_page: bool,
}

/// A form whose files were stored up to one.
#[derive(Debug)]
pub struct FormHalted {
    pub folder: String,
    /// The file that was not stored, if the form had come to one.
    pub file: Option<Key<'static>>,
    pub stored: Vec<StoredFile>,
    pub why: Outcome,
}

impl Outcome {
    /// The outcome of a request whose body was given up: a body that was cut off becomes one that is late.
    pub fn of_late_body(self) -> Self {
        match self {
            Self::Refused(Rejection::CutOff) | Self::Failed(store::Error::Incomplete) => {
                Rejection::FramingError(FramingError::Late).into()
            }
            Self::FormHalted(mut halted) => {
                halted.why = halted.why.of_late_body();
                Self::FormHalted(halted)
            }
            other => other,
        }
    }
}

impl From<Rejection> for Outcome {
    fn from(rejection: Rejection) -> Self {
        Self::Refused(rejection)
    }
}

impl From<store::Error> for Outcome {
    fn from(error: store::Error) -> Self {
        Self::Failed(error)
    }
}
