//! The S3 engine: the objects of a bucket as values, through any server that speaks S3.
//!
//! [`S3`] is one for the process; each reactor sends its requests through its own [`Gateway`]. Nothing is cached, and
//! no whole value is held in memory beyond 64 KiB. What the store promises of a write is what it was seen to do at the
//! start. `transport` sends a request and knows no value, `objects` makes values of objects, `trial` finds out what a
//! store does. It knows nothing of the HTTP that clients speak.

mod contract;
mod objects;
#[cfg(test)]
mod tests;
mod transport;
mod trial;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Uri;

use crate::metrics::S3Counters;
use crate::transfer::{BlockingPool, StagingBounds, StagingQuota};
use crate::value::Error;
use contract::{S3Context, explained};
use transport::credentials::{self, CurrentSecrets};
use transport::{Reach, S3Client};

pub use contract::{BucketPrefix, ContractReport, Settings};
pub use objects::Gateway;
pub use objects::conditional::ConditionalUpload;
pub use objects::get::RemoteBody;
pub use objects::upload::PIECE;
pub use objects::value::RemoteValue;
pub use transport::call::BESIDE_METADATA;
pub use trial::UnfitStore;

/// The files by which names are resolved and servers proved, where systems have them.
const SYSTEM: [&str; 16] = [
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
];

/// The file that a manager of the network writes anew.
const RESOLVER: &str = "/etc/resolv.conf";

/// Long answers about names come by TCP.
const DNS: u16 = 53;

/// An S3 store, reached and tested.
#[derive(Debug)]
pub struct S3 {
    shared: Arc<S3Context>,
    /// One for each reactor, and one for the admin pages.
    gateways: Vec<Gateway>,
    /// The last probe was answered.
    is_well: AtomicBool,
}

/// The resources that the process gives an S3 store.
#[derive(Clone, Copy, Debug)]
pub struct S3Resources {
    /// The number of reactors; the admin pages have one more.
    pub reactors: usize,
    /// The CPUs of the threads beside the reactors; all, where none are named.
    pub cpus: Option<rustix::thread::CpuSet>,
    /// Threads at most for digests.
    pub compute_threads: usize,
    /// The bounds of uploads; bytes are those received and not yet sent.
    pub staging: StagingBounds,
    /// True where nothing is written: the store is then not tried.
    pub read_only: bool,
}

impl S3 {
    /// Reaches the store and, unless it is only read, finds out what it promises of writes. Blocks.
    pub fn open(settings: Settings, share: S3Resources) -> Result<Self, UnfitStore> {
        let credentials = CurrentSecrets::start(&settings).map_err(UnfitStore::Unusable)?;
        Self::with(settings, share, &credentials)
    }

    /// Tries at length what the store does; nothing is served. Blocks.
    pub fn test(settings: &Settings) -> Result<ContractReport, UnfitStore> {
        let credentials = CurrentSecrets::start(settings).map_err(UnfitStore::Unusable)?;
        let each = settings.by_endpoint().into_iter();
        let clients = each.map(|settings| {
            Ok(S3Client::new(
                &settings,
                Reach::new(&settings, &credentials)?,
            ))
        });
        let clients: Result<Vec<_>, String> = clients.collect();
        trial::test(clients.map_err(UnfitStore::Unusable)?)
    }

