//! Watching: changes told to subscribers as they are acknowledged, by Server-Sent Events or over a WebSocket.

mod events;
mod feed;
mod permission;
#[cfg(test)]
mod testing;
mod websocket;

use std::cell::Cell;

pub(super) use crate::http::watch::events::Events;
pub(super) use crate::http::watch::feed::{Asked, Subscribers, Subscription};
pub(super) use crate::http::watch::permission::Permission;
pub use crate::http::watch::websocket::Session;

/// Where a session is left that is to take a connection over.
pub type Upgraded = Cell<Option<Box<Session>>>;
