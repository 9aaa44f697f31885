//! The S3 engine: the objects of a bucket as values, through any server that speaks S3.
//!
//! [`S3`] is one for the process; each reactor sends its requests through its own [`Gateway`]. Nothing is cached, and no
//! whole value is held in memory beyond 64 KiB. What the store promises of a write is what
//! it was seen to do at the start. It knows nothing of the HTTP that clients speak.

mod contract;
mod needs;
mod objects;
mod settings;
mod shared;
#[cfg(test)]
mod tests;
mod transport;
mod trial;

use std::sync::Arc;

use hyper::Method;

use crate::metrics::S3Counters;
use crate::transfer::{BlockingPool, InFlight, StagingBounds, StagingQuota};
use crate::value::{Digest, Error, Key, Listing, Page};
use shared::Shared;
use transport::client::{Client, Reach};
use transport::credentials::Credentials;

pub use contract::{Begin, Exact, Kept, Read, RemoteMeta, RemoteValue, Written};
pub use needs::{Needs, needs};
pub use objects::get::Got;
pub use objects::remote_body::{RemoteBody, RemotePiece};
pub use objects::spool::PIECE;
pub use objects::upload::{RemoteUpload, is_long};
pub use settings::{Conditions, Place, Settings};
pub use transport::client::Connections;
pub use trial::opening::OpenError;
pub use trial::{Report, Row, Verdict, What};

/// An S3 store, reached and tested.
#[derive(Debug)]
pub struct S3 {
    shared: Arc<Shared>,
    /// One for each reactor, and one for the admin pages.
    clients: Vec<Arc<Client>>,
}

/// What the process gives an S3 store.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// How many reactors there are; the admin pages have one more.
    pub reactors: usize,
    /// The CPUs of the threads beside the reactors; all, where none are named.
    pub cpus: Option<rustix::thread::CpuSet>,
    /// Threads at most for digests.
    pub compute_threads: usize,
    /// What bounds uploads; bytes are those received and not yet sent.
    pub staging: StagingBounds,
    /// Whether nothing is to be written.
    pub read_only: bool,
}

impl S3 {
    /// Reaches the store and, unless it is only read, finds out what it promises of writes. Blocks.
    pub fn open(settings: Settings, share: Share) -> Result<Self, OpenError> {
        let credentials = Credentials::start(&settings);
        let credentials = credentials.map_err(|e| OpenError::Unusable(e.to_string()))?;
        Self::with(settings, share, &Arc::new(credentials))
    }

    /// Tries at length what the store does; nothing is served. Blocks.
    pub fn test(settings: &Settings) -> Result<Report, OpenError> {
        let unusable = |reason: &dyn std::fmt::Display| OpenError::Unusable(reason.to_string());
        let credentials = Credentials::start(settings).map_err(|e| unusable(&e))?;
        let credentials = Arc::new(credentials);
        let each = settings.by_endpoint().into_iter();
        let clients =
            each.map(|settings| Ok(Client::new(&settings, Reach::new(&settings, &credentials)?)));
        let clients: Result<Vec<_>, String> = clients.collect();
        trial::opening::test(clients.map_err(|e| unusable(&e))?)
    }

    fn with(
        settings: Settings,
        share: Share,
        credentials: &Arc<Credentials>,
    ) -> Result<Self, OpenError> {
        let unusable = |reason: &dyn std::fmt::Display| OpenError::Unusable(reason.to_string());
        let reach = Reach::new(&settings, credentials).map_err(|e| unusable(&e))?;
        let new_client = || Client::new(&settings, reach.clone());
        let promises = trial::opening::promises(new_client(), &settings, share.read_only)?;
        let clients = (0..=share.reactors).map(|_| Arc::new(new_client()));
        let clients = clients.collect();
        let compute = BlockingPool::compute(share.compute_threads, share.cpus);
        let shared = Shared {
            promises,
            disk: BlockingPool::disk(share.cpus).map_err(|e| unusable(&e))?,
            compute: compute.map_err(|e| unusable(&e))?,
            quota: StagingQuota::new(share.staging),
            settings,
        };
        Ok(Self {
            shared: Arc::new(shared),
            clients,
        })
    }

