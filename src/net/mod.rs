//! Sockets and threads. Knows no key and no status.

mod acceptor;
mod closing;
mod connection;
mod connection_context;
mod connection_limit;
mod connections;
mod http1;
mod http2;
mod hyper_io;
mod idle_read;
mod listen;
mod peers;
mod proxy_header;
mod raw_socket;
mod reactor;
mod socket;
mod socket_reader;
mod socket_writer;
mod splice;
mod takeover;
mod threads;
mod timeouts;
mod tls;
mod tls_records;

use std::io;
use std::sync::Arc;

use crate::drain::Draining;

pub use listen::{Address, At, BadCount, Dispatch, Listen, Listeners, everywhere, inherited_fds};
pub use peers::Peers;
#[cfg(any(test, fuzzing))]
pub use proxy_header::fuzz;
pub use reactor::{Http2, ReactorConfig};
pub use timeouts::{Limits, RATE_WINDOW};
pub use tls::{ClientAuthority, Identity, Tls, TlsError, TlsOptions};

use connection_limit::ConnectionLimit;
use listen::Listener;

/// Connections that an [`AdminListener`] may have open.
const ADMIN_CONNECTIONS: usize = 256;

/// A listener with a reactor of its own, beside those of a server: for what must be answered while they are busy.
#[derive(Debug)]
pub struct AdminListener {
    listener: Listener,
    url: String,
}

impl AdminListener {
    /// Listens there.
    pub fn bind(at: &Listen) -> io::Result<Self> {
        let (listener, url) = Listener::bind(at)?;
        Ok(Self { listener, url })
    }

    /// The URL, for clients.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Starts its reactor, which ends when `draining` asks.
    pub fn start(self, reactor: ReactorConfig, draining: Draining) -> io::Result<()> {
        let limit = ConnectionLimit::new(ADMIN_CONNECTIONS, Peers::default());
        threads::start_accepting(reactor, vec![self.listener], limit, draining)
    }
}

/// Starts the reactors, and what accepts for them: each for itself, or the acceptor for all where there are several.
/// Accepting ends, and the reactors drain, when `draining` asks.
pub fn start(
    listeners: Listeners,
    reactors: Vec<ReactorConfig>,
    max_connections: usize,
    peers: Peers,
    draining: &Draining,
) -> io::Result<()> {
    let limit = ConnectionLimit::new(max_connections, peers);
    match listeners.dispatch() {
        Dispatch::Acceptor if reactors.len() > 1 => {
            let reactors = reactors.into_iter();
            let reactors = reactors
                .map(|config| threads::start(config, Arc::clone(&limit), draining.clone()))
                .collect::<io::Result<_>>()?;
            let all = listeners.into_shares().next().unwrap_or_default();
            threads::start_acceptor(all, limit, reactors, draining.clone())
        }
        Dispatch::Acceptor | Dispatch::ReusePort => {
            let mut pairs = reactors.into_iter().zip(listeners.into_shares());
            pairs.try_for_each(|(config, listeners)| {
                let limit = Arc::clone(&limit);
                threads::start_accepting(config, listeners, limit, draining.clone())
            })
        }
    }
}
