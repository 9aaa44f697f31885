//! A reactor, as its connections see it: what they share on its thread.

use std::cell::Cell;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;

use hyper::server::conn::http1;

use super::connections::Connections;
use super::socket::{Socket, TlsSession};
use super::timeouts::Limits;
use super::tls::Tls;
use crate::http::{Client, Service};
use crate::metrics::{ReactorCounters, TimeLimit};

/// So many connections of a reactor keep hyper and its buffers, of 16 KiB each, between requests; others give them back at
/// once.
const MOST_WARM: usize = 256;

/// Where HTTP/2 is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2 {
    /// Over TLS, with clients that offer it.
    TlsOnly,
    /// In the clear too, with clients that begin with it.
    Everywhere,
}

/// A reactor.
pub(super) struct Reactor {
    service: Rc<Service>,
    protocol: http1::Builder,
    http2: Http2,
    connections: Connections,
    /// The TLS of the connections that have it.
    tls: Option<Arc<Tls>>,
    /// Connections that have hyper at the moment.
    warm: Cell<usize>,
    counters: Arc<ReactorCounters>,
}

impl Reactor {
    pub(super) fn new(
        service: Service,
        protocol: http1::Builder,
        http2: Http2,
        limits: Limits,
        tls: Option<Arc<Tls>>,
        counters: Arc<ReactorCounters>,
    ) -> Self {
        Self {
            service: Rc::new(service),
            protocol,
            http2,
            connections: Connections::new(limits),
            tls,
            warm: Cell::new(0),
            counters,
        }
    }

    pub(super) fn service(&self) -> &Rc<Service> {
        &self.service
    }

    pub(super) fn protocol(&self) -> &http1::Builder {
        &self.protocol
    }

    pub(super) fn http2(&self) -> Http2 {
        self.http2
    }

    /// The socket of a new connection of `client`; `None` when it should be encrypted and cannot be.
    pub(super) fn accept(&self, socket: TcpStream, client: Client) -> Option<Socket> {
        if !client.by_tls {
            return Some(Socket::new(socket, None));
        }
        match TlsSession::new(self.tls.as_ref()?.current()) {
            Ok(session) => Some(Socket::new(socket, Some(session))),
            Err(error) => {
                tracing::warn!(%error, "cannot begin a handshake");
                None
            }
        }
    }

    /// Counts a connection that has hyper, as long as the guard lives.
    pub(super) fn warm(&self) -> Warm<'_> {
        self.warm.set(self.warm.get() + 1);
        Warm(&self.warm)
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Tells the operator that `client` was over a limit.
    pub(super) fn exceeds(&self, limit: TimeLimit, client: Client) {
        self.counters.exceeds(limit);
        let (_, option) = TimeLimit::ALL[limit as usize];
        tracing::info!(peer = %client.peer, limit = option, "a client was too slow");
    }

    pub(super) fn counters(&self) -> &Arc<ReactorCounters> {
        &self.counters
    }
}

/// A connection that has hyper.
pub(super) struct Warm<'a>(&'a Cell<usize>);

impl Warm<'_> {
    /// Whether it may keep hyper between requests.
    pub(super) fn may_stay(&self) -> bool {
        self.0.get() <= MOST_WARM
    }
}

impl Drop for Warm<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
