//! The outcome of a request that was not refused: what the store did or has.
//!
//! The executor makes it. The audit log and the renderer of responses read it. It has no status and no header.

use serde::Serialize;

use crate::http::admin;
use crate::http::archives::ArchiveFormat;
use crate::http::body::Pieces;
use crate::http::forms::StoredFile;
use crate::http::listing::ListFormat;
use crate::http::response::options::OptionsRequest;
use crate::http::ui::Document;
use crate::http::uploads::state::UploadState;
use crate::http::values::representation::ValueResponse;
use crate::store::{Key, Published, RemovedFolder, Stays};

/// The outcome of a request.
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
    Deleted,
    /// A value was moved or copied.
    Relocated(Box<RelocatedValue>),
    FolderMade,
    /// A folder was moved, and has this name now.
    FolderMoved(Key<'static>),
    /// Of a folder this was copied, and perhaps something was not.
    FolderCopied(Box<CopiedFolder>),
    /// Of a folder this went, and perhaps something stays.
    FolderRemoved(Box<RemovedFolder>),
    NoValue,
    Listed {
        /// The page, written; `None` where the client has it.
        text: Option<Vec<u8>>,
        format: ListFormat,
        next: Option<String>,
        etag: String,
    },
    /// The values below a folder as one file.
    Archive {
        format: ArchiveFormat,
        folder: String,
        pieces: Pieces,
    },
    /// All members of an archive were stored, or left out as was asked; this text counts them.
    Unpacked(Vec<u8>),
    /// A link to a value was signed, for so many seconds.
    Shared {
        link: String,
        lasts: u64,
    },
    /// The page for browsers, unless it `is_known` to the client.
    Ui {
        document: Document,
        next: Option<String>,
        is_known: bool,
    },
    /// The target has another address.
    Redirect(String),
    /// The value is read from where it is stored, at this address.
    RedirectToStore(String),
    Options(OptionsRequest),
    /// The request was performed, and its response has no content.
    NoContent,
    /// There is an upload resource now.
    UploadCreated,
    /// The outcome of a request for a resumable upload, with the state of the upload.
    Upload(Box<Outcome>, UploadState),
    /// One of the server's own pages.
    Page(admin::PageText),
    /// The changes follow as events.
    Subscribed(Pieces),
    /// The changes follow over a WebSocket, accepted by this Sec-WebSocket-Accept.
    Upgraded(String),
}

/// A value that was moved or copied.
#[derive(Debug)]
pub struct RelocatedValue {
    /// The key that has it now.
    pub key: Key<'static>,
    pub is_copy: bool,
    pub published: Published,
    /// The key had no value before, and the client may know that.
    pub is_new: bool,
}

/// What came of the COPY of a folder.
#[derive(Debug, Default, Serialize)]
pub struct CopiedFolder {
    /// Values that were copied.
    pub copied: u64,
    /// Values that were not, and folders that the server may not read.
    #[serde(flatten)]
    pub stays: Stays,
}

/// A form whose files were stored.
#[derive(Debug)]
pub struct FormStored {
    pub files: Vec<StoredFile>,
    pub folder: String,
    /// The client is led to the folder's page.
    pub wants_page: bool,
}
