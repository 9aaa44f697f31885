//! Opening a directory: its options, the start of a store that writes or only reads, and the look at a directory before
//! a start.
//!
//! A store that writes takes the lock, replays the journal before any value is read, and starts its threads. A store
//! that only reads creates and locks nothing, so it may lie on a read-only file system beside other servers; it refuses
//! a directory whose journal has changes that the files lack.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::Access;
use rustix::thread::CpuSet;

use super::keeper::Keeper;
use super::{Directory, Writing};
use crate::metrics::StoreCounters;
use crate::store::bounds::{Account, Bound, uses};
use crate::store::cache::Cache;
use crate::store::changes::Changes;
use crate::store::directory_fd::ValuesDir;
use crate::store::journal::{self, Journal, JournalLocation};
use crate::store::journal_state::JournalState;
use crate::store::layout::{OpenError, StateDir, file_system, is_in_use, open_values};
use crate::store::list::Lister;
use crate::store::multipart::Multiparts;
use crate::store::object::IsText;
use crate::store::publish::Publisher;
use crate::store::resumable::Registry;
use crate::store::space::Space;
use crate::store::write_context::{Durability, WriteContext};
use crate::transfer::{BlockingPool, Pipes, StagingBounds, StagingQuota};
use crate::value::RESERVED;

/// How a directory is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for hot small values, in bytes, overhead included; 0 is none.
    pub cache: u64,
    /// Files that the cache may keep open.
    pub cached_files: u64,
    /// Memory for the names of a large directory, so that a listing walks it no more, in bytes; 0 is none.
    pub listing_index: u64,
    /// The loss that an acknowledged change survives.
    pub durability: Durability,
    /// The journal of a store that promises more than [`Durability::Os`].
    pub journal: JournalOptions,
    /// Threads at most for what keeps a processor busy; 0 has the reactors do it themselves.
    pub compute_threads: usize,
    /// The CPUs for compute and disk threads; without it, a thread inherits the CPUs of its parent.
    pub cpus: Option<CpuSet>,
    /// The bounds of uploads.
    pub staging: StagingBounds,
    /// Bytes of the disk that no upload may take; 0 is none.
    pub min_free: u64,
    /// How long an unfinished resumable upload is kept after something was last done to it; zero is for ever.
    pub upload_expiry: Duration,
    /// The values whose first bytes are checked for UTF-8.
    pub is_text: IsText,
    /// The bounds of what is kept.
    pub bounds: Vec<Bound>,
    /// Bounds may evict what was there before them.
    pub evict_existing: bool,
}

/// The journal: small values and deletes are synced there, with one sync for all waiting writers.
#[derive(Clone, Debug, Default)]
pub struct JournalOptions {
    /// True for a journal where the file system allows it; without it each value and each name is synced by itself.
    pub is_used: bool,
    /// True to give up what cannot be read of it.
    pub discards: bool,
    /// Its directory, if it is not below the values.
    pub dir: Option<PathBuf>,
    /// Bytes that it takes at most.
    pub size: u64,
}

/// A small store, without a cache, an index, a journal or a bound.
impl Default for Options {
    fn default() -> Self {
        Self {
            cache: 0,
            cached_files: 1,
            listing_index: 0,
            compute_threads: 1,
            cpus: None,
            durability: Durability::Os,
            journal: JournalOptions::default(),
            staging: StagingBounds::default(),
            min_free: 0,
            upload_expiry: Duration::ZERO,
            is_text: |_, _| false,
            bounds: Vec::new(),
            evict_existing: false,
        }
    }
}

impl Directory {
    /// Opens `dir` for reading and writing, making it when it is missing.
    pub fn open(dir: &Path, options: &Options) -> Result<Self, OpenError> {
        let failed = OpenError::failed("start threads for", dir);
        let disk = BlockingPool::disk(options.cpus).map_err(failed)?;
        let mut state = StateDir::open(dir, options.durability, disk)?;
        let place = JournalLocation::new(dir, options.journal.dir.as_deref(), options.journal.size);
        let wants_journal = options.durability == Durability::Disk && options.journal.is_used;
        let may_have_one = file_system::may_be_journaled(state.kind.as_deref());
        let is_journaled = wants_journal && may_have_one;
        let flushes = file_system::flushes_at_rename(state.kind.as_deref());
        state.dirs.exchanges = is_journaled && flushes;
        let temp_dir = Arc::new(state.dirs);
        let clock = Arc::new(Mutex::new(state.clock));
        let changes = Changes::after(Arc::clone(&clock));
        let quota = StagingQuota::new(options.staging);
        let uploads = Registry::load(&temp_dir.uploads, &quota, options.upload_expiry);
        let uploads = uploads.map_err(OpenError::failed("read the unfinished uploads of", dir))?;
        let (durability, expiry) = (options.durability, options.upload_expiry);
        let multiparts = Multiparts::load(&temp_dir.parts, &quota, durability, expiry);
        let multiparts =
            multiparts.map_err(OpenError::failed("read the unfinished uploads of", dir))?;
        let bounds = &options.bounds;
        if bounds.is_empty() {
            uses::approve_none(&temp_dir.own);
        }
        let values = Arc::clone(&temp_dir.values);
        let account = (!bounds.is_empty())
            .then(|| Account::new(bounds.clone(), Some(&values), uses::load(&temp_dir.own)));
        if let Some(account) = &account {
            uploads.stage(account);
            multiparts.stage(account);
        }
        let opened = Self::reading(values, options, changes, account.clone());
        let mut opened = opened.map_err(failed)?;
        let writer = Arc::new(WriteContext {
            temp_dir,
            durability: options.durability,
            journal: JournalState::default(),
            is_read_only: AtomicBool::new(false),
            quota,
            space: Space::new(options.min_free, bounds.iter().any(Bound::evicts)),
            account: account.clone(),
            cache: Arc::clone(&opened.cache),
            clock,
            counters: Arc::clone(&opened.counters),
            pipes: Pipes::default(),
        });
        // Warns at once where uploads are refused from the beginning. A disk that does not tell is met by the first of
        // them.
        let _ = writer.free();
        let recovered = journal::recover(&place, &writer, options.journal.discards)?;
        let journal = if is_journaled {
            Journal::start(&place, recovered, &writer)?
        } else {
            None
        };
        if wants_journal && !may_have_one {
            writer.journal.set_missing(
                "it is not known that this file system tells whether files could be written",
            );
        }
        let changes = Arc::clone(&opened.changes);
        let publisher = Publisher::start(Arc::clone(&writer), changes, journal);
        let publisher = Arc::new(publisher.map_err(failed)?);
        let takes_existing = options.evict_existing;
        let keeper = account.map(|account| {
            let (lister, writer) = (Arc::clone(&opened.lister), Arc::clone(&writer));
            Keeper::start(account, lister, writer, &publisher, takes_existing)
        });
        opened.writing = Some(Writing {
            _keeper: keeper.transpose().map_err(failed)?,
            writer,
            publisher,
            uploads: Arc::new(uploads),
            multiparts: Arc::new(multiparts),
            _lock: state.lock,
        });
        Ok(opened)
    }

