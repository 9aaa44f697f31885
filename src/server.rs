//! The server: binds everything, starts the threads, serves until it is told to end, drains in order.
//!
//! Three moments are kept apart: a [`Config`] is data; [`Server::bind`] owns the directory and the socket and knows its
//! address; [`Server::run`] serves. The caller owns signals and standard output.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;
use crate::drain::{self, Drain};
use crate::http::Service;
use crate::metrics::ReactorCounters;
use crate::net::{self, Listeners, Peers, Setup};
use crate::store::{Directory, OpenError};

/// How long the space of a large value that was removed by hand may stay taken.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be served.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The system refused something a server needs: a thread, a runtime, a signal handler.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl StartError {
    /// Whether another server has the directory.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Directory(OpenError::InUse { .. }))
    }
}

/// A server that owns its directory and its socket, and does not serve yet.
#[derive(Debug)]
pub struct Server {
    config: Config,
    store: Arc<Directory>,
    listeners: Listeners,
}

impl Server {
    /// Opens the directory and listens. Connections wait until [`Server::run`].
    pub fn bind(config: Config) -> Result<Self, StartError> {
        raise_descriptor_limit();
        let open = if config.rules.read_only {
            Directory::open_read_only
        } else {
            Directory::open
        };
        let store = Arc::new(open(&config.dir, config.store)?);
        let listeners =
            Listeners::bind(config.listen, config.dispatch, config.threads).map_err(|source| {
                StartError::Listen {
                    address: config.listen,
                    source,
                }
            })?;
        let address = listeners.local_addr();
        if !config.rules.read_only && !address.ip().is_loopback() {
            tracing::warn!("no authentication: anyone who reaches {address} can write and delete");
        }
        Ok(Self {
            config,
            store,
            listeners,
        })
    }

    /// Where it listens; the port is real, also when port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.listeners.local_addr()
    }

    /// Starts every thread; from when this returns, requests are answered.
    pub fn start(self) -> Result<Running, StartError> {
        let address = self.local_addr();
        let (drain, draining) = drain::channel();
        let cpus = if self.config.pin {
            allowed_cpus()
        } else {
            Vec::new()
        };
        let setup = |index: usize| Setup {
            index,
            service: Service::new(Arc::clone(&self.store), self.config.rules.clone(), index),
            limits: self.config.limits,
            counters: Arc::new(ReactorCounters::default()),
            cpu: cpus.get(index % cpus.len().max(1)).copied(),
        };
        let setups = (0..self.config.threads).map(setup).collect();
        let peers = Peers::new(self.config.max_connections_per_ip);
        let accepting = net::start(
            self.listeners,
            setups,
            self.config.max_connections,
            peers.clone(),
            &draining,
        )?;
        tracing::info!(address = %address, dir = %self.config.dir.display(), reactors = self.config.threads, "serving");
        Ok(Running {
            config: self.config,
            store: self.store,
            accepting,
            peers,
            drain,
        })
    }

    /// Serves until `shutdown` resolves, then drains; see [`Running::run`].
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), StartError> {
        self.start()?.run(shutdown).await;
        Ok(())
    }
}

/// A server that serves.
#[derive(Debug)]
pub struct Running {
    config: Config,
    store: Arc<Directory>,
    accepting: Option<net::Accepting>,
    peers: Peers,
    drain: Drain,
}

impl Running {
    /// Serves until `shutdown` resolves, then drains: accepts no more, closes idle connections, lets busy ones finish,
    /// and abandons what has not finished within the grace period.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            config,
            store,
            accepting,
            peers,
            mut drain,
        } = self;
        tokio::select! {
            () = shutdown => {}
            () = keep_house(&store) => {}
        }
        tracing::info!(grace_period = ?config.grace_period, "draining");
        drain.ask();
        drop(accepting);
        if tokio::time::timeout(config.grace_period, drain.finished())
            .await
            .is_err()
        {
            drain.abandon();
            drain.finished().await;
        }
        drop(store);
        tracing::info!(refused = peers.refused(), "drained");
    }
}

/// Does for ever what the store wants done from time to time.
async fn keep_house(store: &Directory) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        store.sweep().await;
    }
}

/// Raises the soft limit on descriptors to the hard one: each connection and each open value needs one.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    ) {
        tracing::warn!(%error, "cannot raise the limit on descriptors");
    }
}

fn allowed_cpus() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
        Err(_) => Vec::new(),
    }
}
