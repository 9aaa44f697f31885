//! What became of a request: the words between those who do it and those who answer.

use crate::http::admin;
use crate::http::request::rejection::Rejection;
use crate::http::response::body::EndlessBody;
use crate::http::response::encoded::Encoded;
use crate::http::response::representation::ShownValue;
use crate::http::semantics::coding::Coding;
use crate::http::semantics::listing::ListFormat;
use crate::http::semantics::select::Selection;
use crate::store::{self, Version};

/// What became of a request.
#[derive(Debug)]
pub(in crate::http) enum Outcome {
    /// A value was found.
    Value(ValueResponse),
    Stored(Version),
    /// Received and dropped, as `--discard` asks.
    Discarded,
    Deleted,
    NoValue,
    Listed {
        /// The page, written.
        text: Vec<u8>,
        format: ListFormat,
        next: Option<String>,
    },
    Home {
        is_known: bool,
    },
    Options {
        preflight: bool,
    },
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

/// A value as it is to be sent: what of it, and how.
#[derive(Debug)]
pub(in crate::http) struct ValueResponse {
    pub(in crate::http) value: ShownValue,
    pub(in crate::http) selection: Selection,
    /// Of all of the value, as a field.
    pub(in crate::http) digest: Option<String>,
    pub(in crate::http) encoded: Option<(Coding, Box<Encoded>)>,
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
