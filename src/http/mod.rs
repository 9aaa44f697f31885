//! The protocol: from a request to an answer. Opens no file, starts no thread, holds no socket.

mod body;
mod exchange;
mod link;
mod listing;
mod receive;
mod request;
mod response;
mod service;

pub use body::{Body, Piece, is_region};
pub use link::{Link, Phase, Region};
pub use response::TIMED_OUT;
pub use service::{Answer, Rules, Service};
