//! The server: binds everything, starts the threads, serves until it is asked to end, drains in order.
//!
//! Its states are types: a [`Config`] is data, a [`Server`] owns the directory and the socket and knows its address,
//! and [`Running`] has every thread and serves until it is asked to end. Meanwhile a [`Reloader`] rereads certificates
//! and the access file. The caller owns signals and standard output.

mod startup;

use std::path::PathBuf;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::Semaphore;

use crate::access::{Access, Right, own_secret};
use crate::config::{Config, ConnectionConfig, ListenConfig, Values};
use crate::http::{Admin, Door, Locks, Routes, ServiceBuilder};
use crate::lifecycle::{BOUNDS, DONE, Drain, RELOAD, Requests, drain};
use crate::metrics::LAST_RELOAD_FAILED;
use crate::net::{self, ConnectionLimit, Dispatch, ListenAddress, Listeners, ReactorConfig, Tls};
use crate::sandbox;
use crate::store::{self, Error, RESERVED, Store, report_bounds_now};
use startup::Cpus;

use startup::open_store;
pub use startup::{StartError, check, check_store, prepare};

/// The longest time that the space of a large value stays taken after it was removed by hand.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// The time that the thread of the admin pages has to finish, once the others have.
const ADMIN_GRACE: Duration = Duration::from_secs(1);

/// Connections that the admin pages may have open.
const ADMIN_CONNECTIONS: usize = 256;

/// A server that owns its directory and its socket, and does not serve yet.
#[derive(Debug)]
pub struct Server {
    config: Config,
    cpus: Cpus,
    store: Arc<Store>,
    listeners: Listeners,
    /// Listeners with a reactor of their own, for what must be answered while the others are busy.
    admin_listeners: Option<Listeners>,
    tls: Option<Arc<Tls>>,
    access: Option<Arc<Access>>,
    /// Where clients can take locks.
    locks: Option<Arc<Locks>>,
    /// Half of the files that requests may have open.
    streams: Arc<Semaphore>,
}

impl Server {
    /// Opens the directory and listens. Connections wait until [`Server::start`].
    pub fn bind(config: Config) -> Result<Self, StartError> {
        raise_descriptor_limit();
        let cpus = if config.pin {
            Cpus::pinned(config.threads)
        } else {
            Cpus::default()
        };
        store::hide(config.hidden.clone());
        let all = Right::NAMED.map(|(right, _)| right);
        let rights = config.share.map(|share| share.rights().to_vec());
        let rights = rights.or(config.links.then(|| all.to_vec()));
        let of_all = rights.map(|rights| Access::for_all(&rights));
        let access = config.access.clone().map(Access::read).or(of_all);
        let mut access = access.transpose()?;
        let store = Arc::new(open_store(&config, &cpus)?);
        if let (true, Values::Directory(directory, _)) = (config.links, &config.values) {
            let path = directory.path.join(RESERVED).join("links");
            let secret = own_secret(&path, !config.service.read_only)?;
            access = access.map(|access| access.with_links(&secret));
        }
        let access = access.map(Arc::new);
        let ListenConfig {
            at,
            admin,
            dispatch,
            allow_anonymous,
        } = &config.listen;
        let cannot = |(at, source)| StartError::Listen { at, source };
        let listeners = Listeners::bind(at, *dispatch, config.threads).map_err(cannot)?;
        let bind_admin = |at| Listeners::bind(slice::from_ref(at), Dispatch::Acceptor, 1);
        let admin_listeners = admin.as_ref().map(bind_admin).transpose().map_err(cannot)?;
        let tls = config.tls.clone().map(Tls::new).transpose()?.map(Arc::new);
        for at in at.iter().filter(|at| at.is_exposed()) {
            if config.access.is_some() && !at.by_tls {
                tracing::warn!(
                    "--access: tokens and passwords sent to {at} can be read on the way; give --listen https://..."
                );
            } else if access.is_none() && *allow_anonymous && !config.service.read_only {
                tracing::warn!("--allow-anonymous: anyone who reaches {at} can write and delete");
            }
        }
        let streams = usize::try_from(config.descriptors.files() / 2).unwrap_or(usize::MAX);
        let has_locks = at.iter().any(|at| at.door != Door::Plain);
        Ok(Self {
            locks: has_locks.then(Arc::default),
            config,
            cpus,
            store,
            listeners,
            admin_listeners,
            tls,
            access,
            streams: Arc::new(Semaphore::new(streams.min(Semaphore::MAX_PERMITS))),
        })
    }

