//! Options of the sockets and the threads that serve them: where to listen, how many connections there are, and how
//! long clients may take.
//!
//! A place to listen at is typed as ADDRESS:PORT, `unix:PATH` or `fd:N`, behind what says that TLS or the PROXY
//! protocol is spoken there.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;

use bytesize::ByteSize;
use clap::Args;
use rustix::process::{Resource, getrlimit};

use super::descriptors::Descriptors;
use super::file::{ConfigError, UNIX, filled};
use super::mistakes::one_of;
use super::security::{ListenConfig, Sharing};
use crate::commands::{number, size};
use crate::http::Door;
use crate::net::{self, Dispatch, Limits, Listen, ListenAddress};

/// The default listen address, and that of a server whose files are shared.
const DEFAULT: &str = "127.0.0.1:8080";
const SHARED: &str = ":8080";

/// The prefix of the number of a descriptor.
const FD: &str = "fd:";

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionConfig {
    /// Connections open at once.
    pub max: usize,
    /// Connections open at once from one IPv4 address or IPv6 network of 64 bits, if that is bounded.
    pub max_per_ip: Option<NonZeroU32>,
    /// The time limits of peers.
    pub limits: Limits,
    /// HTTP/2 is spoken without TLS too.
    pub http2_clear: bool,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connections")]
pub struct Network {
    /// Reactors: threads that serve connections [default: the CPUs]
    #[arg(long, visible_alias = "workers", value_name = "N", value_parser = number(1..=1024_u16))]
    threads: Option<u16>,

    /// Where to listen; repeat for more. ADDRESS:PORT (port 0 picks a free one, :8080 is all addresses), unix:PATH, or
    /// fd:3, an inherited socket. https:// before an address, or https+ before unix: or fd:, is TLS; before that dav+
    /// is for folders that are mounted (RFC 4918), and s3+ for clients of S3; proxy+ in front of all expects the PROXY
    /// protocol, version 1 or 2 [default: the sockets that a service manager passes, else 127.0.0.1:8080]
    #[arg(
        long,
        visible_alias = "bind",
        value_name = "PLACE",
        value_delimiter = ','
    )]
    listen: Vec<String>,

    /// Where to listen for metrics only (/-/metrics, with /-/healthz and /-/ready), on a thread of its own and without
    /// --access; --listen then has no metrics
    #[arg(long, value_name = "PLACE")]
    admin: Option<String>,

    /// Let everyone who reaches the server read, or with --share=upload also add files, which replace none; without
    /// --listen on all addresses, and without --hide not the names that begin with a dot
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "read",
        value_parser = one_of([("read", Sharing::Read), ("upload", Sharing::Upload)])
    )]
    pub share: Option<Sharing>,

    /// Sign links by which others read a folder or hand files in, for who has the right `link`, or without --access
    /// for all who reach the server; the key is DIR/.data-server/links
    #[arg(long)]
    pub links: bool,

    /// Let anyone who reaches the server read, write and delete: without this, --share, --access or --read-only the
    /// server listens only on loopback addresses and unix sockets
    #[arg(long)]
    allow_anonymous: bool,

    /// How connections are assigned to reactors: in turn, or by the kernel
    #[arg(long, value_name = "HOW", default_value = "round-robin", value_parser = one_of([
        ("round-robin", Dispatch::Acceptor),
        ("reuse-port", Dispatch::ReusePort),
    ]))]
    dispatch: Dispatch,

    /// Keep each reactor on one CPU, and disk and compute threads on the others
    #[arg(long)]
    pub pin: bool,

    /// Most connections open at once; when more wait, the connections idle longest are closed [default: what the limit
    /// on descriptors leaves beside files, at most 65536]
    #[arg(long, value_name = "N", value_parser = number(1..=u32::MAX))]
    max_connections: Option<u32>,

    /// Most connections open at once from one IPv4 address or IPv6 network of 64 bits; further connections are closed
    /// [default: no limit]
    #[arg(long, value_name = "N", value_parser = number(NonZeroU32::MIN..=NonZeroU32::MAX))]
    max_connections_per_ip: Option<NonZeroU32>,

    /// Speak HTTP/2 without TLS too, with clients that begin with it (prior knowledge)
    #[arg(long)]
    http2_clear: bool,

    /// Time for the head of a request to arrive; 0s is no limit
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    header_timeout: humantime::Duration,

    /// Time a connection may stay open between requests; 0s is no limit
    #[arg(long, value_name = "DURATION", default_value = "75s")]
    idle_timeout: humantime::Duration,

    /// Time that a client may keep the server waiting within a body, in one wait or in several; 0s is no limit
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    body_timeout: humantime::Duration,

    /// Bytes of a body that restore one second of --body-timeout, up to all of it; 0: any byte restores all of it
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1KiB")]
    min_rate: ByteSize,

    /// Time for requests in flight to finish after SIGTERM, SIGINT or SIGQUIT
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub grace_period: humantime::Duration,
}

