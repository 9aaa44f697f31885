//! The protocol: from a request to a response. Opens no file, starts no thread, holds no socket.
//!
//! A folder for each feature has its fields, request, work and response: `values`, `uploads`, `forms`, `listing`,
//! `archives`, `share`, `watch`, `bazel`, `restic`, and `admin`, the server's own pages. `ui` is the page for browsers.
//!
//! - `service`: the path of every request; `request`: what features need of it; `head` and `body`: its parts; `piece`:
//!   what bodies are sent in; `auth`: authentication and authorization.
//! - `response`: what a feature answers with; `refusal`: why it does not; `audit`: the events of the audit log.
//! - `verb`: what a feature is asked for; `fields` and `sites`: what the configuration says of values, which knows no
//!   feature.
//! - `exchange`: the state of a connection, and the record of the request under way.

mod admin;
mod archives;
mod audit;
mod auth;
mod bazel;
mod body;
mod changes;
mod dav;
#[cfg(test)]
#[path = "../../tests/door/mod.rs"]
mod door;
mod exchange;
mod fields;
mod folders;
mod forms;
#[cfg(any(test, fuzzing))]
#[path = "../../tests/checks/mod.rs"]
pub mod fuzz;
mod head;
mod listing;
mod locks;
mod piece;
mod refusal;
mod request;
mod response;
mod restic;
mod s3_door;
mod service;
mod service_config;
mod share;
mod sites;
mod states;
mod ui;
mod uploads;
mod values;
mod verb;
mod watch;

pub use crate::store::BodySource;
pub use admin::Admin;
pub use auth::credentials::{ClientCertificate, SignedLink};
pub use auth::need::Need;
pub use body::request::{RequestBody, Stream, StreamBody, content_length};
pub use body::response::Body;
pub use exchange::connection::{Connection, Ends};
pub use exchange::record::{Panicked, catch_panic};
pub use exchange::request_log::{LogFormat, RequestLogs};
pub use exchange::{Exceeded, Exchange, Phase};
pub use fields::media::is_guessed_text;
pub use fields::{
    BadCacheControl, DEFAULT_CACHE_CONTROL as CACHE_CONTROL, KeptFields, cache_control,
};
pub use head::allowlists::{AllowLists, BadName, BadOrigin, Hosts, Origins};
pub use head::client::{Client, Door, Peer, TrustedProxies};
pub use head::encode::{closes, continue_100, encode_interim};
pub use head::framing::{Framing, StopReason, request};
pub use head::path::{folder, key};
pub use head::range;
pub use head::syntax::{FramingError, MAX_HEAD};
pub use head::unread::OptionalFields;
pub use locks::Locks;
pub use piece::{Piece, Region, is_hole};
pub use service::parse::explained::Explained;
pub use service::{Dispatcher, Responding, ServiceBuilder, Upgrade, known};
pub use service_config::{Routes, ServiceConfig, UploadLimits};
pub use sites::{INDEX, Site, Sites};
pub use values::conditional;
pub use watch::Session;
