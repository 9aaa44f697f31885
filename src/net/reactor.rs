//! A reactor, as its connections see it, and the context of each of them.
//!
//! A [`Reactor`] has the service, the protocol's settings, the limits and the counters that its connections share on
//! its thread. A [`ConnectionContext`] is passed to every owner of a socket in turn: the loop of the connection, hyper,
//! and the takeover. Does not start the thread.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::server::conn::http1;
use tokio::sync::Semaphore;

use super::connection_limit::ConnectionLimit;
use super::connections::{Connections, Entered, Limits};
use super::socket::{Socket, TlsSession};
use super::tls::Tls;
use crate::http::{
    Client, Dispatcher, Ends, Exceeded, Exchange, MAX_HEAD, ServiceBuilder, Upgrade,
};
use crate::metrics::{ReactorCounters, TimeLimit};

/// The connections of a reactor that keep hyper and its buffers, of 16 KiB each, between requests; further ones give
/// them back at once.
const MOST_BUFFERED: usize = 256;

/// The most that is read at a time for a connection without buffers, in bytes.
const IDLE_READ: usize = 8 << 10;

thread_local! {
    /// The memory that connections without buffers are read into, on their reactor's thread: [`IDLE_READ`] bytes.
    static RECEIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The parts of a reactor.
pub struct ReactorConfig {
    /// Its number, from 0.
    pub index: usize,
    /// Its thread's name.
    pub name: String,
    /// The service that answers requests.
    pub service: ServiceBuilder,
    /// How long peers may take.
    pub limits: Limits,
    /// HTTP/2 is spoken in the clear too, with clients that begin with it.
    pub http2_clear: bool,
    /// Requests of HTTP/2 at once beside the first of each connection. All reactors share them: each request may hold a
    /// file.
    pub streams: Arc<Semaphore>,
    /// The TLS of the connections that have it.
    pub tls: Option<Arc<Tls>>,
    /// Its counters.
    pub counters: Arc<ReactorCounters>,
    /// The only CPU it may run on, if any.
    pub cpu: Option<usize>,
}

/// A reactor.
pub(super) struct Reactor {
    pub(super) service: Rc<Dispatcher>,
    /// The settings of hyper, the same for all connections.
    pub(super) protocol: http1::Builder,
    pub(super) http2_clear: bool,
    pub(super) streams: Arc<Semaphore>,
    pub(super) connections: Connections,
    /// The limit of open connections, which its watchers count against too.
    pub(super) limit: Arc<ConnectionLimit>,
    /// The TLS of the connections that have it.
    tls: Option<Arc<Tls>>,
    /// Connections that have hyper and its buffers at the moment.
    buffered: Cell<usize>,
    pub(super) counters: Arc<ReactorCounters>,
}

impl Reactor {
    pub(super) fn new(config: ReactorConfig, limit: Arc<ConnectionLimit>) -> Self {
        let mut protocol = http1::Builder::new();
        // The sweep keeps all time limits, this one among them: hyper would need a timer for each request.
        protocol
            .header_read_timeout(None)
            .half_close(true)
            .max_header_size(MAX_HEAD)
            // The most that hyper may hold of a request that is being received.
            .max_buf_size(config.service.store.receive_buffer());
        Self {
            protocol,
            service: Rc::new(config.service.build()),
            http2_clear: config.http2_clear,
            streams: config.streams,
            connections: Connections::new(config.limits),
            limit,
            tls: config.tls,
            buffered: Cell::new(0),
            counters: config.counters,
        }
    }

    /// The socket of a new connection of `client`; `None` when it should be encrypted and cannot be.
    pub(super) fn accept(&self, socket: TcpStream, client: Client) -> Option<Socket> {
        if !client.by_tls {
            return Some(Socket::new(socket, None, &self.counters));
        }
        let session = TlsSession::new(self.tls.as_ref()?.current())
            .inspect_err(|error| tracing::warn!(%error, "cannot begin a handshake"));
        Some(Socket::new(socket, Some(session.ok()?), &self.counters))
    }

    /// Counts a connection that has hyper, as long as the guard lives.
    pub(super) fn take_buffers(&self) -> Buffers<'_> {
        self.buffered.set(self.buffered.get() + 1);
        Buffers(&self.buffered)
    }

    /// True where the `client` of `exchange` is over a limit with a body and is to be cut. One that still reads gets
    /// its response first.
    pub(super) fn gives_up(&self, exchange: &Exchange, client: Client) -> bool {
        match exchange.exceeded() {
            Exceeded::Once(limit) if !exchange.progress.given_up.get() => {
                self.exceeds(limit, client);
                !exchange.give_up_body()
            }
            exceeded => exceeded == Exceeded::Again,
        }
    }

    /// Counts and logs that `client` was over a limit.
    pub(super) fn exceeds(&self, limit: TimeLimit, client: Client) {
        self.counters.time_limits[limit as usize].add(1);
        let option = TimeLimit::LABEL.1[limit as usize];
        let message = "a client was too slow";
        if let Some(left_out) = self.service.shared.throttle.pass(message) {
            tracing::info!(peer = %client.peer, limit = option, left_out, "{message}");
        }
    }
}

