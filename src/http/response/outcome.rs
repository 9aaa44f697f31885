//! What became of a request: what the executor hands to the renderer of responses.

use crate::http::admin;
use crate::http::body::content::{EndlessBody, RemotePart};
use crate::http::head::raw::FramingError;
use crate::http::listing::query::ListFormat;
use crate::http::refusal::rejection::Rejection;
use crate::http::service::operation::Target;
use crate::http::ui::Document;
use crate::http::uploads::request::UploadAddress;
use crate::http::values::conditional::Selection;
use crate::http::values::encoded::Encoded;
use crate::http::values::representation::{Representation, ShownValue, etag};
use crate::store::{self, Key, Version};

/// What became of a request.
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
    /// What was asked for has another address.
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
    /// Done, and there is nothing to say.
    NoContent,
    /// There is an upload resource now.
    UploadCreated,
    /// This became of a request for an upload that can be resumed, and there the upload stands.
    Upload(Box<Outcome>, UploadState),
    /// One of the server's own pages.
    Page(admin::PageText),
    /// Changes follow, as events or, by this Sec-WebSocket-Accept, over a WebSocket.
    Subscribed(Box<dyn EndlessBody>),
    Upgraded(String),
    Refused(Rejection),
    Failed(store::Error),
    /// An error of the server.
    Panicked,
}

/// Where a resumable upload stands.
#[derive(Clone, Copy, Debug)]
pub struct UploadState {
    /// Where it is, if the client is told.
    pub location: Option<UploadAddress>,
    /// The response comes from what the value was uploaded to, not from the upload.
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

/// A value as it is to be sent: what of it, and how.
#[derive(Debug)]
pub struct ValueResponse {
    pub value: ShownValue,
    pub selection: Selection,
    /// Of all of the value, as a field.
    pub digest: Option<String>,
    pub encoded: Option<Box<Encoded>>,
}

/// The same of a value of an S3 store.
#[derive(Debug)]
pub struct RemoteResponse {
    pub representation: Representation,
    pub len: u64,
    pub selection: Selection,
    /// Of all of the value, as a field.
    pub digest: Option<String>,
    /// The parts that are sent: one for each range, or all of it.
    pub parts: Vec<RemotePart>,
}

impl ValueResponse {
    /// All of `value`, as it is.
    pub fn whole(value: ShownValue, digest: Option<String>) -> Self {
        Self {
            value,
            selection: Selection::Whole,
            digest,
            encoded: None,
        }
    }
}

/// A value that came in a form.
#[derive(Debug)]
pub struct StoredFile {
    pub key: Key<'static>,
    /// None where it was received and dropped.
    pub published: Option<Published>,
}

/// A form whose files were stored.
#[derive(Debug)]
pub struct FormStored {
    pub files: Vec<StoredFile>,
    pub folder: String,
    /// The client goes on to the folder's page.
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
    /// The outcome of a request whose body did not arrive in time: a body that was cut off becomes one that is late.
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
