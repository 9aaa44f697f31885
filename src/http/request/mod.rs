//! From bytes and headers to an operation, or a rejection.
//!
//! Headers of requests are read here alone, and the raw head of a request by the framing guard alone.

pub(super) mod authorize;
pub(super) mod body;
mod chunks;
mod common_headers;
pub(super) mod credentials;
mod escape;
pub(super) mod form;
pub(super) mod forwarded;
pub(super) mod framing;
mod get_options;
pub(super) mod head;
pub(super) mod hosts;
pub(super) mod identity;
mod list_request;
pub(super) mod operation;
pub(super) mod origins;
mod other_store;
pub(super) mod page;
pub(super) mod path;
mod permit;
mod put_options;
pub(super) mod rejection;
pub(super) mod rejection_log;
pub(super) mod signed_link;
pub(super) mod stream;
pub(super) mod understand;
mod unlisted;
pub(super) mod uploads;
pub(super) mod watch_request;
