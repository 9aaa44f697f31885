//! The protocol: from a request to an answer. Opens no file, starts no thread, holds no socket.

mod accept;
mod access_log;
mod admin;
mod body;
mod caught;
mod chunks;
pub mod conditional;
mod digest_fields;
mod encode;
mod exchange;
mod framing;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod head;
mod home;
mod hosts;
mod identity;
mod link;
mod listing;
mod media;
mod meter;
mod multipart;
mod path;
mod put;
pub mod range;
mod receive;
mod representation;
mod request;
mod response;
mod rules;
mod select;
mod service;
mod subscription;
mod survey;

pub use access_log::Sampling;
pub use admin::Admin;
pub use body::{Body, Piece, is_region};
pub use framing::Framing;
pub use head::{Fault, MAX_HEAD, stand_in};
pub use hosts::{BadName, Hosts};
pub use link::{Link, Phase, Region};
pub use response::TIMED_OUT;
pub use rules::{Rules, Scope};
pub use service::{Answer, Service};
pub use subscription::{Session, Upgraded};
