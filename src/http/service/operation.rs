//! The typed request: what the parser hands to the executor.

use std::rc::Rc;

use hyper::header::{HeaderMap, HeaderValue};

use crate::http::admin::Page;
use crate::http::admin::exposition::MetricsFormat;
use crate::http::auth::credentials::Principal;
use crate::http::forms::request::FormRequest;
use crate::http::listing::query::ListTarget;
use crate::http::uploads::request::{Creation, UploadRequest};
use crate::http::values::conditional::Preconditions;
use crate::http::values::digest_fields::{Algorithm, Expected};
use crate::http::values::stored_fields::StoredFields;
use crate::http::watch::request::WatchRequest;
use crate::store::{Key, UploadId};

/// The operation that a request asks for.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Answer the value; HEAD is the same, whose body hyper leaves out.
    Get {
        key: Key<'a>,
        options: Option<Box<GetOptions>>,
        /// A browser opens the address: if there is no value, there may be a folder to show.
        by_browser: bool,
    },
    /// Store the body, of `len` bytes where the head tells.
    Put {
        key: Key<'a>,
        len: Option<u64>,
        options: Box<PutOptions>,
    },
    /// Store the files of the form in the body.
    Form(Box<FormRequest>),
    Delete {
        key: Key<'a>,
        preconditions: Option<Preconditions>,
    },
    List(Box<ListTarget>),
    /// Answer the page for browsers.
    Home(Box<HomeRequest>),
    /// Have the client say who it is, and lead it to this address.
    SignIn {
        to: String,
    },
    /// Say that the page for browsers is at this address.
    Moved {
        to: String,
    },
    /// Say what may be done; `preflight` when a browser asks on behalf of a page of another origin.
    Options {
        preflight: bool,
        of: Target,
    },
    /// A request to an upload resource.
    Upload(UploadId, UploadRequest),
    /// Answer one of the server's own pages.
    Page(Page, MetricsFormat),
    /// Tell of changes as they are made.
    Watch(WatchRequest),
}

/// The targets that OPTIONS tells the methods of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Values,
    /// An upload resource.
    Upload,
    /// Where forms with files are sent.
    Forms,
}

/// The options of a GET: all that it can want besides all of the value, now.
#[derive(Debug)]
pub struct GetOptions {
    pub preconditions: Option<Preconditions>,
    /// Range and If-Range, of a GET: the one method that has ranges (RFC 9110, section 14.2).
    pub ranges: HeaderMap,
    pub digest: Option<Algorithm>,
    pub takes_gzip: bool,
}

/// Which page a browser wants.
#[derive(Debug)]
pub struct HomeRequest {
    pub place: ListTarget,
    pub preconditions: Option<Preconditions>,
    /// The client takes it compressed.
    pub takes_gzip: bool,
}

/// On what options a body is to be stored.
#[derive(Debug, Default)]
pub struct PutOptions {
    pub preconditions: Option<Preconditions>,
    pub media_type: Option<Box<str>>,
    pub fields: StoredFields,
    pub expected: Expected,
    /// Digests may follow as trailers, by algorithms not known before.
    pub digests_follow: bool,
    /// The most bytes that its client may store, where that is less than others may.
    pub most: Option<u64>,
    /// It is stored only where there is no value, for its client may create and not replace.
    pub is_only_new: bool,
    /// The value may come in several requests, of which this is the first.
    pub creation: Option<Box<Creation>>,
}

/// To whom an answer goes.
#[derive(Clone, Debug, Default)]
pub struct ResponseContext {
    /// Errors as `application/problem+json`.
    pub problem: bool,
    /// Errors as a page, for a browser that asks for something so far below the root.
    pub page: Option<usize>,
    /// By a client of another store, which shows its user no line of text.
    pub of_store: bool,
    /// Who asks, where that matters.
    pub proof: Option<Rc<Principal>>,
    /// The page that asks, if it is of an origin that may.
    pub origin: Option<HeaderValue>,
    /// Answers depend on who asks.
    pub varies: bool,
    /// There is an X-Request-Id, to be answered with one.
    pub identified: bool,
    /// It wants no further answer on this connection.
    pub closes: bool,
    /// How far a form came, that ended too early.
    pub form: Option<Box<FormProgress>>,
}

/// How far a form came. Keys are as they stand in paths.
#[derive(Clone, Debug, Default)]
pub struct FormProgress {
    /// Where its files go.
    pub folder: String,
    /// The file that was not stored.
    pub file: Option<String>,
    pub stored: Vec<String>,
}

impl Operation<'_> {
    /// Whether it takes the body of the request.
    pub fn takes_body(&self) -> bool {
        match self {
            Self::Put { .. } => true,
            Self::Upload(_, request) => matches!(request, UploadRequest::Append(..)),
            _ => false,
        }
    }

    /// Whether it changes what the store has, or gives an upload up.
    pub fn changes(&self) -> bool {
        match self {
            Self::Put { .. } | Self::Form(_) | Self::Delete { .. } => true,
            Self::Upload(_, request) => !matches!(request, UploadRequest::Offset),
            _ => false,
        }
    }

    /// Whether the client is told something before its body has arrived.
    pub fn wants_104(&self) -> bool {
        let Self::Put { options, .. } = self else {
            return false;
        };
        let creation = options.creation.as_ref();
        creation.is_some_and(|creation| creation.wants_104)
    }

    /// The same operation, borrowing nothing.
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
            Self::Put { key, len, options } => Operation::Put {
                key: key.into_owned(),
                len,
                options,
            },
            Self::Form(request) => Operation::Form(request),
            Self::Delete { key, preconditions } => Operation::Delete {
                key: key.into_owned(),
                preconditions,
            },
            Self::List(place) => Operation::List(place),
            Self::Home(request) => Operation::Home(request),
            Self::SignIn { to } => Operation::SignIn { to },
            Self::Moved { to } => Operation::Moved { to },
            Self::Options { preflight, of } => Operation::Options { preflight, of },
            Self::Upload(id, request) => Operation::Upload(id, request),
            Self::Page(page, format) => Operation::Page(page, format),
            Self::Watch(request) => Operation::Watch(request),
        }
    }
}
