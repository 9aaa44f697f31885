//! Options of the sockets and the threads that serve them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};

use super::timeouts::Timeouts;
use super::{BadConfig, Descriptors};
use crate::net::{self, Balance, Limits, Listen};

/// Where to listen unless told otherwise.
const DEFAULT: &str = "127.0.0.1:8080";

/// Where clients connect.
#[derive(Clone, Copy, Debug)]
pub struct ListenConfig {
    /// Where to listen.
    pub at: Listen,
    /// Where the server's own pages are, if not there.
    pub admin: Option<Listen>,
    /// How connections come to reactors.
    pub dispatch: net::Dispatch,
}

/// What connections may do.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionConfig {
    /// Open at once.
    pub max: usize,
    /// Of those, from one IPv4 address or IPv6 network of 64 bits, if that is bounded.
    pub max_per_ip: Option<NonZeroU32>,
    /// How long peers may take.
    pub limits: Limits,
    /// What moves long bodies.
    pub takeover: net::Takeover,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connections")]
pub(super) struct Network {
    /// Number of reactors: threads that serve connections, each with a runtime of its own [default: the CPUs]
    #[arg(long, visible_alias = "workers", value_name = "N", env = "DATA_SERVER_THREADS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Address to listen on, port 0 picks a free one, and :8080 is all addresses; or fd:3, a listening socket that is open already [default: fd:3 where a
    /// service manager passes it, else 127.0.0.1:8080]
    #[arg(
        long,
        visible_alias = "bind",
        value_name = "ADDR:PORT",
        env = "DATA_SERVER_LISTEN"
    )]
    listen: Option<String>,

    /// Address of the server's own pages (/-/metrics, /-/ready and so on), on a thread of their own; they then leave the
    /// port of --listen
    #[arg(long, value_name = "ADDR:PORT", env = "DATA_SERVER_ADMIN")]
    admin: Option<String>,

    /// How connections come to reactors: in turn, to the one with the fewest, or by the kernel to a listener of each
    #[arg(
        long,
        value_name = "HOW",
        env = "DATA_SERVER_DISPATCH",
        default_value = "round-robin"
    )]
    dispatch: Dispatch,

    /// Keep each reactor on one CPU, and disk and compute threads on those that no reactor has, where there are any
    #[arg(long, env = "DATA_SERVER_PIN", value_parser = FalseyValueParser::new())]
    pub(super) pin: bool,

    /// Connections open at once; while more wait to be accepted, those idle longest are closed [default: what the limit on
    /// descriptors leaves beside files, at most 65536]
    #[arg(long, value_name = "N", env = "DATA_SERVER_MAX_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,

    /// Connections open at once from one IPv4 address or IPv6 network of 64 bits; more are closed [default: no limit]
    #[arg(long, value_name = "N", env = "DATA_SERVER_MAX_CONNECTIONS_PER_IP")]
    max_connections_per_ip: Option<NonZeroU32>,

    /// What moves long bodies: the connection itself, which takes the socket from hyper for that (on), or hyper (off, for
    /// comparison); answers are the same
    #[arg(
        long,
        value_name = "HOW",
        env = "DATA_SERVER_TAKEOVER",
        default_value = "on"
    )]
    takeover: Takeover,

    #[command(flatten)]
    pub(super) timeouts: Timeouts,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dispatch {
    RoundRobin,
    LeastConnections,
    ReusePort,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Takeover {
    On,
    Off,
}

impl Network {
    pub(super) fn threads(&self) -> usize {
        self.threads.map_or_else(num_cpus::get, usize::from)
    }

    fn dispatch(&self) -> net::Dispatch {
        match self.dispatch {
            Dispatch::RoundRobin => net::Dispatch::Acceptor(Balance::RoundRobin),
            Dispatch::LeastConnections => net::Dispatch::Acceptor(Balance::LeastConnections),
            Dispatch::ReusePort => net::Dispatch::ReusePort,
        }
    }

    pub(super) fn connections(&self, descriptors: &Descriptors) -> ConnectionConfig {
        ConnectionConfig {
            max: self
                .max_connections
                .map_or_else(|| descriptors.connections(), |n| n as usize),
            max_per_ip: self.max_connections_per_ip,
            limits: self.timeouts.limits(),
            takeover: match self.takeover {
                Takeover::On => net::Takeover::On,
                Takeover::Off => net::Takeover::Off,
            },
        }
    }

    /// What this server's sockets and threads need, and what that leaves.
    pub(super) fn descriptors(&self) -> Descriptors {
        let listeners = match self.dispatch {
            Dispatch::ReusePort => self.threads(),
            Dispatch::RoundRobin | Dispatch::LeastConnections => 1,
        };
        let has_admin = self.admin.as_deref().is_some_and(|given| !given.is_empty());
        Descriptors::new(self.threads(), listeners, has_admin)
    }

    /// The names and addresses to listen on, as typed.
    pub(super) fn own_names(&self) -> impl Iterator<Item = &str> {
        let given = [self.listen.as_deref(), self.admin.as_deref()];
        given
            .into_iter()
            .filter_map(|given| Some(given?.rsplit_once(':')?.0))
            .filter(|name| *name != "fd")
    }

    pub(super) fn listen(&self) -> Result<ListenConfig, BadConfig> {
        let given = |option: &'_ Option<String>| option.clone().filter(|given| !given.is_empty());
        let at = match (given(&self.listen), net::passed()) {
            (Some(given), _) => place("--listen", &given)?,
            (None, Some(fd)) => Listen::Fd(fd),
            (None, None) => place("--listen", DEFAULT)?,
        };
        if matches!((at, self.dispatch), (Listen::Fd(_), Dispatch::ReusePort)) {
            return Err(BadConfig::Dispatch { listen: at });
        }
        let admin = given(&self.admin).map(|given| place("--admin", &given));
        Ok(ListenConfig {
            at,
            admin: admin.transpose()?,
            dispatch: self.dispatch(),
        })
    }
}

/// Where `given` says to listen.
fn place(option: &'static str, given: &str) -> Result<Listen, BadConfig> {
    let bad = |why: String| BadConfig::Address {
        option,
        given: given.to_owned(),
        why,
    };
    if let Some(fd) = given.strip_prefix("fd:") {
        let fd = fd.parse().ok().filter(|&fd| fd >= 3);
        let bad = || bad("no descriptor from 3 on".to_owned());
        return fd.map(Listen::Fd).ok_or_else(bad);
    }
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    if let Some(port) = given.strip_prefix(':').filter(is_port) {
        let port = port.parse().map_err(|_| bad("no such port".to_owned()))?;
        let everywhere = SocketAddr::new(net::everywhere(), port);
        return Ok(Listen::Address(everywhere));
    }
    let mut addresses = given
        .to_socket_addrs()
        .map_err(|error| bad(error.to_string()))?;
    let address = addresses.next().map(Listen::Address);
    address.ok_or_else(|| bad("no such address".to_owned()))
}
