//! Places to listen: addresses, unix sockets, and sockets that were open when the process began, as a service manager
//! passes them (`sd_listen_fds(3)`).
//!
//! Owns the files of unix sockets. Promises that a file which a dead server left is replaced, that one which a server
//! listens on, or which is no socket, is refused, and that a server removes its own file alone. Does not accept.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::RawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use if_addrs::Interface;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::http::Door;

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// The first descriptor that is passed.
const FIRST_PASSED: RawFd = 3;

/// More sockets than this are passed by mistake.
const MOST_PASSED: RawFd = 1 << 10;

/// Where to listen, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub at: ListenAddress,
    /// Connections are encrypted, by TLS.
    pub by_tls: bool,
    /// Connections come by a proxy, and begin with a header of the PROXY protocol.
    pub by_proxy: bool,
    /// What is spoken there.
    pub door: Door,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// On this address.
    Address(SocketAddr),
    /// On a unix socket of this path.
    Unix(PathBuf),
    /// On the socket that was passed as this descriptor; it goes on listening when this process has ended.
    Fd(RawFd),
}

impl Listen {
    /// Listens at `at`, without TLS and without a proxy.
    pub fn in_the_clear(at: ListenAddress) -> Self {
        Self {
            at,
            by_tls: false,
            by_proxy: false,
            door: Door::Plain,
        }
    }

    /// True when other machines may reach it. A socket that is no listener is none that they reach; to bind it fails.
    pub fn is_exposed(&self) -> bool {
        let bound = match self.at {
            ListenAddress::Fd(fd) => {
                passed_listener(fd).and_then(|socket| ListenAddress::of(&socket))
            }
            _ => Ok(self.at.clone()),
        };
        bound.is_ok_and(|at| matches!(at, ListenAddress::Address(_)) && !at.is_loopback())
    }

    /// True when another listener of `all` has all IPv4 addresses on this port: this one then has the IPv6 addresses
    /// alone.
    fn leaves_v4(&self, all: &[Self]) -> bool {
        let port = match &self.at {
            ListenAddress::Address(address) if address.port() != 0 => address.port(),
            _ => return false,
        };
        let v4 = ListenAddress::Address((Ipv4Addr::UNSPECIFIED, port).into());
        all.iter().any(|other| other.at == v4)
    }

    /// Listens, one place of `all`, on as many sockets as are accepted from each by its own; `shared` when those of one
    /// address are several. Returns the place with its real port, or its path, and the sockets.
    pub(super) fn bind(
        &self,
        all: &[Self],
        sockets: usize,
        shared: bool,
    ) -> io::Result<(Self, Vec<Listener>)> {
        let v6_only = self.leaves_v4(all);
        let (first, file) = match &self.at {
            &ListenAddress::Address(address) => {
                if shared {
                    // A server of another directory would share its clients, without a word of the kernel.
                    drop(listen(address, false, v6_only)?);
                }
                (listen(address, shared, v6_only)?, None)
            }
            ListenAddress::Unix(path) => {
                let (socket, file) = listen_unix(path)?;
                (socket, Some(Arc::new(file)))
            }
            &ListenAddress::Fd(fd) => (passed_listener(fd)?, None),
        };
        let at = ListenAddress::of(&first)?;
        let another = |_| match at {
            // The port that was picked, if it was 0.
            ListenAddress::Address(address) => listen(address, shared, v6_only),
            _ => first.try_clone(),
        };
        let others = (1..sockets).map(another).collect::<io::Result<Vec<_>>>()?;
        let properties = Properties {
            file,
            outlives: matches!(self.at, ListenAddress::Fd(_)),
            by_loopback: at.is_loopback(),
            by_tls: self.by_tls,
            by_proxy: self.by_proxy,
            door: self.door,
        };
        let sockets = std::iter::once(first).chain(others);
        let listeners = sockets.map(|socket| Listener {
            properties: properties.clone(),
            socket,
        });
        let listeners = listeners.collect();
        Ok((Self { at, ..*self }, listeners))
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        self.written("http://")
    }

