//! The outcome of a request: what the store did, or why it did not.
//!
//! The executor makes it. The audit log and the renderer of responses read it. It has no status and no header.

use hyper::header::HeaderValue;

use crate::http::admin;
use crate::http::body::EndlessBody;
use crate::http::forms::StoredFile;
use crate::http::head::syntax::{FramingError, encoded};
use crate::http::listing::ListFormat;
use crate::http::refusal::rejection::Rejection;
use crate::http::service::operation::{FormProgress, Target};
use crate::http::ui::Document;
use crate::http::uploads::UploadState;
use crate::http::values::representation::{Published, ValueResponse};
use crate::store::{self, Key};

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
        fields: Option<Box<HeaderValue>>,
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

impl FormHalted {
    /// How far the form came, for the client.
    pub fn progress(&self) -> FormProgress {
        let path = |key: &Key<'_>| encoded(key.as_str()).to_string();
        FormProgress {
            folder: encoded(&self.folder).to_string(),
            file: self.file.as_ref().map(path),
            stored: self.stored.iter().map(|file| path(&file.key)).collect(),
        }
    }
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