    /// Opens `dir` for reading alone: nothing is created or locked, so it may lie on a read-only file system and have
    /// other servers.
    pub fn open_read_only(dir: &Path, options: &Options) -> Result<Self, OpenError> {
        let failed = OpenError::failed("open", dir);
        let mut values = open_values(dir, options.cpus)?;
        // A journal that no server replays has changes that the answers would lack.
        let place = JournalLocation::new(dir, options.journal.dir.as_deref(), options.journal.size);
        if !is_in_use(&place.own) && journal::needs_replay(&place, &values.root)? {
            return Err(OpenError::Refused(format!(
                "the journal of {} has changes that its files lack: start it once without --read-only",
                dir.display()
            )));
        }
        values.ends.others_write = true;
        values.dates.others_write = true;
        let changes = Changes::starting_at(0);
        Self::reading(Arc::new(values), options, changes, None).map_err(failed)
    }

    /// Starts the threads that reads need.
    fn reading(
        dir: Arc<ValuesDir>,
        options: &Options,
        changes: Changes,
        account: Option<Arc<Account>>,
    ) -> std::io::Result<Self> {
        let counters = Arc::<StoreCounters>::default();
        let listings = Arc::clone(&counters.listings);
        let (threads, most) = (BlockingPool::listing(options.cpus)?, options.listing_index);
        Ok(Self {
            lister: Lister::new(Arc::clone(&dir), threads, most, account, listings),
            compute: BlockingPool::compute(options.compute_threads, options.cpus)?,
            cache: Arc::new(Cache::new(options.cache, options.cached_files)),
            dir,
            counters,
            changes: Arc::new(changes),
            is_text: options.is_text,
            writing: None,
        })
    }
}

/// Makes the default directory `dir` if it `may_make` and nothing is there; refuses a link, and a directory of another
/// user.
pub fn take_default(dir: &Path, may_make: bool) -> Result<(), OpenError> {
    let failed = |doing| OpenError::failed(doing, dir);
    if may_make
        && let Err(error) = fs::create_dir(dir)
        && error.kind() != ErrorKind::AlreadyExists
    {
        return Err(failed("create")(error));
    }
    let found = dir.symlink_metadata().map_err(failed("open"))?;
    let ours = rustix::process::geteuid().as_raw();
    let what = if found.is_symlink() {
        "a link".to_owned()
    } else if found.uid() == ours {
        return Ok(());
    } else {
        format!("of another user (uid {}, and not {ours})", found.uid())
    };
    let dir = dir.display();
    Err(OpenError::Refused(format!(
        "the default directory {dir} is {what}: it is not taken unless it is named; give --dir"
    )))
}

/// The state of a directory before a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspected {
    /// A start would make the directory.
    Missing,
    /// No server has it.
    Free,
    /// A server that writes has it.
    InUse,
}

/// Checks that a start could serve `dir`, and write there if it `may_write`. Changes nothing.
pub fn inspect(dir: &Path, may_write: bool) -> Result<Inspected, OpenError> {
    let may = |path: &Path, doing, access| {
        rustix::fs::access(path, access).map_err(OpenError::failed(doing, path))
    };
    match dir.metadata() {
        Ok(there) if there.is_dir() => {
            may(dir, "read", Access::READ_OK | Access::EXEC_OK)?;
            if may_write {
                may(dir, "write in", Access::WRITE_OK)?;
            }
            Ok(if is_in_use(&dir.join(RESERVED)) {
                Inspected::InUse
            } else {
                Inspected::Free
            })
        }
        Ok(_) => Err(OpenError::no_directory(dir)),
        Err(error) if error.kind() == ErrorKind::NotFound && may_write => {
            let absolute = std::path::absolute(dir).map_err(OpenError::failed("name", dir))?;
            let there = absolute.ancestors().skip(1).find(|path| path.exists());
            may(there.unwrap_or(&absolute), "write in", Access::WRITE_OK)?;
            Ok(Inspected::Missing)
        }
        Err(error) => Err(OpenError::failed("open", dir)(error)),
    }
}
