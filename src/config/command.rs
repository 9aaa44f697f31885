//! Commands: what is done instead of serving.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use super::network::ListenConfig;
use super::s3::S3Store;
use crate::commands::Command;
use crate::health::Trust;
use crate::net::{At, Listen};

#[derive(Clone, Debug, Subcommand)]
pub enum Commands {
    /// Check the configuration file
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Ask a server whether it answers 200 within --timeout (5s): 0 if so, else 1, with the reason
    Health(Health),
    #[command(flatten)]
    Offline(Command),
    /// Test an S3 store at length, through every endpoint, and print a line for each thing; 0 where it can be served,
    /// else 1
    CheckStore(Box<S3Store>),
    /// Print the manual page, in roff
    Man,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the version
    Version,
}

#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file with the environment, as a start would: `FILE: ok`, or what is wrong
    Check {
        /// The file [default: that of --config]
        file: Option<PathBuf>,
    },
}

/// The task of the process.
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
#[derive(Args, Clone, Debug)]
pub struct Health {
    /// What to ask: without a path its page /-/healthz, whether it runs; /-/ready is whether it serves; or unix:PATH [default: the server with these options]
    url: Option<String>,
    /// Longest wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    timeout: humantime::Duration,
    /// File of certificates, in PEM, that the one of an https server must be issued by [default: those of the system]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Take any certificate of an https server, as is done without a URL and --ca
    #[arg(long)]
    insecure: bool,
}

impl Health {
    /// Which certificate it may show. A server that is found by its own options is on this machine, and shows the certificate of
    /// another name than it is asked by.
    pub fn trust(&self) -> Trust {
        match &self.ca {
            Some(file) => Trust::File(file.clone()),
            None if self.insecure || self.url.is_none() => Trust::Any,
            None => Trust::System,
        }
    }

    /// Longest wait for its answer.
    pub fn timeout(&self) -> Duration {
        *self.timeout
    }

    /// The URL to ask: that of the server that listens so, if none is named. It may have no address that can be known.
    pub fn url(&self, listen: &ListenConfig) -> Option<String> {
        let direct = || listen.at.iter().filter(|at| !at.by_proxy);
        let in_the_clear = direct().filter(|at| !at.by_tls);
        let by_tls = direct().filter(|at| at.by_tls);
        let own = || match &listen.admin {
            Some(admin) if admin.by_proxy => None,
            Some(admin) => own_url(admin),
            None => in_the_clear.chain(by_tls).find_map(own_url),
        };
        self.url.clone().or_else(own)
    }
}

/// The URL of a server on this machine that listens there.
fn own_url(listen: &Listen) -> Option<String> {
    match &listen.at {
        At::Address(address) if address.port() != 0 => {
            let ip = match address.ip() {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            let scheme = if listen.by_tls { "https" } else { "http" };
            Some(format!(
                "{scheme}://{}",
                SocketAddr::new(ip, address.port())
            ))
        }
        At::Unix(_) if !listen.by_tls => Some(listen.to_string()),
        At::Address(_) | At::Unix(_) | At::Fd(_) => None,
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
                by_proxy: false,
            };
            assert_eq!(own_url(&listen(false)).as_deref(), expected, "{address}");
            let by_tls = expected.map(|url| url.replace("http:", "https:"));
            assert_eq!(own_url(&listen(true)), by_tls, "{address}");
        }
    }
}
