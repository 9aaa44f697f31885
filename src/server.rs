//! The server: binds everything, starts the threads, serves until it is told to end, drains in order.
//!
//! Its states are types: a [`Config`] is data, a [`Server`] owns the directory and the socket and knows its address, and
//! [`Running`] has every thread and serves until it is told to end. The caller owns signals and standard output.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{Config, ListenConfig, TooFew};
use crate::cpus::Cpus;
use crate::drain::{self, Drain};
use crate::http::{Admin, Routes, ServiceBuilder};
use crate::metrics::ReactorCounters;
use crate::net::{self, AdminListener, Listen, Listeners, Peers, ReactorConfig};
use crate::store::{self, OpenError, Store};

/// How long the space of a large value that was removed by hand may stay taken.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// How long clients have to send one more request where another process takes the listening socket over. A client that
/// sends a request while the server closes its idle connection cannot know whether the request was read; a client that
/// sends one within this time never meets that.
const LAME_DUCK: Duration = Duration::from_millis(500);

/// How long the thread of the admin pages has to finish, once the others have.
const ADMIN_GRACE: Duration = Duration::from_secs(1);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be served.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The limit on descriptors is too low.
    #[error(transparent)]
    Descriptors(#[from] TooFew),
    /// The address cannot be listened on.
    #[error("cannot listen on {at}: {source}")]
    Listen {
        /// The address.
        at: Listen,
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
    cpus: Cpus,
    store: Arc<Store>,
    listeners: Listeners,
    admin_listener: Option<AdminListener>,
}

impl Server {
    /// Opens the directory and listens. Connections wait until [`Server::start`].
    pub fn bind(config: Config) -> Result<Self, StartError> {
        config.descriptors.check()?;
        raise_descriptor_limit();
        let cpus = if config.pin {
            Cpus::pinned(config.threads)
        } else {
            Cpus::default()
        };
        let store = Arc::new(open_store(&config, &cpus)?);
        let ListenConfig {
            at,
            admin,
            dispatch,
        } = config.listen;
        let cannot = |at| move |source| StartError::Listen { at, source };
        let listeners = Listeners::bind(at, dispatch, config.threads).map_err(cannot(at))?;
        let bind_admin = |at| AdminListener::bind(at).map_err(cannot(at));
        let admin_listener = admin.map(bind_admin).transpose()?;
        let address = listeners.local_addr();
        if !config.service.read_only && !address.ip().is_loopback() {
            tracing::warn!("no authentication: anyone who reaches {address} can write and delete");
        }
        Ok(Self {
            config,
            cpus,
            store,
            listeners,
            admin_listener,
        })
    }

    /// Where it listens; the port is real, also when port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.listeners.local_addr()
    }

    /// Starts every thread; from when this returns, requests are answered.
    pub fn start(mut self) -> Result<Running, StartError> {
        let address = self.local_addr();
        let (drain, draining) = drain::channel();
        let counters: Vec<_> = (0..self.config.threads).map(|_| Arc::default()).collect();
        let admin = Admin::new(
            counters.clone(),
            &self.store,
            self.config.directory.min_free,
        );
        let admin = Arc::new(admin);
        let routes = match &self.admin_listener {
            Some(_) => Routes::Values,
            None => Routes::All,
        };
        let reactors = self.reactors(counters, &admin, routes);
        let peers = Peers::new(self.config.connections.max_per_ip);
        let admin_drain = self.start_admin(&admin)?;
        net::start(
            self.listeners,
            reactors,
            self.config.connections.max,
            peers.clone(),
            &draining,
        )?;
        admin.start_serving();
        tracing::info!(address = %address, dir = %self.config.directory.path.display(), reactors = self.config.threads, "serving");
        Ok(Running {
            config: self.config,
            store: self.store,
            admin,
            peers,
            drain,
            admin_drain,
        })
    }

    fn reactors(
        &self,
        counters: Vec<Arc<ReactorCounters>>,
        admin: &Arc<Admin>,
        routes: Routes,
    ) -> Vec<ReactorConfig> {
        let reactor = |(index, counters)| ReactorConfig {
            lame_duck: self.listeners.outlive().then_some(LAME_DUCK),
            counters,
            cpu: self.cpus.of_reactor(index),
            ..self.reactor(
                index,
                format!("reactor-{index}"),
                admin,
                routes,
                self.local_addr(),
            )
        };
        counters.into_iter().enumerate().map(reactor).collect()
    }

    /// A reactor that answers `routes` on `address`.
    fn reactor(
        &self,
        index: usize,
        name: String,
        admin: &Arc<Admin>,
        routes: Routes,
        address: SocketAddr,
    ) -> ReactorConfig {
        let mut config = self.config.service.clone();
        config.routes = routes;
        config.allowed.hosts.listen_on(address.ip());
        let service = ServiceBuilder {
            store: Arc::clone(&self.store),
            config,
            reactor: index,
            admin: Arc::clone(admin),
        };
        ReactorConfig {
            index,
            name,
            service,
            limits: self.config.connections.limits,
            takeover: self.config.connections.takeover,
            lame_duck: None,
            counters: Arc::default(),
            cpu: None,
        }
    }

    /// Starts the thread of the admin pages, if they have one: before the others, and with a drain of its own, so that it
    /// says what the server does all the time that it does it.
    fn start_admin(&mut self, admin: &Arc<Admin>) -> Result<Option<Drain>, StartError> {
        let Some(listener) = self.admin_listener.take() else {
            return Ok(None);
        };
        let (drain, draining) = drain::channel();
        let address = listener.local_addr();
        let (index, name) = (self.config.threads, "admin".to_owned());
        let reactor = self.reactor(index, name, admin, Routes::Pages, address);
        listener.start(reactor, draining)?;
        tracing::info!(%address, "admin listening on http://{address}");
        Ok(Some(drain))
    }
}

/// A server that serves.
#[derive(Debug)]
pub struct Running {
    config: Config,
    store: Arc<Store>,
    admin: Arc<Admin>,
    peers: Peers,
    drain: Drain,
    admin_drain: Option<Drain>,
}

impl Running {
    /// Serves until `shutdown` resolves, then drains: accepts no more, closes idle connections, lets busy ones finish,
    /// and abandons what has not finished within the grace period.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            config,
            store,
            admin,
            peers,
            drain,
            admin_drain,
        } = self;
        tokio::select! {
            () = shutdown => {}
            () = housekeeping(&store) => {}
        }
        admin.start_draining();
        tracing::info!(grace_period = ?config.grace_period, "draining");
        drain.finish(config.grace_period).await;
        if let Some(admin_drain) = admin_drain {
            admin_drain.finish(ADMIN_GRACE).await;
        }
        drop((store, admin));
        tracing::info!(refused = peers.refused(), "drained");
    }
}

/// Opens the directory. The default one, which lies where any user may write, has to be this user's own.
fn open_store(config: &Config, cpus: &Cpus) -> Result<Store, OpenError> {
    let (dir, read_only) = (&config.directory.path, config.service.read_only);
    if !config.directory.is_named {
        store::claim(dir, !read_only)?;
        tracing::warn!(dir = %dir.display(), "serving the default directory, which is for trying out: /tmp is emptied at reboots; give --dir");
    }
    let options = store::Options {
        cpus: cpus.of_others(),
        ..config.store
    };
    if read_only {
        Store::open_read_only(dir, options)
    } else {
        Store::open(dir, options)
    }
}

/// Does for ever what the store wants done from time to time.
async fn housekeeping(store: &Store) {
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
