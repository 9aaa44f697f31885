//! Watching: changes told to subscribers as they are acknowledged, by Server-Sent Events or over a WebSocket.

pub mod events;
pub mod feed;
pub mod permission;
pub mod request;
pub mod subscribe;
#[cfg(test)]
pub mod testing;
pub mod websocket;

pub use crate::http::watch::events::Events;
pub use crate::http::watch::feed::{Asked, Subscribers, Subscription};
pub use crate::http::watch::permission::Permission;
pub use crate::http::watch::websocket::Session;
