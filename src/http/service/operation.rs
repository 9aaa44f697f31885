//! The typed request.
//!
//! The parser makes an operation, authorization narrows it, and the executor performs it. The key of a GET borrows from
//! the head, so that a value in the cache is found without an allocation.

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::refusal::Refusal;
use crate::http::service_config::ServiceConfig;
use crate::http::values::get::GetOptions;
use crate::http::values::put::PutRequest;
use crate::http::verb::Verb;
use crate::http::watch::request::WatchRequest;
use crate::store::Key;

/// The methods of what is only read.
const READING: &str = "GET, HEAD, OPTIONS";

/// The operation that a request asks for.
pub enum Operation<'a> {
    /// Answer the value; HEAD is the same, whose body hyper leaves out.
    Get {
        key: Key<'a>,
        options: Option<Box<GetOptions>>,
        /// A browser opens the address, of this depth below the root. If there is no value, it may be shown a folder.
        by_browser: Option<usize>,
    },
    /// Store the body.
    Put(Box<PutRequest>),
    /// Answer the feed of changes, which takes the connection.
    Watch(WatchRequest),
    /// All else.
    Other(Box<dyn Verb>),
}

/// The methods of a path of values; with POST where it `shares`.
pub fn methods(config: &ServiceConfig, shares: bool) -> &'static str {
    match (shares, config.read_only) {
        (false, true) => READING,
        (true, true) => "GET, HEAD, POST, OPTIONS",
        (false, false) => "GET, HEAD, PUT, DELETE, MOVE, COPY, MKCOL, OPTIONS",
        (true, false) => "GET, HEAD, PUT, POST, DELETE, MOVE, COPY, MKCOL, OPTIONS",
    }
}

/// The methods of a value, or a folder, that is there.
pub fn methods_of_existing(config: &ServiceConfig) -> &'static str {
    if config.read_only {
        return READING;
    }
    "GET, HEAD, PUT, DELETE, MOVE, COPY, OPTIONS"
}

impl Operation<'_> {
    /// What it needs.
    pub fn needs(&self) -> Vec<Need<'_>> {
        match self {
            Self::Get { key, .. } => vec![Need::all(Right::Read, key.as_str())],
            Self::Put(put) => put.needs().collect(),
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
            Self::Put(put) => {
                put.permit(client)?;
                put.limit(client)
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
            Self::Put(put) => Operation::Put(put),
            Self::Watch(request) => Operation::Watch(request),
            Self::Other(verb) => Operation::Other(verb),
        }
    }
}
