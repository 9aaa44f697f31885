//! What became of a request: what the executor hands to the renderer of responses.

use crate::http::admin;
use crate::http::request::head::FramingError;
use crate::http::request::page::Target;
use crate::http::request::rejection::Rejection;
use crate::http::request::uploads::UploadAddress;
use crate::http::response::body::EndlessBody;
use crate::http::response::encoded::Encoded;
use crate::http::response::remote_part::RemotePart;
use crate::http::response::representation::{Representation, ShownValue, etag};
use crate::http::semantics::coding::Coding;
use crate::http::semantics::listing::ListFormat;
use crate::http::semantics::select::Selection;
use crate::http::ui::Document;
use crate::store::{self, Key, Version};

/// What became of a request.
#[derive(Debug)]
pub(in crate::http) enum Outcome {
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
    Moved {
        to: String,
    },
    /// The value is read from where it is stored, at this address.
    Elsewhere {
        to: String,
    },
    Options {
        preflight: bool,
        of: Target,
    },
    /// Done, and there is nothing to say.
    Nothing,
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
pub(in crate::http) struct UploadState {
    /// Where it is, if the client is told.
    pub(in crate::http) location: Option<UploadAddress>,
    /// The response comes from what the value was uploaded to, not from the upload.
    pub(in crate::http) complete: bool,
    pub(in crate::http) offset: Option<u64>,
    pub(in crate::http) length: Option<u64>,
}

/// A value that was stored.
#[derive(Debug)]
pub(in crate::http) enum Published {
    /// In a directory, as this version.
    Version(Version),
    /// In an S3 store, under this entity tag, quotes included.
    Tag(String),
}

impl Published {
    /// Its entity tag, quotes included.
    pub(in crate::http) fn etag(&self) -> String {
        match self {
            Self::Version(version) => etag(*version),
            Self::Tag(etag) => etag.clone(),
        }
    }
}

/// A value as it is to be sent: what of it, and how.
#[derive(Debug)]
pub(in crate::http) struct ValueResponse {
    pub(in crate::http) value: ShownValue,
    pub(in crate::http) selection: Selection,
    /// Of all of the value, as a field.
    pub(in crate::http) digest: Option<String>,
    pub(in crate::http) encoded: Option<(Coding, Box<Encoded>)>,
}

/// The same of a value of an S3 store.
#[derive(Debug)]
pub(in crate::http) struct RemoteResponse {
    pub(in crate::http) representation: Representation,
    pub(in crate::http) len: u64,
    pub(in crate::http) selection: Selection,
    /// Of all of the value, as a field.
    pub(in crate::http) digest: Option<String>,
    /// What is sent of it: one for each range, or all of it.
    pub(in crate::http) parts: Vec<RemotePart>,
}

impl ValueResponse {
    /// All of `value`, as it is.
    pub(in crate::http) fn whole(value: ShownValue, digest: Option<String>) -> Self {
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
pub(in crate::http) struct StoredFile {
    pub(in crate::http) key: Key<'static>,
    /// None where it was received and dropped.
    pub(in crate::http) published: Option<Published>,
}

/// A form whose files were stored.
#[derive(Debug)]
pub(in crate::http) struct FormStored {
    pub(in crate::http) files: Vec<StoredFile>,
    pub(in crate::http) folder: String,
    /// The client goes on to the folder's page.
    pub(in crate::http) wants_page: bool,
}

/// A form whose files were stored up to one.
#[derive(Debug)]
pub(in crate::http) struct FormHalted {
    pub(in crate::http) folder: String,
    /// The file that was not stored, if the form had come to one.
    pub(in crate::http) file: Option<Key<'static>>,
    pub(in crate::http) stored: Vec<StoredFile>,
    pub(in crate::http) why: Outcome,
}

impl Outcome {
    /// The outcome of a request whose body did not arrive in time: a body that was cut off becomes one that is late.
    pub(in crate::http) fn of_late_body(self) -> Self {
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
