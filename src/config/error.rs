//! The faults of arguments. Each message begins with the option and says what to give instead.

use std::fmt::Display;

use crate::net::{BadCount, Listen};

/// The fault of the arguments, naming the option.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value that its option does not take.
    #[error("{option} {given}: {why}")]
    Value {
        /// The option.
        option: &'static str,
        /// As typed.
        given: String,
        /// The fault of it, and what to give instead.
        why: String,
    },
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
        error: Box<ConfigError>,
    },
}

impl ConfigError {
    /// The fault of a value.
    pub(crate) fn value(option: &'static str, given: impl Into<String>, why: &dyn Display) -> Self {
        Self::Value {
            option,
            given: given.into(),
            why: why.to_string(),
        }
    }

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
