//! The typed request.
//!
//! The parser makes an operation, authorization narrows it, and the executor performs it. The key of a GET borrows from
//! the head, so that a value in the cache is found without an allocation.

use hyper::header::HeaderValue;

use crate::http::admin::{MetricsFormat, Page};
use crate::http::archives::{ArchiveRequest, UnpackRequest};
use crate::http::forms::FormRequest;
use crate::http::listing::{ListTarget, UiRequest};
use crate::http::service_config::ServiceConfig;
use crate::http::share::ShareRequest;
use crate::http::uploads::{UPLOAD_METHODS, UploadCreation, UploadRequest};
use crate::http::values::get::GetOptions;
use crate::http::values::moves::{FolderMove, MoveRequest};
use crate::http::values::put::PutOptions;
use crate::http::watch::request::WatchRequest;
use crate::store::{Key, Preconditions, UploadId};

/// The operation that a request asks for.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Answer the value; HEAD is the same, whose body hyper leaves out.
    Get {
        key: Key<'a>,
        options: Option<Box<GetOptions>>,
        /// A browser opens the address, of this depth below the root. If there is no value, it may be shown a folder.
        by_browser: Option<usize>,
    },
    /// Store the body, of `len` bytes if the head has the length.
    Put {
        key: Key<'static>,
        len: Option<u64>,
        options: Box<PutOptions>,
    },
    /// Store the body as the first part of a value that may come in several requests.
    CreateUpload {
        key: Key<'static>,
        options: Box<PutOptions>,
        creation: Box<UploadCreation>,
    },
    /// Store the files of the form in the body.
    Form(Box<FormRequest>),
    Delete {
        key: Key<'static>,
        preconditions: Option<Preconditions>,
    },
    /// Move or copy a value to another key.
    Move(Box<MoveRequest>),
    /// Give a folder, with all that is below it, another name.
    MoveFolder(Box<FolderMove>),
    /// Copy each value below a folder.
    CopyFolder(Box<FolderMove>),
    /// Make the folder of this name, to stay without a value.
    MakeFolder(Key<'static>),
    /// Remove the folder of this name with all that is below it, if it `is_deep`.
    RemoveFolder {
        folder: Key<'static>,
        is_deep: bool,
    },
    List(Box<ListTarget>),
    /// Answer what is asked of a site.
    Site(Box<SiteRequest>),
    /// Answer all values below a folder as one archive.
    Archive(Box<ArchiveRequest>),
    /// Store the members of the archive in the body.
    Unpack(Box<UnpackRequest>),
    /// Answer a signed link to a value.
    Share(Box<ShareRequest>),
    /// Answer the page for browsers.
    Ui(Box<UiRequest>),
    /// Have the client sign in, and lead it to this address.
    SignIn(String),
    /// Lead the client to the page for browsers, at this address.
    Redirect(String),
    /// Answer the methods of a target.
    Options(OptionsRequest),
    /// A request to an upload resource.
    Upload(UploadId, UploadRequest),
    /// Answer one of the server's own pages.
    Page(Page, MetricsFormat),
    /// Answer the feed of changes.
    Watch(WatchRequest),
}

/// An OPTIONS request.
#[derive(Debug)]
pub struct OptionsRequest {
    /// A browser asks on behalf of a page of another origin.
    pub is_preflight: bool,
    /// The fields of requests that the page wants to send.
    pub fields: Option<Box<HeaderValue>>,
    pub target: Target,
}

/// A kind of target, which has its methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Values,
    /// A value, or a folder, that is there.
    Existing,
    /// A value with the query of a link to share.
    Shared,
    /// An upload resource.
    Upload,
    /// The path that takes forms with files.
    Forms,
    /// The feed of changes.
    Watch,
    /// Another page of the server.
    Page,
}

