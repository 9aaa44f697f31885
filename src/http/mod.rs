//! The protocol: from a request to an answer. Opens no file, starts no thread, holds no socket.

mod accept;
mod body;
pub mod conditional;
mod digest_fields;
mod encode;
mod exchange;
mod link;
mod listing;
mod media;
mod multipart;
pub mod range;
mod receive;
mod representation;
mod request;
mod response;
mod select;
mod service;
mod survey;

pub use body::{Body, Piece, is_region};
pub use link::{Link, Phase, Region};
pub use response::TIMED_OUT;
pub use service::{Answer, Rules, Service};
