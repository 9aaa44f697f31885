//! The thread that puts the journal on the disk, while the publisher writes the files of the group.
//!
//! For `--durability disk` the publisher waits for the sync of each group. For `second` it does not, and the thread syncs once
//! a second what was written by then.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::segment::Segment;

/// How often `second` syncs.
const SECOND: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) enum Syncer {
    /// Each group is waited for.
    Each {
        to_sync: Sender<Arc<Segment>>,
        synced: Receiver<Result<(), Errno>>,
        thread: JoinHandle<()>,
    },
    /// Nothing is waited for.
    EachSecond {
        to_sync: Sender<(u64, Arc<Segment>)>,
        /// Generations of segments whose sync has failed.
        failed: Receiver<u64>,
        thread: JoinHandle<()>,
    },
}

impl Syncer {
    /// One that is waited for; `sync` syncs a segment.
    pub(super) fn each(
        sync: impl Fn(&Segment) -> Result<(), Errno> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (to_sync, waiting) = mpsc::channel::<Arc<Segment>>();
        let (reply, synced) = mpsc::channel();
        let thread = start(move || {
            while let Ok(segment) = waiting.recv() {
                if reply.send(sync(&segment)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self::Each {
            to_sync,
            synced,
            thread,
        })
    }

    /// One that syncs each second.
    pub(super) fn each_second(
        sync: impl Fn(&Segment) -> Result<(), Errno> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (to_sync, waiting) = mpsc::channel();
        let (failure, failed) = mpsc::channel();
        let thread = start(move || sync_each_second(&waiting, sync, &failure))?;
        Ok(Self::EachSecond {
            to_sync,
            failed,
            thread,
        })
    }

    /// Has `segment`, of this generation, synced.
    pub(super) fn begin(&self, generation: u64, segment: &Arc<Segment>) {
        // The thread ends only after this, or has died: then nothing is synced, which the wait finds.
        match self {
            Self::Each { to_sync, .. } => drop(to_sync.send(Arc::clone(segment))),
            Self::EachSecond { to_sync, .. } => {
                drop(to_sync.send((generation, Arc::clone(segment))));
            }
        }
    }

    /// Waits for the sync that was begun; of one that syncs each second, for nothing.
    pub(super) fn wait(&self) -> Result<(), Errno> {
        match self {
            Self::Each { synced, .. } => synced.recv().unwrap_or(Err(Errno::IO)),
            Self::EachSecond { .. } => Ok(()),
        }
    }

    /// Generations of segments whose sync has failed since this was asked last, though nothing waited for it.
    pub(super) fn failed(&self) -> Vec<u64> {
        match self {
            Self::Each { .. } => Vec::new(),
            Self::EachSecond { failed, .. } => failed.try_iter().collect(),
        }
    }

    /// Ends the thread.
    pub(super) fn end(self) {
        // It ends when nothing more can come.
        let thread = match self {
            Self::Each {
                to_sync, thread, ..
            } => {
                drop(to_sync);
                thread
            }
            Self::EachSecond {
                to_sync, thread, ..
            } => {
                drop(to_sync);
                thread
            }
        };
        let _ = thread.join();
    }
}

fn start(work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("disk-journal".into());
    thread.spawn(work)
}

/// Syncs what comes, at the latest a second after it came.
fn sync_each_second(
    waiting: &Receiver<(u64, Arc<Segment>)>,
    sync: impl Fn(&Segment) -> Result<(), Errno>,
    failure: &Sender<u64>,
) {
    let mut is_ended = false;
    while !is_ended {
        let Ok((mut generation, mut segment)) = waiting.recv() else {
            return;
        };
        let end = Instant::now() + SECOND;
        let flush = |generation, segment: &Segment| {
            if sync(segment).is_err() {
                let _ = failure.send(generation);
            }
        };
        loop {
            match waiting.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((next, _)) if next == generation => {}
                Ok((next, other)) => {
                    flush(generation, &segment);
                    (generation, segment) = (next, other);
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    is_ended = true;
                    break;
                }
            }
        }
        flush(generation, &segment);
    }
}