    /// The way to the store of the reactor with this number; all numbers beyond the reactors' are the admin pages'.
    pub fn gateway(&self, reactor: usize) -> Gateway<'_> {
        let last = self.clients.len() - 1;
        Gateway {
            shared: &self.shared,
            client: &self.clients[reactor.min(last)],
        }
    }

    /// Tries whether the store answers. For the admin pages alone.
    pub async fn probe(&self) -> Result<(), Error> {
        self.clients[self.clients.len() - 1].probe().await
    }

    /// The threads for what keeps a processor busy.
    pub fn compute(&self) -> &BlockingPool {
        &self.shared.compute
    }

    /// The threads for what may wait for a device.
    pub fn disk(&self) -> &BlockingPool {
        &self.shared.disk
    }

    /// Whether it matters whose an upload is that comes in one request.
    pub fn stages_by_client(&self) -> bool {
        self.shared.quota.is_by_client()
    }

    /// What is staged at the moment, over all reactors.
    pub fn staged(&self) -> InFlight {
        self.shared.quota.in_flight()
    }

    /// What has been counted, by each of its clients.
    pub fn counters(&self) -> impl Iterator<Item = &S3Counters> {
        self.clients.iter().map(|client| client.counters())
    }

    /// How many requests to the store are under way: each has a connection.
    pub fn requests_under_way(&self) -> usize {
        self.clients.iter().map(|client| client.under_way()).sum()
    }

    /// The connections of all its clients.
    pub fn connections(&self) -> Connections {
        let each = self.clients.iter().map(|client| client.connections());
        each.fold(Connections::default(), |sum, one| Connections {
            open: sum.open + one.open,
            idle: sum.idle + one.idle,
        })
    }

    /// What it is reached with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

/// The way of one reactor to the store.
#[derive(Clone, Copy, Debug)]
pub struct Gateway<'a> {
    shared: &'a Arc<Shared>,
    client: &'a Arc<Client>,
}

impl Gateway<'_> {
    /// Whether writes may have conditions: one that the store does not keep is refused, even where it is seen not to hold.
    pub fn takes_conditional_writes(&self) -> Result<(), Error> {
        self.shared.promises.for_put()
    }

    /// Whether removals may have conditions.
    pub fn takes_conditional_removals(&self) -> Result<(), Error> {
        self.shared.promises.for_delete()
    }

    /// What is known of the value of `key`; `None` when there is none.
    pub async fn head(&self, key: &Key<'_>) -> Result<Option<RemoteMeta>, Error> {
        transport::head::head(self.client, key).await
    }

    /// The value of `key`, or the part of it that `read` names.
    pub async fn get(&self, key: &Key<'_>, read: Read<'_>) -> Result<Got, Error> {
        objects::get::get(self.client, key, read).await
    }

    /// An address that lets its reader have the value of `key` from the store, by `method`, for a few minutes.
    pub fn link(&self, method: &Method, key: &Key<'_>) -> Result<String, Error> {
        self.client.link(method, key)
    }

    /// Begins to receive a value for `key`.
    pub async fn upload(&self, key: &Key<'_>, begin: Begin) -> Result<RemoteUpload, Error> {
        RemoteUpload::begin(self.shared, self.client, key, &begin).await
    }

    /// Removes the value of `key`, of the version with this entity tag where one is given; false when there was none.
    pub async fn delete(&self, key: &Key<'_>, only: Option<&str>) -> Result<bool, Error> {
        if only.is_some() {
            self.shared.promises.for_delete()?;
        }
        objects::delete::delete(self.client, key, only).await
    }

    /// A digest of the value of `key` with this entity tag, SHA-512 or else SHA-256, computed from all of it; `None`, when
    /// there is another version now, or none.
    pub async fn digest(
        &self,
        key: &Key<'_>,
        etag: &str,
        sha512: bool,
    ) -> Result<Option<Digest>, Error> {
        objects::digesting::digest(self.client, &self.shared.compute, key, etag, sha512).await
    }

    /// One page of the keys, in byte order.
    pub async fn list(&self, page: &Page) -> Result<Listing<RemoteValue>, Error> {
        objects::list::list(self.client, &self.shared.compute, page).await
    }
}
