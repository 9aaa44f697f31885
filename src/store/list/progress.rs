//! How long a tree of keys may read folders to catch up, by who waits for it. Reads nothing itself.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Who has the tree catch up.
#[derive(Clone, Copy)]
pub enum Reader<'r> {
    /// The thread that makes the tree, and waits for it.
    Maker,
    /// A listing: it gives up where folders are to be read for long.
    Listing,
    /// The thread that reads events between listings. It sets this flag once reading folders takes long, so that
    /// listings walk the directory instead of waiting for the thread.
    Background(&'r AtomicBool),
}

/// Folders that are read for longer than this, and have more than [`FEW`] names, are read for long.
const LONG: Duration = Duration::from_millis(20);

/// A listing reads up to this many names of folders, however long that takes: a walk of the directory would take
/// longer.
const FEW: usize = 1_000;

/// How far one `catch_up` of a tree is.
pub struct Progress<'r> {
    reader: Reader<'r>,
    began: Instant,
    /// Names of the folders that were read.
    pub names: usize,
}

impl<'r> Progress<'r> {
    pub fn new(reader: Reader<'r>) -> Self {
        Self {
            reader,
            began: Instant::now(),
            names: 0,
        }
    }

    /// False if the reader does not wait any longer; one that does is told if it takes long.
    pub fn may_go_on(&self) -> bool {
        let is_long = self.names > FEW && self.began.elapsed() > LONG;
        if let Reader::Background(flag) = self.reader
            && is_long
        {
            flag.store(true, Relaxed);
        }
        !is_long || !matches!(self.reader, Reader::Listing)
    }
}
