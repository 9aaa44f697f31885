//! Where to listen: on addresses, unix sockets, and sockets that are open already.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::socket_activation;
use super::unix_socket::{self, SocketFile};

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Where to listen, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub at: At,
    /// Whether what is sent on connections is encrypted, by TLS.
    pub by_tls: bool,
    /// Whether connections come by a proxy, and begin with a header of the PROXY protocol.
    pub by_proxy: bool,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// On this address.
    Address(SocketAddr),
    /// On a unix socket of this path.
    Unix(PathBuf),
    /// On the socket that was passed as this descriptor; it goes on listening when this process has ended.
    Fd(RawFd),
}

impl Listen {
    /// Whether other machines may reach it. A socket that is no listener is none that they reach; to bind it fails.
    pub fn is_exposed(&self) -> bool {
        let address = match &self.at {
            &At::Address(address) => Ok(Address::Tcp(address)),
            At::Unix(_) => return false,
            &At::Fd(fd) => socket_activation::listener(fd).and_then(|socket| Address::of(&socket)),
        };
        address.is_ok_and(|address| address.is_exposed())
    }

    /// Whether all addresses of IPv4 on its port are another one's among `all`: it then has those of IPv6 alone.
    fn leaves_v4(&self, all: &[Self]) -> bool {
        let port = match &self.at {
            At::Address(address) if address.port() != 0 => address.port(),
            _ => return false,
        };
        let v4 = At::Address((Ipv4Addr::UNSPECIFIED, port).into());
        all.iter().any(|other| other.at == v4)
    }

    /// Listens, one place of `all`, on as many sockets as are accepted from each by its own; `shared` when those of one address are
    /// several.
    pub(super) fn bind(
        &self,
        all: &[Self],
        sockets: usize,
        shared: bool,
    ) -> io::Result<BoundAddress> {
        let v6_only = self.leaves_v4(all);
        let (first, file) = match &self.at {
            &At::Address(address) => {
                if shared {
                    // A server of another directory would share its clients, without a word of the kernel.
                    drop(listen(address, false, v6_only)?);
                }
                (listen(address, shared, v6_only)?, None)
            }
            At::Unix(path) => {
                let (socket, file) = unix_socket::listen(path, BACKLOG)?;
                (socket.into(), Some(Arc::new(file)))
            }
            &At::Fd(fd) => (socket_activation::listener(fd)?, None),
        };
        let address = Address::of(&first)?;
        let another = |_| match &address {
            // The port that was picked, if it was 0.
            &Address::Tcp(address) => listen(address, shared, v6_only),
            Address::Unix(_) => first.try_clone(),
        };
        let others = (1..sockets).map(another).collect::<io::Result<Vec<_>>>()?;
        Ok(BoundAddress {
            sockets: std::iter::once(first).chain(others).collect(),
            address,
            by_tls: self.by_tls,
            by_proxy: self.by_proxy,
            outlives: matches!(self.at, At::Fd(_)),
            file,
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(proxied(self.by_proxy))?;
        match &self.at {
            At::Address(address) if self.by_tls => write!(f, "https://{address}"),
            At::Address(address) => address.fmt(f),
            At::Unix(path) => write!(f, "{}unix:{}", tls_prefix(self.by_tls), path.display()),
            At::Fd(fd) => write!(f, "{}fd:{fd}", tls_prefix(self.by_tls)),
        }
    }
}

/// The prefix of an address that has no URL.
fn tls_prefix(by_tls: bool) -> &'static str {
    if by_tls { "https+" } else { "" }
}

/// The prefix of an address whose connections come by a proxy.
fn proxied(by_proxy: bool) -> &'static str {
    if by_proxy { "proxy+" } else { "" }
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At this address, with the real port.
    Tcp(SocketAddr),
    /// At this path; one that begins with `@` is an abstract name.
    Unix(PathBuf),
}

impl Address {
    fn of(socket: &TcpListener) -> io::Result<Self> {
        let address = SockRef::from(socket).local_addr()?;
        Ok(match address.as_socket() {
            Some(address) => Self::Tcp(address),
            None => Self::Unix(unix_socket::path(&address)),
        })
    }

    /// Whether only the loopback network's names reach it. The client of a unix socket may have any name for it: none is a
    /// browser.
    pub fn is_loopback(&self) -> bool {
        matches!(self, Self::Tcp(address) if address.ip().to_canonical().is_loopback())
    }

    /// Whether other machines may reach it.
    pub fn is_exposed(&self) -> bool {
        matches!(self, Self::Tcp(_)) && !self.is_loopback()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address that is bound: one socket, or one for each reactor.
#[derive(Debug)]
pub(super) struct BoundAddress {
    // A TcpListener is what owns any listening socket here, a unix socket too: nothing asks it for addresses.
    pub(super) sockets: Vec<TcpListener>,
    pub(super) address: Address,
    pub(super) by_tls: bool,
    pub(super) by_proxy: bool,
    pub(super) outlives: bool,
    pub(super) file: Option<Arc<SocketFile>>,
}

impl BoundAddress {
    /// The URL, for clients.
    pub(super) fn url(&self) -> String {
        let proxied = proxied(self.by_proxy);
        match &self.address {
            Address::Tcp(address) if self.by_tls => format!("{proxied}https://{address}"),
            Address::Tcp(address) => format!("{proxied}http://{address}"),
            Address::Unix(_) => format!("{proxied}{}{}", tls_prefix(self.by_tls), self.address),
        }
    }
}

/// All addresses of this machine: those of IPv6 and IPv4 together, where the kernel has IPv6.
pub fn everywhere() -> IpAddr {
    let all = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let is_known = TcpListener::bind((all, 0)).is_ok();
    if is_known {
        all
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}

/// Accepted sockets inherit `TCP_NODELAY`.
fn listen(address: SocketAddr, shared: bool, v6_only: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // Of IPv4 too as a rule, also where net.ipv6.bindv6only says otherwise.
        socket.set_only_v6(v6_only)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
