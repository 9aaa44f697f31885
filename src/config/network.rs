//! Options of the sockets and the threads that serve them: where to listen, how many connections there are, and how long clients may take.

use std::num::NonZeroU32;
use std::time::Duration;

use bytesize::ByteSize;
use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};

use super::BadConfig;
use super::descriptors::Descriptors;
use super::help::size;
use super::place::{name, place};
use crate::net::{self, At, Limits, Listen};

/// Where to listen unless told otherwise.
const DEFAULT: &str = "127.0.0.1:8080";

/// Where clients connect.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// Where to listen: at least one place.
    pub at: Vec<Listen>,
    /// Where the server's own pages are, if not there.
    pub admin: Option<Listen>,
    /// How connections come to reactors.
    pub dispatch: net::Dispatch,
    /// Whether it was said in words that anyone who reaches the server may change values.
    pub allow_anonymous: bool,
}

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionConfig {
    /// Open at once.
    pub max: usize,
    /// Of those, from one IPv4 address or IPv6 network of 64 bits, if that is bounded.
    pub max_per_ip: Option<NonZeroU32>,
    /// How long peers may take.
    pub limits: Limits,
    /// Where HTTP/2 is spoken.
    pub http2: net::Http2,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connections")]
pub struct Network {
    /// Reactors: threads that serve connections [default: the CPUs]
    #[arg(long, visible_alias = "workers", value_name = "N", env = "DATA_SERVER_THREADS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Where to listen; repeat for more. ADDRESS:PORT, of which port 0 is a free one and :8080 all addresses;
    /// unix:PATH; or fd:3, an inherited socket. https:// before an address, or https+ before the others, is TLS; proxy+
    /// before that is for a proxy that sends the PROXY protocol, version 1 or 2 [default: the sockets that a service
    /// manager passes, else 127.0.0.1:8080]
    #[arg(
        long,
        visible_alias = "bind",
        value_name = "PLACE",
        env = "DATA_SERVER_LISTEN",
        value_delimiter = ','
    )]
    listen: Vec<String>,

    /// Where to listen for the server's own pages (/-/metrics, /-/ready and so on), on a thread of their own; --listen
    /// then no longer serves them
    #[arg(long, value_name = "PLACE", env = "DATA_SERVER_ADMIN")]
    admin: Option<String>,

    /// Let anyone who reaches the server read, write and delete: without this, --access or --read-only it listens on
    /// loopback and unix sockets alone
    #[arg(long, env = "DATA_SERVER_ALLOW_ANONYMOUS", value_parser = FalseyValueParser::new())]
    allow_anonymous: bool,

    /// How connections come to reactors: in turn, or by the kernel
    #[arg(
        long,
        value_name = "HOW",
        env = "DATA_SERVER_DISPATCH",
        default_value = "round-robin"
    )]
    dispatch: Dispatch,

    /// Keep each reactor on one CPU, and disk and compute threads on the others
    #[arg(long, env = "DATA_SERVER_PIN", value_parser = FalseyValueParser::new())]
    pub pin: bool,

    /// Connections open at once; when more wait, those idle longest are closed [default: what the limit on descriptors
    /// leaves beside files, at most 65536]
    #[arg(long, value_name = "N", env = "DATA_SERVER_MAX_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,

    /// Connections open at once from one IPv4 address or IPv6 network of 64 bits; more are closed [default: no limit]
    #[arg(long, value_name = "N", env = "DATA_SERVER_MAX_CONNECTIONS_PER_IP")]
    max_connections_per_ip: Option<NonZeroU32>,

    /// Speak HTTP/2 without TLS too, with clients that begin with it (prior knowledge)
    #[arg(long, env = "DATA_SERVER_HTTP2_CLEAR", value_parser = FalseyValueParser::new())]
    http2_clear: bool,

    #[command(flatten)]
    pub timeouts: Timeouts,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dispatch {
    RoundRobin,
    ReusePort,
}

impl ListenConfig {
    /// Whether what is sent at some place is encrypted.
    pub fn has_tls(&self) -> bool {
        self.at.iter().chain(&self.admin).any(|at| at.by_tls)
    }

    /// Refuses a place that other machines reach, where those may change values: unless it `is_guarded`, so that not all of
    /// them may, or the options allow that in words.
    pub fn check_exposure(&self, is_guarded: bool) -> Result<(), BadConfig> {
        if is_guarded || self.allow_anonymous {
            return Ok(());
        }
        match self.at.iter().find(|listen| listen.is_exposed()) {
            Some(listen) => Err(BadConfig::Exposed {
                listen: listen.clone(),
            }),
            None => Ok(()),
        }
    }
}

