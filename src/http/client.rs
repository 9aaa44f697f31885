//! Who asks: what is the same for all requests of a connection, but where its peer is a proxy that asks for several.

use std::fmt;
use std::net::SocketAddr;

use crate::access::Source;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// By TCP, from this address; where only a proxy knows the port, that is 0.
    Address(SocketAddr),
    /// By a unix socket: a process of this machine, as the kernel knew it when it connected.
    Process {
        /// Its user.
        uid: u32,
        /// Its number.
        pid: i32,
    },
}

impl Peer {
    /// Which client it is, whatever connections that has.
    pub fn source(&self) -> Source {
        match self {
            Self::Address(address) => Source::of(address.ip()),
            Self::Process { uid, .. } => Source::User(*uid),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) if address.port() == 0 => address.ip().fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Process { uid, pid } => write!(f, "unix:uid={uid},pid={pid}"),
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The other end, or the one that this asks for.
    pub peer: Peer,
    /// The connection came by a listener on the loopback network, which the names of that network reach.
    pub by_loopback: bool,
    /// What is sent on the connection is sealed, by TLS.
    pub by_tls: bool,
    /// The version of TLS, once both sides have agreed on one.
    pub tls_version: Option<&'static str>,
}
