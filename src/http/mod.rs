//! The protocol: from a request to an answer. Opens no file, starts no thread, holds no socket.

mod accept;
mod body;
mod chunks;
pub mod conditional;
mod digest_fields;
mod encode;
mod exchange;
mod framing;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod head;
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
pub use framing::Framing;
pub use head::{Fault, MAX_HEAD, stand_in};
pub use link::{Link, Phase, Region};
pub use response::TIMED_OUT;
pub use service::{Answer, Rules, Service};
