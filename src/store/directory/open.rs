//! How a directory is opened: for writing, by one server alone, or for reading, by any number.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::CpuSet;

use super::super::budget::Budget;
use super::super::cache::Cache;
use super::super::changes::Changes;
use super::super::home::{Home, OpenError};
use super::super::names::{Names, open_beneath};
use super::super::object::Version;
use super::super::publish::Publisher;
use super::super::staging::{Durability, Staging};
use super::super::threads::Threads;
use super::{Directory, Writing};
use crate::metrics::StoreCounters;

/// What a store may use.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory for hot small values, in bytes, overhead included; 0 is none.
    pub cache: u64,
    /// Files that the cache may keep open.
    pub cached_files: u64,
    /// What an acknowledged change survives.
    pub durability: Durability,
    /// Threads at most for what keeps a processor busy; 0 has the reactors do it themselves.
    pub compute_threads: usize,
    /// Where those and the disk threads may run, unless it is where the thread that needs one more may.
    pub cpus: Option<CpuSet>,
    /// Bytes of uploads staged at once, if that is bounded.
    pub max_staged: Option<NonZeroU64>,
}

impl Options {
    fn cache(self) -> Arc<Cache> {
        Arc::new(Cache::new(self.cache, self.cached_files))
    }
}

impl Directory {
    /// Opens `dir` for reading and writing, making it when it is missing.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let home = Home::open(dir, options.durability)?;
        let failed = |source| OpenError::Failed {
            doing: "start threads for",
            path: dir.to_owned(),
            source,
        };
        let names = Arc::new(Names::new(
            home.root,
            Threads::disk(options.cpus).map_err(failed)?,
        ));
        let counters = Arc::<StoreCounters>::default();
        let changes = Arc::new(Changes::after(home.clock.reached()));
        let staging = Arc::new(Staging::new(
            Arc::clone(&names),
            home.staging,
            home.features,
            options.durability,
            Budget::new(options.max_staged),
            home.clock,
            Arc::clone(&counters),
        ));
        let publisher =
            Publisher::start(Arc::clone(&staging), Arc::clone(&changes)).map_err(failed)?;
        Ok(Self {
            names,
            compute: Threads::compute(options.compute_threads, options.cpus).map_err(failed)?,
            cache: options.cache(),
            counters,
            changes,
            writing: Some(Writing {
                staging,
                publisher,
                _lock: home.lock,
            }),
        })
    }

    /// Opens `dir` for reading alone: nothing is created or locked, so it may lie on a read-only file system and have
    /// other servers.
    pub fn open_read_only(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Failed {
            doing: "open",
            path: dir.to_owned(),
            source,
        };
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir, directory, Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        if let Err(Errno::NOSYS | Errno::PERM) = open_beneath(&root, ".", directory, Mode::empty())
        {
            return Err(OpenError::NoOpenat2 {
                dir: dir.to_owned(),
            });
        }
        Ok(Self {
            compute: Threads::compute(options.compute_threads, options.cpus).map_err(failed)?,
            names: Arc::new(Names::new(
                root,
                Threads::disk(options.cpus).map_err(failed)?,
            )),
            cache: options.cache(),
            counters: Arc::default(),
            changes: Arc::new(Changes::after(Version::from_nanos(0))),
            writing: None,
        })
    }
}