    /// The URLs by which other machines reach a place that is on all addresses: one for each that an interface has, but
    /// for those that no other machine can use. Asks the kernel, and no other machine.
    pub fn urls_for_others(&self) -> Vec<String> {
        let ListenAddress::Address(everywhere) = self.at else {
            return Vec::new();
        };
        if !everywhere.ip().is_unspecified() {
            return Vec::new();
        }
        let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
        let addresses = interfaces.iter().filter(|it| !it.is_loopback());
        let addresses = addresses
            .filter(|it| !it.is_link_local())
            .map(Interface::ip);
        // A place of all IPv6 addresses has those of IPv4 too.
        let is_in = |ip: &IpAddr| everywhere.is_ipv6() || ip.is_ipv4();
        let url = |ip| {
            let at = ListenAddress::Address(SocketAddr::new(ip, everywhere.port()));
            Self { at, ..*self }.url()
        };
        addresses.filter(is_in).map(url).collect()
    }

    /// The place behind what is spoken there; an address without TLS is behind `clear`.
    fn written(&self, clear: &str) -> String {
        let proxied = if self.by_proxy { "proxy+" } else { "" };
        let (door, clear) = match self.door.word() {
            "" => ("", clear),
            word => (word, "http://"),
        };
        let scheme = match (&self.at, self.by_tls) {
            (ListenAddress::Address(_), true) => "https://",
            (ListenAddress::Address(_), false) => clear,
            (_, true) => "https+",
            (_, false) => "",
        };
        format!("{proxied}{door}{scheme}{}", self.at)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(""))
    }
}

impl ListenAddress {
    /// Where `socket` listens: at the real port, or at a path, which begins with `@` where it is an abstract name.
    fn of(socket: &TcpListener) -> io::Result<Self> {
        let address = SockRef::from(socket).local_addr()?;
        Ok(match address.as_socket() {
            Some(address) => Self::Address(address),
            None => Self::Unix(unix_path(&address)),
        })
    }

    /// True when only the loopback network's names reach it. The client of a unix socket may have any name for it: none
    /// is a browser.
    fn is_loopback(&self) -> bool {
        matches!(self, Self::Address(address) if address.ip().to_canonical().is_loopback())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Fd(fd) => write!(f, "fd:{fd}"),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    // Dropped first: the file of a unix socket goes before the socket does.
    pub(super) properties: Properties,
    // A TcpListener is what owns any listening socket here, a unix socket too: nothing asks it for addresses.
    pub(super) socket: TcpListener,
}

/// The properties of a listening socket.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    pub(super) file: Option<Arc<SocketFile>>,
    /// It goes on listening when this process has ended.
    pub(super) outlives: bool,
    pub(super) by_loopback: bool,
    /// Its connections are encrypted.
    pub(super) by_tls: bool,
    /// Its connections begin with a header of the PROXY protocol.
    pub(super) by_proxy: bool,
    pub(super) door: Door,
}

/// All addresses of this machine: IPv6 and IPv4 together, where the kernel has IPv6.
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

/// The file of a socket that this process listens on, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: another server may have taken the name since.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            // A file that stays behind is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The path of a unix socket's address; an abstract name begins with `@`, and what has no name is `@` alone.
fn unix_path(address: &SockAddr) -> PathBuf {
    let name = || {
        let name = address.as_abstract_namespace().unwrap_or_default();
        format!("@{}", String::from_utf8_lossy(name)).into()
    };
    address.as_pathname().map_or_else(name, Path::to_owned)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Listens at `path`. The mode of the file is what the umask leaves of 0777: by the usual one its user alone can
/// connect.
fn listen_unix(path: &Path) -> io::Result<(TcpListener, SocketFile)> {
    let address = SockAddr::unix(path)?;
    let socket = unix_stream()?;
    match socket.bind(&address) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path, &address)?;
            socket.bind(&address)?;
        }
        bound => bound?,
    }
    let file = SocketFile {
        path: path.to_owned(),
        identity: identity(path)?,
    };
    socket.listen(BACKLOG)?;
    Ok((socket.into(), file))
}