impl Network {
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(num_cpus::get, usize::from)
    }

    fn dispatch(&self) -> net::Dispatch {
        match self.dispatch {
            Dispatch::RoundRobin => net::Dispatch::Acceptor,
            Dispatch::ReusePort => net::Dispatch::ReusePort,
        }
    }

    pub fn connections(&self, descriptors: &Descriptors) -> ConnectionConfig {
        ConnectionConfig {
            max: self
                .max_connections
                .map_or_else(|| descriptors.connections(), |n| n as usize),
            max_per_ip: self.max_connections_per_ip,
            limits: self.timeouts.limits(),
            http2: if self.http2_clear {
                net::Http2::Everywhere
            } else {
                net::Http2::TlsOnly
            },
        }
    }

    /// The descriptors that this server's sockets and threads need, and those that are left.
    pub fn descriptors(&self) -> Descriptors {
        let acceptors = match self.dispatch {
            Dispatch::ReusePort => self.threads(),
            Dispatch::RoundRobin => 1,
        };
        let places = self
            .given()
            .count()
            .max(net::passed().map_or(0, |passed| passed.len()))
            .max(1);
        Descriptors::new(self.threads(), acceptors, places, self.admin().is_some())
    }

    /// The names and addresses to listen on, as typed.
    pub fn own_names(&self) -> impl Iterator<Item = &str> {
        self.given().chain(self.admin()).filter_map(name)
    }

    /// The values of `--listen`; a variable that is empty gives one empty place.
    fn given(&self) -> impl Iterator<Item = &str> {
        let given = self.listen.iter().map(String::as_str);
        given.filter(|given| !given.is_empty())
    }

    fn admin(&self) -> Option<&str> {
        self.admin.as_deref().filter(|given| !given.is_empty())
    }

    pub fn listen(&self) -> Result<ListenConfig, BadConfig> {
        let admin = self.admin().map(|given| place("--admin", given));
        let admin = admin.transpose()?;
        let given = self.given().map(|given| place("--listen", given));
        let mut at = given.collect::<Result<Vec<_>, _>>()?;
        if at.is_empty() {
            let passed = net::passed()?.map(At::Fd);
            let passed = passed.filter(|fd| admin.as_ref().is_none_or(|admin| admin.at != *fd));
            at.extend(passed.map(|at| Listen {
                at,
                by_tls: false,
                by_proxy: false,
            }));
        }
        if at.is_empty() {
            at.push(place("--listen", DEFAULT)?);
        }
        let passed = at.iter().find(|at| matches!(at.at, At::Fd(_)));
        if let (Some(listen), Dispatch::ReusePort) = (passed, self.dispatch) {
            let listen = listen.clone();
            return Err(BadConfig::Dispatch { listen });
        }
        Ok(ListenConfig {
            at,
            admin,
            dispatch: self.dispatch(),
            allow_anonymous: self.allow_anonymous,
        })
    }
}

#[derive(Args, Clone, Debug)]
pub struct Timeouts {
    /// Time for the head of a request to arrive; 0s is for ever
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_HEADER_TIMEOUT",
        default_value = "10s"
    )]
    header_timeout: humantime::Duration,

    /// Time a connection may stay open between requests; 0s is for ever
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_IDLE_TIMEOUT",
        default_value = "75s"
    )]
    idle_timeout: humantime::Duration,

    /// Time that a client may pause in a body; 0s is for ever
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_BODY_TIMEOUT",
        default_value = "60s"
    )]
    body_timeout: humantime::Duration,

    /// Bytes a second that a client must send or take of a body, averaged over 10 s without pauses; 0 is any
    #[arg(
        long,
        value_name = "SIZE",
        env = "DATA_SERVER_MIN_RATE",
        value_parser = size,
        default_value = "1KiB"
    )]
    min_rate: ByteSize,

    /// Time for requests in flight to finish after SIGTERM, SIGINT or SIGQUIT
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_GRACE_PERIOD",
        default_value = "30s"
    )]
    grace_period: humantime::Duration,
}

impl Timeouts {
    pub fn grace_period(&self) -> Duration {
        *self.grace_period
    }

    pub fn limits(&self) -> Limits {
        Limits {
            header_timeout: *self.header_timeout,
            idle_timeout: *self.idle_timeout,
            body_timeout: *self.body_timeout,
            min_rate: self.min_rate.as_u64(),
        }
    }
}
