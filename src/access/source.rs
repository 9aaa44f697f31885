//! What one client is known by, whatever connections it has.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// One client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// An IPv4 address, or an IPv6 network of 64 bits, which is what one customer gets.
    Network(IpAddr),
    /// The user of processes that connect to a unix socket.
    User(u32),
}

impl Source {
    /// The one that connects from `address`.
    pub fn of(address: IpAddr) -> Self {
        Self::Network(match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = u128::from(v6) & !u128::from(u64::MAX);
                Ipv6Addr::from(network).into()
            }
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => write!(f, "network {network}"),
            Self::User(uid) => write!(f, "user {uid}"),
        }
    }
}
