//! The faults of arguments. Each message begins with the option and says what to give instead.

use crate::http::{BadCacheControl, BadName, BadOrigin};
use crate::net::{BadCount, Listen};

/// The fault of the arguments, naming the option.
#[derive(Debug, thiserror::Error)]
pub enum BadConfig {
    /// An address that is none.
    #[error(
        "{option} {given}: {why}; give an address and a port, such as {address}:{port}, or :{port} for all addresses, or unix:PATH"
    )]
    Address {
        /// The option.
        option: &'static str,
        /// As typed.
        given: String,
        /// The fault of it.
        why: String,
        /// The address of the example: the given one, where there is one.
        address: String,
        /// The port of the example, likewise.
        port: String,
    },
    /// A socket that was passed is one, and `reuse-port` takes one for each reactor.
    #[error(
        "--dispatch reuse-port needs sockets of its own: give --listen addresses, not {listen}"
    )]
    Dispatch {
        /// Which socket.
        listen: Listen,
    },
    /// Other machines reach a place, and nothing says who may do what.
    #[error(
        "--listen {listen}: other machines reach it, and anyone could write and delete; give --access FILE to say who may, or \
         --read-only, or --allow-anonymous to let anyone"
    )]
    Exposed {
        /// Which place.
        listen: Listen,
    },
    /// The environment passes no number of sockets.
    #[error(transparent)]
    Passed(#[from] BadCount),
    /// The options of TLS do not fit each other.
    #[error("{0}")]
    Tls(&'static str),
    /// `--cache-control` is no value of Cache-Control.
    #[error("--cache-control {given:?}: {why}")]
    CacheControl {
        /// As typed.
        given: String,
        /// The fault of it.
        why: BadCacheControl,
    },
    /// `--allowed-host` is no host.
    #[error("--allowed-host {given}: {why}")]
    AllowedHost {
        /// As typed.
        given: String,
        /// The fault of it.
        why: BadName,
    },
    /// `--trusted-proxy` is no network.
    #[error(
        "--trusted-proxy {given}: no network; give one such as 10.0.0.0/8, an address, or unix for unix sockets"
    )]
    TrustedProxy {
        /// As typed.
        given: String,
    },
    /// `--store` names no bucket.
    #[error("--store {given}: {why}; give s3://BUCKET or s3://BUCKET/PREFIX")]
    Store {
        /// As typed.
        given: String,
        /// The fault of it.
        why: &'static str,
    },
    /// `--s3-endpoint` is no address of a store.
    #[error("--s3-endpoint {given}: {why}; give an address such as https://s3.example:9000")]
    Endpoint {
        /// As typed.
        given: String,
        /// The fault of it.
        why: &'static str,
    },
    /// An option of a directory that an S3 store cannot have.
    #[error("{option} cannot be had with --store: {why}")]
    NotWithStore {
        /// The option.
        option: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// An option that a configuration file gives.
    #[error("{place}: {error}")]
    InFile {
        /// The file and the line.
        place: String,
        /// The fault of the option.
        error: Box<BadConfig>,
    },
    /// `--cors-origin` is no origin as browsers send it.
    #[error("--cors-origin {given}: {why}")]
    CorsOrigin {
        /// As typed.
        given: String,
        /// The fault of it.
        why: BadOrigin,
    },
}

impl BadConfig {
    /// The same, with the place in a file where the option was given, which `place` finds by the message.
    pub(crate) fn at(self, place: impl FnOnce(&str) -> Option<String>) -> Self {
        match place(&self.to_string()) {
            Some(place) => Self::InFile {
                place,
                error: Box::new(self),
            },
            None => self,
        }
    }
}
