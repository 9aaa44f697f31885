//! What became of a request: the words between those who do it and those who answer.

use hyper::Response;

use super::body::Body;
use super::listing::Form;
use super::refusal::Refusal;
use super::subscription::Events;
use crate::store::{self, Listing, Version};

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A value was found, and this is the answer with it.
    Value(Response<Body>),
    Stored(Version),
    /// Received and dropped, as `--discard` asks.
    Discarded,
    Deleted,
    NoValue,
    Listed {
        listing: Listing,
        form: Form,
        next: Option<String>,
    },
    Home {
        is_known: bool,
    },
    Options {
        preflight: bool,
    },
    /// One of the server's own pages.
    Page(Response<Body>),
    /// Changes follow, as events or, by this Sec-WebSocket-Accept, over a WebSocket.
    Subscribed(Box<Events>),
    Upgraded(String),
    Refused(Refusal),
    Failed(store::Error),
    /// A fault of ours.
    Panicked,
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<store::Error> for Outcome {
    fn from(error: store::Error) -> Self {
        Self::Failed(error)
    }
}

impl Outcome {
    /// Whether the answer's first bytes can be sent without waiting for them.
    pub(super) fn is_at_hand(&mut self) -> bool {
        match self {
            Self::Value(response) => response.body_mut().is_at_hand(),
            _ => true,
        }
    }

    /// Waits for the answer's first bytes: a value that cannot be read is refused, not promised and cut off.
    pub(super) async fn at_hand(self) -> Self {
        let Self::Value(mut response) = self else {
            return self;
        };
        match response.body_mut().begin().await {
            Ok(()) => Self::Value(response),
            Err(error) => error.into(),
        }
    }
}
