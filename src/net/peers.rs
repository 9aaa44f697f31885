//! How many connections each client has open, where `--max-connections-per-ip` bounds that.
//!
//! A client is an IPv4 address or an IPv6 network of 64 bits, which is what one customer gets, or the user of processes
//! that connect to a unix socket. One over the bound is
//! closed at once: an answer would cost what the bound is there to save. Only clients with open connections are
//! remembered, so the table is never longer than the connections are many. Without a bound there is no table.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::access::Source;
use crate::http::Peer;

/// The log has a line about refused connections at most this often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The clients that have connections open. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Peers(Option<Arc<Bounded>>);

#[derive(Debug)]
struct Bounded {
    max: NonZeroU32,
    open: Mutex<HashMap<Source, u32>>,
    refused: AtomicU64,
    logged: Mutex<Logged>,
}

/// When the log last told of refused connections, and how many there had been.
#[derive(Debug, Default)]
struct Logged {
    at: Option<Instant>,
    refused: u64,
}

/// One connection of a client, until it is dropped.
#[derive(Debug)]
pub(super) struct PeerPermit(Option<(Arc<Bounded>, Source)>);

impl Peers {
    /// With at most `max` connections of each client, if there is a bound.
    pub fn new(max: Option<NonZeroU32>) -> Self {
        Self(max.map(|max| {
            Arc::new(Bounded {
                max,
                open: Mutex::default(),
                refused: AtomicU64::new(0),
                logged: Mutex::default(),
            })
        }))
    }

    /// Counts a connection of `peer`, or refuses it.
    pub(super) fn admit(&self, peer: Peer) -> Option<PeerPermit> {
        let Some(bounded) = &self.0 else {
            return Some(PeerPermit(None));
        };
        let client = peer.source();
        if bounded.enter(client) {
            return Some(PeerPermit(Some((Arc::clone(bounded), client))));
        }
        bounded.refuse(peer);
        None
    }

    /// Connections refused so far.
    pub fn refused(&self) -> u64 {
        let refused = |bounded: &Arc<Bounded>| bounded.refused.load(Ordering::Relaxed);
        self.0.as_ref().map_or(0, refused)
    }
}

impl Bounded {
    fn open(&self) -> MutexGuard<'_, HashMap<Source, u32>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, client: Source) -> bool {
        let mut open = self.open();
        let connections = open.entry(client).or_insert(0);
        let enters = *connections < self.max.get();
        *connections += u32::from(enters);
        enters
    }

    fn leave(&self, client: Source) {
        let mut open = self.open();
        if let Some(connections) = open.get_mut(&client) {
            *connections -= 1;
            if *connections == 0 {
                open.remove(&client);
            }
        }
    }

    fn refuse(&self, peer: Peer) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            let since = refused.saturating_sub(logged.refused);
            let address = match peer {
                Peer::Address(address) => address.ip().to_string(),
                Peer::Process { .. } => peer.to_string(),
            };
            tracing::warn!(
                address,
                max = self.max,
                refused = since,
                "too many connections from one address"
            );
            *logged = Logged {
                at: Some(Instant::now()),
                refused,
            };
        }
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        if let Some((bounded, client)) = &self.0 {
            bounded.leave(*client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(max: u32) -> Peers {
        Peers::new(NonZeroU32::new(max))
    }

    fn address(text: &str) -> Peer {
        Peer::Address((text.parse::<std::net::IpAddr>().unwrap(), 1).into())
    }

    #[test]
    fn a_client_over_the_bound_is_refused_until_one_of_its_connections_ends() {
        let peers = peers(2);
        let first = peers.admit(address("192.0.2.1")).unwrap();
        let _second = peers.admit(address("192.0.2.1")).unwrap();
        assert!(peers.admit(address("192.0.2.1")).is_none());
        assert!(peers.admit(address("::ffff:192.0.2.1")).is_none());
        assert!(peers.admit(address("192.0.2.2")).is_some());
        drop(first);
        assert!(peers.admit(address("192.0.2.1")).is_some());
        assert_eq!(peers.refused(), 2);
    }

    #[test]
    fn ipv6_is_counted_by_networks_of_64_bits() {
        let peers = peers(1);
        let _permit = peers.admit(address("2001:db8::1")).unwrap();
        assert!(peers.admit(address("2001:db8::ffff:0:0:1")).is_none());
        assert!(peers.admit(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn processes_are_counted_by_user() {
        let peers = peers(1);
        let process = |uid, pid| Peer::Process { uid, pid };
        let _permit = peers.admit(process(1, 10)).unwrap();
        assert!(peers.admit(process(1, 11)).is_none());
        assert!(peers.admit(process(2, 10)).is_some());
    }

    #[test]
    fn only_clients_with_open_connections_are_remembered() {
        let peers = peers(1);
        for host in 0..=255 {
            let peer = Peer::Address(([192, 0, 2, host], 1).into());
            let permit = peers.admit(peer).unwrap();
            assert!(peers.admit(peer).is_none());
            drop(permit);
        }
        assert!(peers.0.unwrap().open().is_empty());
    }

    #[test]
    fn without_a_bound_nobody_is_refused_or_remembered() {
        let peers = Peers::default();
        let permits: Vec<_> = (0..1000)
            .map(|_| peers.admit(address("192.0.2.1")))
            .collect();
        assert!(permits.iter().all(Option::is_some));
    }
}