impl Network {
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(num_cpus::get, usize::from)
    }

    pub fn connections(&self, descriptors: &Descriptors) -> ConnectionConfig {
        ConnectionConfig {
            max: self
                .max_connections
                .map_or(descriptors.connections(), |n| n as usize),
            max_per_ip: self.max_connections_per_ip,
            limits: Limits {
                header_timeout: *self.header_timeout,
                idle_timeout: *self.idle_timeout,
                body_timeout: *self.body_timeout,
                min_rate: self.min_rate.as_u64(),
            },
            http2_clear: self.http2_clear,
        }
    }

    /// The descriptors that the server's sockets and threads need, and those that are left for connections and files.
    pub fn descriptors(&self) -> Descriptors {
        let acceptors = match self.dispatch {
            Dispatch::ReusePort => self.threads(),
            Dispatch::Acceptor => 1,
        };
        let passed = net::inherited_fds().map_or(0, |passed| passed.len());
        let places = self.given().count().max(passed).max(1);
        // The hard limit, to which the server raises the soft one.
        let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20);
        let has_admin = self.admin().is_some();
        Descriptors::within(limit, self.threads(), acceptors, places, has_admin)
    }

    /// The names and addresses to listen on, as typed.
    pub fn own_names(&self) -> impl Iterator<Item = &str> {
        self.given().chain(self.admin()).filter_map(name)
    }

    /// The values of `--listen`, without the empty value that an empty variable gives.
    fn given(&self) -> impl Iterator<Item = &str> {
        filled(&self.listen)
    }

    fn admin(&self) -> Option<&str> {
        filled(&self.admin).next()
    }

    pub fn listen(&self) -> Result<ListenConfig, ConfigError> {
        let admin = self.admin().map(|given| place("--admin", given));
        let admin = admin.transpose()?;
        let given = self.given().map(|given| place("--listen", given));
        let mut at = given.collect::<Result<Vec<_>, _>>()?;
        let is_named = |fd: &_| at.iter().chain(&admin).any(|listen| listen.at == *fd);
        let passed = net::inherited_fds().map_err(|bad| ConfigError(bad.to_string()))?;
        let passed = passed.map(ListenAddress::Fd);
        let unnamed: Vec<_> = passed.filter(|fd| !is_named(fd)).collect();
        if at.is_empty() {
            at.extend(unnamed.into_iter().map(Listen::in_the_clear));
        } else if let Some(fd) = unnamed.into_iter().next() {
            let listen = Listen::in_the_clear(fd);
            return Err(ConfigError(format!(
                "--listen does not name {listen}, a socket that the service manager passes, so its clients would wait for ever: \
                 give --listen {listen} too, or no --listen"
            )));
        }
        if at.is_empty() {
            let default = if self.share.is_some() {
                SHARED
            } else {
                DEFAULT
            };
            at.push(place("--listen", default)?);
        }
        let passed = at.iter().find(|at| matches!(at.at, ListenAddress::Fd(_)));
        if let (Some(listen), Dispatch::ReusePort) = (passed, self.dispatch) {
            return Err(ConfigError(format!(
                "--dispatch reuse-port needs sockets of its own: give --listen addresses, not {listen}"
            )));
        }
        Ok(ListenConfig {
            at,
            admin,
            dispatch: self.dispatch,
            allow_anonymous: self.allow_anonymous,
        })
    }
}

/// The place that `given` says to listen at.
fn place(option: &'static str, given: &str) -> Result<Listen, ConfigError> {
    let typed = Typed::new(given);
    Ok(Listen {
        at: at(option, given, typed.place)?,
        by_tls: typed.by_tls,
        by_proxy: typed.by_proxy,
        door: typed.door,
    })
}

/// A place to listen, as it is typed.
struct Typed<'a> {
    by_proxy: bool,
    door: Door,
    by_tls: bool,
    /// The address, the path or the descriptor, behind what says that TLS or the PROXY protocol is spoken there.
    place: &'a str,
}

impl<'a> Typed<'a> {
    fn new(given: &'a str) -> Self {
        let proxied = given.strip_prefix("proxy+");
        let (door, rest) = Door::of(proxied.unwrap_or(given));
        let secure = (rest.strip_prefix("https+")).or_else(|| authority(rest, "https://"));
        let place = secure.unwrap_or(rest);
        let address = authority(place, "http://").filter(|address| !is_local(address));
        Self {
            by_proxy: proxied.is_some(),
            door,
            by_tls: secure.is_some(),
            place: address.unwrap_or(place),
        }
    }
}

/// `url` without this scheme and the slash at its end, if it begins with the scheme.
fn authority<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let authority = url.strip_prefix(scheme)?;
    Some(authority.strip_suffix('/').unwrap_or(authority))
}

/// True for a path or a descriptor, which have no address.
fn is_local(place: &str) -> bool {
    place.starts_with(UNIX) || place.starts_with(FD)
}

