//! Bodies: how those of requests come, and what those of responses are made of.

pub mod chunks;
pub mod content;
pub mod file;
pub mod request;
pub mod response;
