//! data-server: the files of one directory, served over HTTP as a key-value store.
//!
//! ```text
//! socket -> net::acceptor -> net::reactor -> net::connection -> hyper -> http::service -> store
//!             socket <- hyper, or net::takeover for long uploads <- http::response <-'
//! ```
//!
//! Three modules, and data flows one way: [`net`] holds sockets and threads and knows no key and no status; [`http`] is
//! the protocol and opens no file; [`store`] keeps values, in a directory or through [`s3`], and knows no HTTP. `value`
//! has the words that these modules share, `transfer` the ways of a value's bytes, `sigv4` the signatures of S3.
//! [`access`] says who may do what, [`config`] what is wanted, [`sandbox`] what the process may do to the system.
//! [`server`] puts it together, [`lifecycle`] takes it apart in order, [`client`] asks a server whether it is well,
//! `certificates` says which are trusted, [`metrics`] counts.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "data-server needs Linux: openat2, O_TMPFILE, sendfile and preadv2 have no equal elsewhere"
);

pub mod access;
mod certificates;
pub mod client;
pub mod commands;
pub mod config;
mod failpoint;
mod file_error;
pub mod http;
pub mod lifecycle;
pub mod log;
pub mod metrics;
pub mod net;
pub mod s3;
pub mod sandbox;
pub mod server;
mod sigv4;
pub mod store;
mod transfer;
mod value;

pub use config::{Args, Config};
pub use server::{Server, StartError, check, check_store, prepare};
