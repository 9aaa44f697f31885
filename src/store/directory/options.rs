//! What a directory store may use, and what it promises.

use std::path::PathBuf;
use std::time::Duration;

use rustix::thread::CpuSet;

use super::super::text::IsText;
use super::super::writer::Durability;
use crate::transfer::StagingBounds;

/// How a directory is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for hot small values, in bytes, overhead included; 0 is none.
    pub cache: u64,
    /// Files that the cache may keep open.
    pub cached_files: u64,
    /// Memory for the names of a large directory, so that a listing walks it no more, in bytes; 0 is none.
    pub listing_index: u64,
    /// What an acknowledged change survives.
    pub durability: Durability,
    /// The journal of a store that promises more than [`Durability::Os`].
    pub journal: JournalOptions,
    /// Threads at most for what keeps a processor busy; 0 has the reactors do it themselves.
    pub compute_threads: usize,
    /// The CPUs for those and the disk threads; without it, each inherits those of the thread that starts it.
    pub cpus: Option<CpuSet>,
    /// What bounds uploads.
    pub staging: StagingBounds,
    /// Bytes of the disk that no upload may take; 0 is none.
    pub min_free: u64,
    /// How long an unfinished resumable upload is kept after something was last done to it; zero is for ever.
    pub upload_expiry: Duration,
    /// Which values are looked at, whether they are UTF-8 text.
    pub is_text: IsText,
}

/// Where small values and deletes are on the disk first, so that one sync serves all that wait.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Whether there is one, where the file system allows it; else each value and each name is synced by itself.
    pub is_used: bool,
    /// Whether what cannot be read of it is given up.
    pub discards: bool,
    /// Its directory, if it is not below that of the values.
    pub dir: Option<PathBuf>,
    /// Bytes that it takes at most.
    pub size: u64,
}

impl JournalOptions {
    /// What the options stand for that are not given.
    pub const SIZE: u64 = 256 << 20;
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            is_used: true,
            discards: false,
            dir: None,
            size: Self::SIZE,
        }
    }
}