/// The address of `place`, which was `given` with its scheme.
fn at(option: &'static str, given: &str, place: &str) -> Result<ListenAddress, ConfigError> {
    let bad = |why: &str| {
        let (why, address, port) = match (place.parse::<IpAddr>(), is_number(place)) {
            (Ok(_), _) => ("an address without a port", place, "8080"),
            (_, true) => ("a port without an address", "127.0.0.1", place),
            _ => (why, "127.0.0.1", "8080"),
        };
        ConfigError(format!(
            "{option} {given}: {why}; give an address and a port, such as {address}:{port}, or :{port} for all addresses, or \
             unix:PATH"
        ))
    };
    if let Some(path) = place.strip_prefix(UNIX) {
        let path = Some(path).filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| bad("no path"))?;
        return Ok(ListenAddress::Unix(path.into()));
    }
    if let Some(fd) = place.strip_prefix(FD) {
        let fd = fd.parse().ok().filter(|&fd| fd >= 3);
        let fd = fd.ok_or_else(|| bad("no descriptor from 3 on"))?;
        return Ok(ListenAddress::Fd(fd));
    }
    if let Some(port) = place.strip_prefix(':').filter(|port| is_number(port)) {
        let port = port.parse().map_err(|_| bad("no such port"))?;
        let everywhere = SocketAddr::new(net::everywhere(), port);
        return Ok(ListenAddress::Address(everywhere));
    }
    let addresses = match zoned(place) {
        // The parser of the standard library takes no names of interfaces.
        Some((address, port)) => {
            let port: u16 = port.parse().map_err(|_| bad("no such port"))?;
            (address, port).to_socket_addrs()
        }
        None => place.to_socket_addrs(),
    };
    let addresses = addresses.map_err(|error| bad(&error.to_string()))?;
    // One address of a name, IPv4 first, as in Go: Debian names ::1 localhost before 127.0.0.1, which clients try too.
    let address = addresses.min_by_key(SocketAddr::is_ipv6);
    address
        .map(ListenAddress::Address)
        .ok_or_else(|| bad("no such address"))
}

/// The address, with the interface that a link-local one of IPv6 is of (RFC 4007, section 11), and the port in
/// `[ADDRESS%INTERFACE]:PORT`.
fn zoned(place: &str) -> Option<(&str, &str)> {
    let (address, port) = place.strip_prefix('[')?.split_once("]:")?;
    address.contains('%').then_some((address, port))
}

/// The name or address in `given`, if there is one; without an interface, which no client names.
fn name(given: &str) -> Option<&str> {
    let place = Typed::new(given).place;
    if is_local(place) {
        return None;
    }
    match zoned(place) {
        Some((address, _)) => Some(address.split_once('%')?.0),
        None => Some(place.rsplit_once(':')?.0),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_says_how_to_listen() {
        let address = || ListenAddress::Address("127.0.0.1:80".parse().unwrap());
        let own = Some("127.0.0.1");
        for (given, at, by_tls, name) in [
            ("127.0.0.1:80", address(), false, own),
            ("http://127.0.0.1:80", address(), false, own),
            ("http://127.0.0.1:80/", address(), false, own),
            ("https://127.0.0.1:80/", address(), true, own),
            ("https+127.0.0.1:80", address(), true, own),
            (
                "unix:/run/a:b",
                ListenAddress::Unix("/run/a:b".into()),
                false,
                None,
            ),
            ("https+http://127.0.0.1:80", address(), true, own),
            ("https+unix:a", ListenAddress::Unix("a".into()), true, None),
            (
                "https://unix:a",
                ListenAddress::Unix("a".into()),
                true,
                None,
            ),
            ("fd:3", ListenAddress::Fd(3), false, None),
            ("https+fd:4", ListenAddress::Fd(4), true, None),
        ] {
            for by_proxy in [false, true] {
                let given = format!("{}{given}", if by_proxy { "proxy+" } else { "" });
                let at = at.clone();
                let expected = Listen {
                    at,
                    by_tls,
                    by_proxy,
                    door: Door::Plain,
                };
                assert_eq!(place("--listen", &given).unwrap(), expected, "{given}");
                assert_eq!(super::name(&given), name, "{given}");
            }
        }
        let ipv6 = place("--listen", "[::1]:80").unwrap();
        assert_eq!(ipv6.at, ListenAddress::Address("[::1]:80".parse().unwrap()));
        for (given, zone) in [("[fe80::1%lo]:80", 1), ("https://[fe80::1%1]:80/", 1)] {
            let ListenAddress::Address(SocketAddr::V6(address)) =
                place("--listen", given).unwrap().at
            else {
                panic!("{given}");
            };
            assert_eq!((address.scope_id(), address.port()), (zone, 80), "{given}");
            assert_eq!(super::name(given), Some("fe80::1"));
        }
        for bad in "[fe80::1%nosuch0]:80 [fe80::1%lo]:x [fe80::1%lo] [fe80::1%lo:80 [%lo]:80 unix: fd:2 fd: \
            fd:x http:// http://unix:a http://fd:3 https:// https+ https:127.0.0.1:80 proxy+ \
            https+proxy+127.0.0.1:80 proxy://127.0.0.1:80 ftp://127.0.0.1:80 127.0.0.1".split(' ') {
            let refused = place("--listen", bad).unwrap_err().to_string();
            let is_right = refused.starts_with(&format!("--listen {bad}: "));
            assert!(is_right, "{refused}");
        }
    }
}