    fn with(
        settings: Settings,
        share: S3Resources,
        credentials: &CurrentSecrets,
    ) -> Result<Self, UnfitStore> {
        let unusable = |reason: &dyn std::fmt::Display| UnfitStore::Unusable(reason.to_string());
        let reach = Reach::new(&settings, credentials).map_err(UnfitStore::Unusable)?;
        let new_client = || S3Client::new(&settings, reach.clone());
        let promises = trial::probe_store(new_client(), &settings, share.read_only)?;
        let clients: Vec<_> = (0..=share.reactors)
            .map(|_| Arc::new(new_client()))
            .collect();
        let compute = BlockingPool::compute(share.compute_threads, share.cpus);
        let shared = Arc::new(S3Context {
            promises,
            disk: BlockingPool::disk(share.cpus).map_err(|e| unusable(&e))?,
            compute: compute.map_err(|e| unusable(&e))?,
            quota: StagingQuota::new(share.staging),
            settings,
        });
        let gateway = |client| Gateway {
            shared: Arc::clone(&shared),
            client,
        };
        Ok(Self {
            gateways: clients.into_iter().map(gateway).collect(),
            shared,
            is_well: AtomicBool::new(true),
        })
    }

    /// The way to the store of the reactor with this number; all numbers beyond the reactors' are the admin pages'.
    pub fn gateway(&self, reactor: usize) -> &Gateway {
        let last = self.gateways.len() - 1;
        &self.gateways[reactor.min(last)]
    }

    /// Tries whether the store answers, and logs why it does not. For the admin pages alone.
    pub async fn probe(&self) -> Result<(), Error> {
        let probed = self.gateway(usize::MAX).client.probe().await;
        let was_well = self.is_well.swap(probed.is_ok(), Ordering::Relaxed);
        if let Err(error) = probed.as_ref()
            && was_well
        {
            tracing::warn!(error = explained(error), "not ready");
        }
        probed
    }

    /// The threads for what keeps a processor busy.
    pub fn compute(&self) -> &BlockingPool {
        &self.shared.compute
    }

    /// The threads for calls that may block on the disk.
    pub fn disk(&self) -> &BlockingPool {
        &self.shared.disk
    }

    /// The quota of uploads.
    pub fn quota(&self) -> &StagingQuota {
        &self.shared.quota
    }

    /// The counters of each of its clients.
    pub fn counters(&self) -> impl Iterator<Item = &S3Counters> + Clone {
        self.gateways.iter().map(|it| &it.client.counters)
    }

    /// Requests to the store under way: each has a connection.
    pub fn requests_under_way(&self) -> usize {
        let all = self.gateways.iter();
        all.map(|it| it.client.under_way()).sum()
    }

    /// Connections to the store that are open.
    pub fn connections(&self) -> usize {
        let all = self.gateways.iter();
        all.map(|it| it.client.connections()).sum()
    }
}

/// Files and ports that an S3 store is reached with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files and directories of the system.
    pub read: Vec<PathBuf>,
    /// Files that other programs replace.
    pub reread: Vec<PathBuf>,
    /// Ports of the store, and of what gives its credentials.
    pub ports: Vec<u16>,
}

/// The needs of the store with these settings in the environment of this process.
pub fn needs(settings: &Settings) -> Needs {
    let mut needs = Needs {
        read: SYSTEM.map(PathBuf::from).to_vec(),
        reread: settings.ca.iter().cloned().collect(),
        ports: vec![DNS],
    };
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        let given = std::env::var_os(name);
        needs.read.extend(given.map(PathBuf::from));
    }
    let resolver = Path::new(RESOLVER).canonicalize();
    // Not the directory of a file of /etc itself, which holds much else.
    let resolver = resolver.ok().filter(|file| !file.starts_with("/etc"));
    needs.reread.extend(resolver);
    let endpoints = settings.endpoints.iter();
    needs.ports.extend(endpoints.filter_map(|url| port(url)));
    if settings.endpoints.is_empty() {
        needs.ports.push(443);
    }
    let (files, urls) = credentials::reach(&settings.region);
    needs.reread.extend(files);
    needs.ports.extend(urls.iter().filter_map(|url| port(url)));
    needs.ports.sort_unstable();
    needs.ports.dedup();
    needs
}

/// The port that `url` is asked at.
fn port(url: &str) -> Option<u16> {
    let url: Uri = url.parse().ok()?;
    let of_scheme = match url.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    };
    url.port_u16().or(of_scheme)
}