    /// The URLs that it listens at, in the order of the options; ports are real, also when port 0 was asked for.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        self.listeners.urls()
    }

    /// The URLs by which other machines reach it, where it listens on all addresses.
    pub fn urls_for_others(&self) -> impl Iterator<Item = String> {
        self.listeners.urls_for_others()
    }

    /// A description in a few words for a terminal: its version, where the values are, and what an acknowledged write
    /// survives.
    pub fn summary(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        match &self.config.values {
            Values::Directory(directory, options) => format!(
                "data-server {version}, {}, durability {}",
                directory.path.display(),
                options.durability
            ),
            Values::S3(settings, _) => format!("data-server {version}, {}", settings.place),
        }
    }

    /// Starts every thread; from when this returns, requests are answered. Also answers the reader of files that change
    /// while the server runs.
    pub fn start(mut self) -> Result<(Running, Reloader), StartError> {
        let addresses = self.listeners.addresses().map(ListenAddress::to_string);
        let addresses: Vec<_> = addresses.collect();
        let address = addresses.join(", ");
        let (drain, draining) = drain();
        let counters: Vec<_> = (0..self.config.threads).map(|_| Arc::default()).collect();
        let admin = Admin::new(counters.clone(), &self.store, self.access.clone());
        let admin = Arc::new(admin);
        let routes = match &self.admin_listeners {
            Some(_) => Routes::Values,
            None => Routes::All,
        };
        let reactor = |(index, counters)| ReactorConfig {
            counters,
            cpu: self.cpus.of_reactor(index),
            ..self.reactor(index, format!("reactor-{index}"), &admin, routes)
        };
        let reactors = counters.into_iter().enumerate().map(reactor).collect();
        let admin_drain = self.start_admin(&admin)?;
        let ConnectionConfig {
            max, max_per_ip, ..
        } = self.config.connections;
        let limit = net::start(self.listeners, reactors, max, max_per_ip, &draining)?;
        admin.start_serving();
        let version = env!("CARGO_PKG_VERSION");
        match &self.config.values {
            Values::Directory(directory, options) => {
                tracing::info!(address, dir = %directory.path.display(), durability = %options.durability, reactors = self.config.threads, version, "serving");
            }
            Values::S3(settings, _) => {
                tracing::info!(address, store = %settings.place, reactors = self.config.threads, version, "serving");
            }
        }
        let unheard =
            |error| tracing::warn!(%error, "data-server reload is not heard: only SIGHUP is");
        let reloader = Reloader {
            tls: self.tls,
            access: self.access.filter(|access| access.has_subjects()),
            files: self.config.allowed.reread,
            requests: Requests::listen(RELOAD).map_err(unheard).ok(),
        };
        let running = Running {
            grace_period: self.config.grace_period,
            store: self.store,
            admin,
            limit,
            drain,
            admin_drain,
        };
        Ok((running, reloader))
    }

    /// A reactor that answers `routes`.
    fn reactor(
        &self,
        index: usize,
        name: String,
        admin: &Arc<Admin>,
        routes: Routes,
    ) -> ReactorConfig {
        let mut config = self.config.service.clone();
        config.routes = routes;
        config.store_resumes = self.store.resumable().is_ok();
        config.authorizes = self.config.access.is_some();
        let service = ServiceBuilder {
            store: Arc::clone(&self.store),
            config,
            reactor: index,
            admin: Arc::clone(admin),
            access: self.access.clone(),
            locks: self.locks.clone(),
        };
        ReactorConfig {
            index,
            name,
            service,
            limits: self.config.connections.limits,
            http2_clear: self.config.connections.http2_clear,
            streams: Arc::clone(&self.streams),
            tls: self.tls.clone(),
            counters: Arc::default(),
            cpu: None,
        }
    }

    /// Starts the thread of the admin pages, if they have one: before the others, and with a drain of its own, so that
    /// it says what the server does all the time that it does it.
    fn start_admin(&mut self, admin: &Arc<Admin>) -> Result<Option<Drain>, StartError> {
        let Some(listeners) = self.admin_listeners.take() else {
            return Ok(None);
        };
        let (drain, draining) = drain();
        let url: String = listeners.urls().collect();
        let (index, name) = (self.config.threads, "admin".to_owned());
        let reactors = vec![self.reactor(index, name, admin, Routes::Pages)];
        net::start(listeners, reactors, ADMIN_CONNECTIONS, None, &draining)?;
        tracing::info!("admin listening on {url}");
        Ok(Some(drain))
    }
}

