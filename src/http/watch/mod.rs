//! Watching: changes told to subscribers as they are acknowledged, by Server-Sent Events or over a WebSocket.

pub mod events;
pub mod feed;
pub mod request;
pub mod subscribe;
#[cfg(test)]
pub mod testing;
pub mod websocket;

pub use feed::Subscribers;
pub use websocket::Session;
