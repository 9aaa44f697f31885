//! The head of a request: its framing, its target, and the fields that each request may have.

pub mod accept;
pub mod common_headers;
pub mod framing;
pub mod hosts;
pub mod identity;
pub mod origins;
pub mod path;
pub mod raw;
pub mod syntax;
