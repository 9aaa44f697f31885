//! The feed of changes, over server-sent events and WebSocket.

mod events;
mod subscribers;
mod websocket;
