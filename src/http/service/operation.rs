//! The typed request.
//!
//! The parser makes an operation, authorization narrows it, and the executor performs it. The key of a GET borrows from
//! the head, so that a value in the cache is found without an allocation.

use hyper::header::HeaderValue;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::refusal::Refusal;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads::UPLOAD_METHODS;
use crate::http::values::get::GetOptions;
use crate::http::values::put::PutOptions;
use crate::http::verb::Verb;
use crate::http::watch::request::WatchRequest;
use crate::store::Key;

/// The operation that a request asks for.
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
    /// Answer the feed of changes, which takes the connection.
    Watch(WatchRequest),
    /// All else.
    Other(Box<dyn Verb>),
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

impl Operation<'_> {
    pub fn other(verb: impl Verb + 'static) -> Self {
        Self::Other(Box::new(verb))
    }

    /// True where it changes the store, or gives up an upload.
    pub fn changes(&self) -> bool {
        match self {
            Self::Put { .. } => true,
            Self::Other(verb) => verb.changes(),
            Self::Get { .. } | Self::Watch(_) => false,
        }
    }

    /// What it needs.
    pub fn needs(&self) -> Vec<Need<'_>> {
        match self {
            Self::Get { key, .. } => vec![Need::all(Right::Read, key.as_str())],
            Self::Put { key, options, .. } => options.needs(key.as_str()).collect(),
            Self::Watch(request) => vec![Need::any(Right::Watch, &request.prefix)],
            Self::Other(verb) => verb.needs(),
        }
    }

    /// The request that it is for each value which it does not name.
    pub fn of_each(&self) -> Option<&'static str> {
        match self {
            Self::Other(verb) => verb.of_each(),
            _ => None,
        }
    }

    /// Narrows it to what the `client` may do of it.
    pub fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        match self {
            Self::Put { key, options, len } => {
                options.permit(key.as_str(), client)?;
                options.limit(client, *len)
            }
            Self::Get { key, .. } => client.meet(&Need::all(Right::Read, key.as_str())),
            Self::Watch(request) => client.meet(&Need::any(Right::Watch, &request.prefix)),
            Self::Other(verb) => verb.permit(client),
        }
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
            Self::Watch(request) => Operation::Watch(request),
            Self::Other(verb) => Operation::Other(verb),
        }
    }
}
