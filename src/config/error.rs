//! What can be wrong with the arguments. Each message names the option and says what to give instead.

use crate::http::{BadCacheControl, BadName, BadOrigin};
use crate::net::Listen;

/// What is wrong with the arguments, naming the option.
#[derive(Debug, thiserror::Error)]
pub enum BadConfig {
    /// What should be an address is none.
    #[error(
        "{option} {given}: {why}; give an address and a port, such as 127.0.0.1:8080, or :8080 for all addresses"
    )]
    Address {
        /// The option.
        option: &'static str,
        /// As typed.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// A socket that was passed is one, and `reuse-port` takes one for each reactor.
    #[error(
        "--dispatch reuse-port needs sockets of its own: give --listen an address, not {listen}"
    )]
    Dispatch {
        /// Which socket.
        listen: Listen,
    },
    /// `--cache-control` is no value of Cache-Control.
    #[error("--cache-control {given:?}: {why}")]
    CacheControl {
        /// As typed.
        given: String,
        /// What is wrong with it.
        why: BadCacheControl,
    },
    /// `--allowed-host` is no host.
    #[error("--allowed-host {given}: {why}")]
    AllowedHost {
        /// As typed.
        given: String,
        /// What is wrong with it.
        why: BadName,
    },
    /// `--cors-origin` is no origin as browsers send it.
    #[error("--cors-origin {given}: {why}")]
    CorsOrigin {
        /// As typed.
        given: String,
        /// What is wrong with it.
        why: BadOrigin,
    },
}