fn unix_stream() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Removes the file at `path` if it is a socket on which no process listens.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        let why = "there is a file, and it is no socket";
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    match unix_stream()?.connect(address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        // Also one whose queue is full.
        _ => {
            let why = "another process listens there";
            Err(io::Error::new(ErrorKind::AddrInUse, why))
        }
    }
}

/// A value of `LISTEN_FDS` that is no number of sockets.
#[derive(Debug, thiserror::Error)]
#[error("LISTEN_FDS passes sockets to this process, and is no number of them: {0:?}")]
pub struct BadCount(String);

/// The descriptors that the environment passes to this process, if it does.
pub fn inherited_fds() -> Result<Range<RawFd>, BadCount> {
    let variable = |name| std::env::var(name).ok();
    let own = std::process::id();
    let count = passed_count(own, variable("LISTEN_PID"), variable("LISTEN_FDS"))?;
    Ok(FIRST_PASSED..FIRST_PASSED + count)
}

/// The count of passed descriptors; 0 where they are another process's.
fn passed_count(own: u32, pid: Option<String>, count: Option<String>) -> Result<RawFd, BadCount> {
    let is_own = pid.and_then(|pid| pid.parse().ok()) == Some(own);
    let Some(count) = count.filter(|_| is_own) else {
        return Ok(0);
    };
    let number = count
        .parse()
        .ok()
        .filter(|number| (0..=MOST_PASSED).contains(number));
    number.ok_or(BadCount(count))
}

/// The socket that listens as `fd`. The process that passed it keeps it: clients that connect while no process accepts
/// wait in its queue.
fn passed_listener(fd: RawFd) -> io::Result<TcpListener> {
    // A number cannot be owned safely. The kernel's duplicate of it can, and serves the same socket.
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let socket = Socket::from(pidfd_getfd(own, fd, PidfdGetfdFlags::empty())?);
    let address = socket.local_addr()?;
    let is_stream =
        socket.r#type()? == Type::STREAM && (address.is_unix() || address.as_socket().is_some());
    if !is_stream || !socket.is_listener()? {
        let why = "it is not a TCP or unix socket that listens";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    if !address.is_unix() {
        socket.set_tcp_nodelay(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_that_another_server_made_meanwhile_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (first, first_file) = listen_unix(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (_second, second_file) = listen_unix(&path).unwrap();
        drop((first_file, first));
        assert!(path.exists());
        drop(second_file);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_is_passed_to_the_process_that_is_named_alone() {
        for (pid, count, expected) in [
            ("7", "1", Some(1)),
            ("7", "2", Some(2)),
            ("7", "0", Some(0)),
            ("8", "1", Some(0)),
            ("8", "x", Some(0)),
            ("", "1", Some(0)),
            ("7", "", Some(0)),
            ("7", "9999", None),
            ("7", "-1", None),
            ("7", "x", None),
        ] {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let found = passed_count(7, given(pid), given(count)).ok();
            assert_eq!(found, expected, "{pid} {count}");
        }
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let bound = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(passed_listener(file.as_raw_fd()).is_err());
        assert!(passed_listener(bound.as_raw_fd()).is_err());
        assert!(passed_listener(1 << 20).is_err());
        let own = passed_listener(listening.as_raw_fd()).unwrap();
        assert_eq!(own.local_addr().unwrap(), listening.local_addr().unwrap());
    }

    #[test]
    fn others_reach_a_place_on_all_addresses_by_those_of_the_interfaces() {
        let urls = |at: &str| {
            let at = ListenAddress::Address(at.parse().unwrap());
            Listen::in_the_clear(at).urls_for_others()
        };
        assert!(urls("127.0.0.1:80").is_empty() && urls("192.0.2.1:80").is_empty());
        let (of_v4, all) = (urls("0.0.0.0:81"), urls("[::]:81"));
        let interfaces = if_addrs::get_if_addrs().unwrap();
        for it in interfaces {
            let url = format!("http://{}", SocketAddr::new(it.ip(), 81));
            let is_for_others = !it.is_loopback() && !it.is_link_local();
            assert_eq!(all.contains(&url), is_for_others, "{url}");
            assert_eq!(
                of_v4.contains(&url),
                is_for_others && it.ip().is_ipv4(),
                "{url}"
            );
        }
    }
}