/// Counts one connection that has hyper, until it is dropped.
pub(super) struct Buffers<'a>(&'a Cell<usize>);

impl Buffers<'_> {
    /// True when the connection may keep hyper between requests.
    pub(super) fn may_be_kept(&self) -> bool {
        self.0.get() <= MOST_BUFFERED
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The error that broke a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] hyper::Error),
    #[error("{0}")]
    Http2(#[from] h2::Error),
    #[error("{0}")]
    Cut(#[from] Cut),
}

/// The server ends a connection at once: nothing more is sent or read.
#[derive(Debug, thiserror::Error)]
#[error("the server cuts it")]
pub(super) struct Cut;

/// The context of one connection.
pub(super) struct ConnectionContext<'a> {
    pub(super) client: Client,
    pub(super) reactor: &'a Rc<Reactor>,
    pub(super) exchange: Rc<Exchange>,
    pub(super) socket: Rc<Socket>,
    pub(super) entered: Entered<'a>,
    pub(super) upgrade: Rc<Upgrade>,
}

impl<'a> ConnectionContext<'a> {
    /// The context of a new connection.
    pub(super) fn new(socket: Socket, client: Client, reactor: &'a Rc<Reactor>) -> Self {
        Self {
            client,
            reactor,
            entered: reactor.connections.add(&socket.exchange, None),
            upgrade: Rc::default(),
            exchange: Rc::clone(&socket.exchange),
            socket: Rc::new(socket),
        }
    }

    /// Begins a turn: the connection is woken for the next one when something is asked of it. Does what is asked as far
    /// as it is the same in every state.
    pub(super) fn begin_turn(&self, cx: &Context<'_>) -> Result<(), Cut> {
        self.socket.begin_turn();
        self.exchange.register(cx);
        if self.reactor.gives_up(&self.exchange, self.client) {
            self.socket.raw.reset_when_dropped(true);
            return Err(Cut);
        }
        match self.ends() {
            Ends::Abandon => Err(Cut),
            _ => Ok(()),
        }
    }

    /// Waits for `polled`, turn by turn, as long as the connection is not cut.
    pub(super) async fn follow<T>(
        &self,
        mut polled: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Result<T, ConnectionError> {
        poll_fn(|cx| {
            self.begin_turn(cx)?;
            polled(cx).map_err(ConnectionError::from)
        })
        .await
    }

    /// How far the connection was asked to end.
    pub(super) fn ends(&self) -> Ends {
        self.exchange.connection().ends()
    }

    /// True where it ends as soon as no request is under way.
    pub(super) fn is_finishing(&self) -> bool {
        self.ends() >= Ends::Finish
    }

    /// True where it is finishing and no request has arrived that the reactor does not know of yet.
    pub(super) fn may_end(&self) -> bool {
        self.is_finishing() && !self.socket.raw.has_unread()
    }

    /// Reads what has arrived while the connection holds no buffer, and passes it to `take`: how many bytes, 0 at the
    /// end of the stream.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        RECEIVED.with_borrow_mut(|received| {
            received.resize(IDLE_READ, 0);
            let len = ready!(self.socket.poll_receive(cx, received))?;
            self.exchange.received(len);
            take(&received[..len]);
            Poll::Ready(Ok(len))
        })
    }
}
