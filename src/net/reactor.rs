//! A reactor, as its connections see it: the service, the protocol's settings, the limits and the counters that they share on
//! its thread. Does not start the thread.

use std::cell::Cell;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;

use hyper::server::conn::http1;

use super::connections::Connections;
use super::socket::{Socket, TlsSession};
use super::timeouts::Limits;
use super::tls::Tls;
use crate::http::{Client, MAX_HEAD, Service, ServiceBuilder};
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

/// The parts of a reactor.
#[derive(Debug)]
pub struct ReactorConfig {
    /// Its number, from 0.
    pub index: usize,
    /// Its thread's name.
    pub name: String,
    /// The service that answers requests.
    pub service: ServiceBuilder,
    /// How long peers may take.
    pub limits: Limits,
    /// Where HTTP/2 is spoken.
    pub http2: Http2,
    /// The TLS of the connections that have it.
    pub tls: Option<Arc<Tls>>,
    /// Where it counts.
    pub counters: Arc<ReactorCounters>,
    /// The only CPU it may run on, if any.
    pub cpu: Option<usize>,
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
    pub(super) fn new(config: ReactorConfig) -> Self {
        Self {
            protocol: protocol(config.service.store.receive_buffer()),
            service: Rc::new(config.service.build()),
            http2: config.http2,
            connections: Connections::new(config.limits),
            tls: config.tls,
            warm: Cell::new(0),
            counters: config.counters,
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
    pub(super) fn warm(&self) -> BufferSlot<'_> {
        self.warm.set(self.warm.get() + 1);
        BufferSlot(&self.warm)
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

/// The protocol's settings, the same for all connections. hyper holds up to `receive_buffer` bytes of a request that is being
/// received.
fn protocol(receive_buffer: usize) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    // The sweep keeps all time limits, this one among them: hyper would need a timer for each request.
    protocol
        .header_read_timeout(None)
        .half_close(true)
        .max_header_size(MAX_HEAD)
        .max_buf_size(receive_buffer);
    protocol
}

/// A connection that has hyper.
pub(super) struct BufferSlot<'a>(&'a Cell<usize>);

impl BufferSlot<'_> {
    /// Whether it may keep hyper between requests.
    pub(super) fn may_keep_buffers(&self) -> bool {
        self.0.get() <= MOST_WARM
    }
}

impl Drop for BufferSlot<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
