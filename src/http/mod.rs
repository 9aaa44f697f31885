//! The protocol: from a request to a response. Opens no file, starts no thread, holds no socket.
//!
//! - `request`: from bytes and headers to an operation, or a rejection.
//! - `semantics`: the rules of HTTP that are pure functions.
//! - `service`: one door for every request; what performs it.
//! - `response`: from an outcome to status, headers and body.
//! - `client`: who is at the other end; `guard`: who that is, and what they may do.
//! - `exchange`: the state of a connection, and the record of the request under way.
//! - `watch`, `ui` and `admin`: changes as they come, the page for browsers, the server's own pages.

mod admin;
mod client;
mod exchange;
#[cfg(any(test, fuzzing))]
#[path = "../../tests/checks/mod.rs"]
pub mod fuzz;
mod guard;
mod request;
mod response;
mod semantics;
mod service;
mod service_config;
mod ui;
mod watch;

pub use crate::store::{BodySource, Piped};
pub use admin::Admin;
pub use client::{Client, Peer};
pub use exchange::connection_state::{ConnectionState, Phase};
pub use exchange::panics::{Panicked, caught};
pub use exchange::proven::{ClientCertificate, Proven};
pub use request::body::Frames;
pub use request::forwarded::TrustedProxies;
pub use request::framing::Framing;
pub use request::head::{FramingError, MAX_HEAD};
pub use request::hosts::{BadName, Hosts};
pub use request::origins::{BadOrigin, Origins};
pub use request::path::key_of_path;
pub use request::stream::{Stream, StreamBody};
pub use response::body::{Body, Piece};
pub use response::file_body::Region;
pub use response::go_on;
pub use response::head_encoder::closes;
pub use response::hole::is_hole;
pub use response::interim::CONTINUE;
pub use semantics::cache_control::{BadCacheControl, DEFAULT as CACHE_CONTROL, cache_control};
pub use semantics::media::is_guessed_text;
pub use semantics::{conditional, range};
pub use service::builder::ServiceBuilder;
pub use service::execute::{Task, Work};
pub use service::proving::{Arrived, Proving};
pub use service::{Answer, Service};
pub use service_config::{AllowLists, Routes, ServiceConfig, UploadLimits};
pub use watch::{Session, Upgraded};
