//! Sockets and threads: the places where a server listens, and its start. Knows no key and no status.

mod acceptor;
mod connection;
mod connection_limit;
mod connections;
mod ending;
mod http1;
mod http2;
mod listen;
mod proxy_header;
mod raw_socket;
mod reactor;
mod socket;
mod socket_reader;
mod socket_writer;
mod takeover;
mod threads;
mod tls;

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::lifecycle::Draining;

pub use connection_limit::ConnectionLimit;
pub use connections::Limits;
pub use listen::{BadCount, Listen, ListenAddress, everywhere, inherited_fds};
#[cfg(any(test, fuzzing))]
pub use proxy_header::fuzz;
pub use reactor::ReactorConfig;
pub use tls::{ClientAuthority, ServerCertificates, Tls, TlsError, TlsOptions};

use listen::Listener;

/// How connections come to reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The acceptor hands each to a reactor, in turn.
    Acceptor,
    /// There is no acceptor: each reactor has a listener of its own, and the kernel chooses (`SO_REUSEPORT`), by a hash
    /// of the addresses and not evenly. A unix socket is shared: the first reactor that looks gets the connection.
    ReusePort,
}

/// The places where a server listens.
#[derive(Debug)]
pub struct Listeners {
    /// Each with one socket, or one for each reactor.
    places: Vec<(Listen, Vec<Listener>)>,
    dispatch: Dispatch,
}

impl Listeners {
    /// Listens at `all` these places, for this number of reactors; a failure names the place. On a socket that was
    /// passed not with [`Dispatch::ReusePort`], which takes several.
    pub fn bind(
        all: &[Listen],
        dispatch: Dispatch,
        reactors: usize,
    ) -> Result<Self, (Listen, io::Error)> {
        let shared = dispatch == Dispatch::ReusePort;
        let sockets = if shared { reactors } else { 1 };
        let bind = |at: &Listen| {
            at.bind(all, sockets, shared)
                .map_err(|why| (at.clone(), why))
        };
        let places = all.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { places, dispatch })
    }

    /// Where they listen.
    pub fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.places.iter().map(|(place, _)| &place.at)
    }

    /// The URL of each, for clients.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        self.places.iter().map(|(place, _)| place.url())
    }

    /// The URLs by which other machines reach the places that are on all addresses.
    pub fn urls_for_others(&self) -> impl Iterator<Item = String> {
        let places = self.places.iter();
        places.flat_map(|(place, _)| place.urls_for_others())
    }

    /// The sockets of all places, one share for each thread that accepts: the acceptor, or each reactor.
    fn into_shares(self) -> impl Iterator<Item = Vec<Listener>> {
        let places = self.places.into_iter();
        let mut places: Vec<_> = places.map(|(_, sockets)| sockets.into_iter()).collect();
        std::iter::from_fn(move || places.iter_mut().map(Iterator::next).collect())
    }
}

/// Starts the reactors. Each accepts for itself, or, where there are several, an acceptor for all of them.
/// Accepting ends, and the reactors drain, when `draining` asks.
pub fn start(
    listeners: Listeners,
    reactors: Vec<ReactorConfig>,
    max_connections: usize,
    most_of_one: Option<NonZeroU32>,
    draining: &Draining,
) -> io::Result<Arc<ConnectionLimit>> {
    let limit = ConnectionLimit::new(max_connections, most_of_one);
    match listeners.dispatch {
        Dispatch::Acceptor if reactors.len() > 1 => {
            let start = |config| threads::start(config, None, Arc::clone(&limit), draining.clone());
            let reactors = reactors.into_iter().map(start).collect::<io::Result<_>>()?;
            let all = listeners.into_shares().next().unwrap_or_default();
            threads::start_acceptor(all, Arc::clone(&limit), reactors, draining.clone())?;
        }
        Dispatch::Acceptor | Dispatch::ReusePort => {
            let mut pairs = reactors.into_iter().zip(listeners.into_shares());
            pairs.try_for_each(|(config, listeners)| {
                let limit = Arc::clone(&limit);
                threads::start(config, Some(listeners), limit, draining.clone()).map(drop)
            })?;
        }
    }
    Ok(limit)
}