impl Target {
    /// The methods of the target.
    pub fn methods(self, config: &ServiceConfig) -> &'static str {
        match (self, config.read_only) {
            (Self::Values | Self::Existing, true) | (Self::Page, _) => "GET, HEAD, OPTIONS",
            (Self::Shared, true) => "GET, HEAD, POST, OPTIONS",
            (Self::Values, false) => "GET, HEAD, PUT, DELETE, MOVE, COPY, MKCOL, OPTIONS",
            (Self::Existing, false) => "GET, HEAD, PUT, DELETE, MOVE, COPY, OPTIONS",
            (Self::Shared, false) => "GET, HEAD, PUT, POST, DELETE, MOVE, COPY, MKCOL, OPTIONS",
            (Self::Upload, _) => UPLOAD_METHODS,
            // No HEAD: the response has no end.
            (Self::Watch, _) => "GET, OPTIONS",
            (Self::Forms, true) => "OPTIONS",
            (Self::Forms, false) => "POST, OPTIONS",
        }
    }
}

/// A GET of a site.
#[derive(Debug)]
pub struct SiteRequest {
    /// The plain address of the key, relative to that of the request, if a `/` is encoded in this one.
    pub plain: Option<String>,
    pub key: Key<'static>,
    pub options: GetOptions,
    /// The codings of siblings that the client prefers to none, as places among all, the best first.
    pub codings: Vec<usize>,
    pub otherwise: Otherwise,
}

/// What is answered in place of a value of a site that is not there.
#[derive(Debug)]
pub enum Otherwise {
    /// The value is an index: the listing of its folder.
    Listing(Operation<'static>),
    /// The folder of this name, at this address, if it has an index; or as for a browser.
    Folder {
        index: Option<Key<'static>>,
        to: String,
        by_browser: Option<usize>,
    },
}

impl Operation<'_> {
    /// True where it changes the store, or gives up an upload.
    pub fn changes(&self) -> bool {
        match self {
            Self::Put { .. }
            | Self::CreateUpload { .. }
            | Self::Form(_)
            | Self::Unpack(_)
            | Self::Delete { .. }
            | Self::Move(_)
            | Self::MoveFolder(_)
            | Self::CopyFolder(_)
            | Self::MakeFolder(_) => true,
            Self::RemoveFolder { is_deep, .. } => *is_deep,
            Self::Upload(_, request) => !matches!(request, UploadRequest::Offset),
            _ => false,
        }
    }

    /// True where the body is of no use.
    pub fn takes_no_body(&self) -> bool {
        matches!(
            self,
            Self::Delete { .. }
                | Self::Move(_)
                | Self::MoveFolder(_)
                | Self::CopyFolder(_)
                | Self::MakeFolder(_)
                | Self::RemoveFolder { .. }
        )
    }

    /// The operation with an owned key.
    pub fn into_owned(self) -> Operation<'static> {
        match self {
            Self::Get {
                key,
                options,
                by_browser,
            } => Operation::Get {
                key: key.into_owned(),
                options,
                by_browser,
            },
            Self::Put { key, len, options } => Operation::Put { key, len, options },
            Self::CreateUpload {
                key,
                options,
                creation,
            } => Operation::CreateUpload {
                key,
                options,
                creation,
            },
            Self::Form(request) => Operation::Form(request),
            Self::Delete { key, preconditions } => Operation::Delete { key, preconditions },
            Self::Move(request) => Operation::Move(request),
            Self::MoveFolder(request) => Operation::MoveFolder(request),
            Self::CopyFolder(request) => Operation::CopyFolder(request),
            Self::MakeFolder(folder) => Operation::MakeFolder(folder),
            Self::RemoveFolder { folder, is_deep } => Operation::RemoveFolder { folder, is_deep },
            Self::List(target) => Operation::List(target),
            Self::Site(request) => Operation::Site(request),
            Self::Archive(request) => Operation::Archive(request),
            Self::Unpack(request) => Operation::Unpack(request),
            Self::Share(request) => Operation::Share(request),
            Self::Ui(request) => Operation::Ui(request),
            Self::SignIn(to) => Operation::SignIn(to),
            Self::Redirect(to) => Operation::Redirect(to),
            Self::Options(request) => Operation::Options(request),
            Self::Upload(id, request) => Operation::Upload(id, request),
            Self::Page(page, format) => Operation::Page(page, format),
            Self::Watch(request) => Operation::Watch(request),
        }
    }
}