/// A server that serves.
pub struct Running {
    grace_period: Duration,
    store: Arc<Store>,
    admin: Arc<Admin>,
    limit: Arc<ConnectionLimit>,
    drain: Drain,
    admin_drain: Option<Drain>,
}

impl Running {
    /// Serves until `shutdown` resolves, then drains: accepts no more, closes idle connections, lets busy ones finish,
    /// and abandons what has not finished within the grace period.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = shutdown => {}
            () = housekeeping(&self.store) => {}
            () = tell_bounds(&self.store) => {}
        }
        self.admin.start_draining();
        tracing::info!(grace_period = ?self.grace_period, "draining");
        self.drain.finish(self.grace_period).await;
        if let Some(admin_drain) = self.admin_drain {
            admin_drain.finish(ADMIN_GRACE).await;
        }
        drop((self.store, self.admin));
        tracing::info!(refused = self.limit.refused(), "drained");
    }
}

/// Rereads what can change while the server runs: certificates, and who may do what.
#[derive(Debug)]
pub struct Reloader {
    tls: Option<Arc<Tls>>,
    access: Option<Arc<Access>>,
    /// The files that both are read from.
    files: Vec<PathBuf>,
    requests: Option<Requests>,
}

impl Reloader {
    /// Reloads at each `data-server reload`. This future never resolves.
    pub async fn serve(&self) {
        match &self.requests {
            Some(requests) => {
                let reload = async || self.reload().map(|()| DONE.to_owned());
                requests.serve(reload).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Rereads, logs what came of it, and says what is wrong. What cannot be used leaves all as it was.
    pub fn reload(&self) -> Result<(), String> {
        if self.tls.is_none() && self.access.is_none() {
            tracing::info!("reload: nothing to reread; options change with a restart");
        }
        let mut wrong = Vec::new();
        match self.tls.as_deref().map(Tls::reload) {
            None => {}
            Some(Ok(())) => tracing::info!("reload: certificates reread"),
            Some(Err(error)) => {
                tracing::error!(%error, "reload: certificates not reread: the old ones stay");
                wrong.push(error.to_string());
            }
        }
        match self.access.as_deref().map(Access::reload) {
            None => {}
            Some(Ok(())) => tracing::info!(target: "audit", "reload: access reread"),
            Some(Err(error)) => {
                tracing::error!(target: "audit", %error, "reload: access not reread: the old rules stay");
                wrong.push(error.to_string());
            }
        }
        LAST_RELOAD_FAILED.store(!wrong.is_empty(), Ordering::Relaxed);
        if wrong.is_empty() {
            return Ok(());
        }
        if let Some(file) = self.files.iter().find(|file| sandbox::hides(file)) {
            let hint = format!(
                "the sandbox keeps {} out of reach: it is in a folder that was made after the start; restart the server",
                file.display()
            );
            tracing::error!("reload: {hint}");
            wrong.push(hint);
        }
        Err(wrong.join("; "))
    }
}

/// Does for ever what the store wants done from time to time.
async fn housekeeping(store: &Store) {
    let Some(directory) = store.directory() else {
        return std::future::pending().await;
    };
    let sweeps = async {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        loop {
            ticks.tick().await;
            directory.sweep().await;
        }
    };
    tokio::join!(sweeps, directory.remove_ended());
}

/// Says what the bounds hold at each `data-server bounds`. Never resolves.
async fn tell_bounds(store: &Store) {
    let unheard = |error| tracing::warn!(%error, "data-server bounds is not heard");
    let requests = || Requests::listen(BOUNDS).map_err(unheard).ok();
    let Some((account, requests)) = store.account().and_then(|it| Some((it, requests()?))) else {
        return std::future::pending().await;
    };
    let report = async || {
        // Of the store it has only this: what ends last drops the threads, and no thread can do that.
        let account = Arc::clone(account);
        let report = store.compute().spawn(move || {
            let report = serde_json::to_string(&report_bounds_now(&account));
            report.map_err(|error| Error::failed("report bounds")(error.into()))
        });
        report.await.map_err(|error| error.to_string())
    };
    requests.serve(report).await;
}

/// Raises the soft limit on descriptors to the hard one: each connection and each open value needs one.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit on descriptors");
    }
}
