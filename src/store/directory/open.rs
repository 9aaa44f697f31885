//! How a directory is opened: for writing, by one server alone, or for reading, by any number.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Directory, Options, Writing};
use crate::metrics::StoreCounters;
use crate::store::cache::Cache;
use crate::store::changes::Changes;
use crate::store::directory_fd::{Dir, Location, open_beneath};
use crate::store::journal::{self, Journal, Place};
use crate::store::layout::{OpenError, StateDir, file_system, is_in_use};
use crate::store::list::Lister;
use crate::store::publish::Publisher;
use crate::store::resumable::Registry;
use crate::store::temp_file::TempDir;
use crate::store::writer::{Durability, Space, Writer};
use crate::transfer::{BlockingPool, StagingQuota};
use crate::value::Version;

impl Options {
    fn cache(&self) -> Arc<Cache> {
        Arc::new(Cache::new(self.cache, self.cached_files))
    }

    fn lister(&self, dir: &Arc<Dir>, counters: &StoreCounters) -> std::io::Result<Arc<Lister>> {
        let (dir, counters) = (Arc::clone(dir), Arc::clone(&counters.listings));
        let threads = BlockingPool::listing(self.cpus)?;
        Ok(Lister::new(dir, threads, self.listing_index, counters))
    }
}

impl Directory {
    /// Opens `dir` for reading and writing, making it when it is missing.
    pub fn open(dir: &Path, options: &Options) -> Result<Self, OpenError> {
        let state = StateDir::open(dir, options.durability)?;
        let place = place(dir, options);
        let wants_journal = options.durability == Durability::Disk && options.journal.is_used;
        let may_have_one = file_system::may_be_journaled(state.kind.as_deref());
        let is_journaled = wants_journal && may_have_one;
        let exchanges = is_journaled && file_system::flushes_at_rename(state.kind.as_deref());
        let failed = OpenError::failed("start threads for", dir);
        let location = Location::new(dir, &state.root, Some(&state.lock)).map_err(&failed)?;
        let values = Arc::new(Dir::new(
            state.root,
            location,
            BlockingPool::disk(options.cpus).map_err(&failed)?,
        ));
        let counters = Arc::<StoreCounters>::default();
        let changes = Arc::new(Changes::after(state.clock.reached()));
        let temp_dir = TempDir::new(
            Arc::clone(&values),
            state.own,
            state.staging,
            state.uploads,
            state.method,
            exchanges,
        );
        let quota = StagingQuota::new(options.staging);
        let uploads = Registry::load(temp_dir.uploads(), &quota, options.upload_expiry);
        let uploads = uploads.map_err(OpenError::failed("read the unfinished uploads of", dir))?;
        let writer = Arc::new(Writer::new(
            temp_dir,
            options.durability,
            quota,
            Space::new(options.min_free),
            state.clock,
            Arc::clone(&counters),
        ));
        // Warns at once where uploads are refused from the beginning. A disk that does not tell is met by the first of them.
        let _ = writer.space().free(writer.dir().root());
        let recovered = journal::recover(&place, &writer, options.journal.discards)?;
        let journal = if is_journaled {
            Journal::start(&place, recovered, &writer)?
        } else {
            None
        };
        if wants_journal && !may_have_one {
            writer.set_unjournaled(
                "it is not known that this file system tells whether files could be written",
            );
        }
        let publisher = Publisher::start(Arc::clone(&writer), Arc::clone(&changes), journal);
        let publisher = publisher.map_err(&failed)?;
        Ok(Self {
            lister: options.lister(&values, &counters).map_err(&failed)?,
            dir: values,
            compute: BlockingPool::compute(options.compute_threads, options.cpus)
                .map_err(&failed)?,
            cache: options.cache(),
            counters,
            changes,
            is_text: options.is_text,
            writing: Some(Writing {
                writer,
                publisher,
                uploads: Arc::new(uploads),
                _lock: state.lock,
            }),
        })
    }

    /// Opens `dir` for reading alone: nothing is created or locked, so it may lie on a read-only file system and have
    /// other servers.
    pub fn open_read_only(dir: &Path, options: &Options) -> Result<Self, OpenError> {
        let failed = OpenError::failed("open", dir);
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir, directory, Mode::empty())
            .map_err(OpenError::failed("open", dir))?;
        if let Err(Errno::NOSYS | Errno::PERM) = open_beneath(&root, ".", directory, Mode::empty())
        {
            return Err(OpenError::NoOpenat2 {
                dir: dir.to_owned(),
            });
        }
        refuse_unreplayed(dir, &root, options)?;
        let location = Location::new(dir, &root, None).map_err(&failed)?;
        let values = Arc::new(Dir::new(
            root,
            location,
            BlockingPool::disk(options.cpus).map_err(&failed)?,
        ));
        let counters = Arc::<StoreCounters>::default();
        Ok(Self {
            compute: BlockingPool::compute(options.compute_threads, options.cpus)
                .map_err(&failed)?,
            lister: options.lister(&values, &counters).map_err(&failed)?,
            dir: values,
            cache: options.cache(),
            counters,
            changes: Arc::new(Changes::after(Version::from_nanos(0))),
            is_text: options.is_text,
            writing: None,
        })
    }
}

fn place(dir: &Path, options: &Options) -> Place {
    Place::new(dir, options.journal.dir.as_deref(), options.journal.size)
}

/// A directory that nothing writes to, and whose journal has what its files lack, would be answered without that.
fn refuse_unreplayed(dir: &Path, root: &OwnedFd, options: &Options) -> Result<(), OpenError> {
    let place = place(dir, options);
    if is_in_use(&place.own) || !journal::needs_replay(&place, root)? {
        return Ok(());
    }
    Err(OpenError::NotReplayed {
        dir: dir.to_owned(),
    })
}
