//! Commands: what is done instead of serving, and needs more words than one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use super::network::ListenConfig;
use crate::net::{At, Listen};

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Commands {
    /// Check the configuration file
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Ask a server whether it is well: 0 when it answers 200 within --timeout (5s), else 1, with the reason
    Health {
        /// What to ask, without a path its page /-/healthz; or unix:PATH [default: the server with these options]
        url: Option<String>,
        /// Longest wait for the answer
        #[arg(long, value_name = "DURATION", default_value = "5s")]
        timeout: humantime::Duration,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check a configuration file with the environment, as a start would, without starting: `FILE: ok`, or what is wrong
    Check {
        /// The file [default: that of --config]
        file: Option<PathBuf>,
    },
}

/// What the process is to do.
#[derive(Clone, Debug)]
pub enum Task {
    /// Serve.
    Serve,
    /// Try the store, and print what it does.
    CheckStore,
    /// Say that this file of options is right: it is, where there is a [`Config`](super::Config).
    CheckFile(PathBuf),
    /// Ask a server whether it is well.
    Health(Health),
}

/// Which server to ask whether it is well.
#[derive(Clone, Debug)]
pub struct Health {
    pub(super) url: Option<String>,
    /// Longest wait for its answer.
    pub timeout: Duration,
}

impl Health {
    /// What to ask: the server that listens so, if none is named. It may have no address that can be known.
    pub fn url(&self, listen: &ListenConfig) -> Option<String> {
        let own = || match &listen.admin {
            Some(admin) => own_url(admin),
            None => listen.at.iter().find_map(own_url),
        };
        self.url.clone().or_else(own)
    }
}

/// The URL of a server on this machine that listens there, in the clear.
fn own_url(listen: &Listen) -> Option<String> {
    match &listen.at {
        _ if listen.by_tls => None,
        At::Address(address) if address.port() != 0 => {
            let ip = match address.ip() {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            Some(format!("http://{}", SocketAddr::new(ip, address.port())))
        }
        At::Unix(_) => Some(listen.to_string()),
        At::Address(_) | At::Fd(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_asked_on_loopback() {
        for (address, expected) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("0.0.0.0:80", Some("http://127.0.0.1:80")),
            ("[::]:8080", Some("http://[::1]:8080")),
            ("127.0.0.1:0", None),
        ] {
            let at = At::Address(address.parse().unwrap());
            let listen = |by_tls| Listen {
                at: at.clone(),
                by_tls,
            };
            assert_eq!(own_url(&listen(false)).as_deref(), expected, "{address}");
            assert_eq!(own_url(&listen(true)), None, "{address}");
        }
    }
}
