//! The readiness of the server: its phase of life, and the answer of its disk.
//!
//! The disk is probed on the disk threads, never on a reactor, at most once a second whatever the number of requests, and by one
//! probe at a time: one thread waits for a disk that does not answer, not one for each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::store::{self, Error, Free, Store};

/// The time for which an answer of the disk counts.
const FRESH: Duration = Duration::from_secs(1);

/// The time in which the disk has to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The readiness of the server, with the reason where it is limited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Readiness {
    #[error("ready")]
    Ready,
    #[error("ready, but without a journal, as {0}: each write is synced by itself")]
    Unjournaled(&'static str),
    #[error("not ready: starting")]
    Starting,
    #[error("not ready: draining")]
    Draining,
    #[error("not ready: {0}")]
    Displaced(&'static str),
    #[error("not ready: {0}")]
    Refused(String),
    #[error("not ready: the {0} has not answered for {seconds} s", seconds = TIMEOUT.as_secs())]
    Silent(&'static str),
    #[error(
        "ready for reads: uploads are refused: {free} bytes are free, and --min-free keeps {floor}"
    )]
    Low { free: u64, floor: u64 },
    #[error("ready for reads: uploads are refused: {0}")]
    Full(&'static str),
}

/// A phase of the server's life; none comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Serving,
    Draining,
}

/// The phase, as all threads see it.
#[derive(Debug, Default)]
pub struct Lifecycle(AtomicU8);

impl Lifecycle {
    pub fn enter(&self, phase: Phase) {
        self.0.fetch_max(phase as u8, Ordering::Release);
    }

    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }
}

/// The probe of the store.
pub struct Probe {
    store: Arc<Store>,
    state: Mutex<State>,
    answer: Arc<LastAnswer>,
}

/// The last answers about readiness and free space, for the metrics.
#[derive(Debug)]
pub struct LastAnswer {
    is_ready: AtomicBool,
    /// Bytes free for values; [`u64::MAX`] where the store cannot tell.
    free: AtomicU64,
}

impl Default for LastAnswer {
    fn default() -> Self {
        Self {
            is_ready: AtomicBool::default(),
            free: AtomicU64::new(u64::MAX),
        }
    }
}

impl LastAnswer {
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    pub fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|&free| free != u64::MAX)
    }

    pub fn note(&self, readiness: &Readiness) {
        self.is_ready.store(readiness.is_ready(), Ordering::Relaxed);
    }
}

#[derive(Default)]
struct State {
    last: Option<(Instant, Readiness)>,
    /// The probe that the disk has not answered yet.
    pending: Option<store::Probe>,
}

impl Probe {
    pub fn new(store: Arc<Store>, answer: Arc<LastAnswer>) -> Self {
        Self {
            store,
            state: Mutex::default(),
            answer,
        }
    }

    /// Ready where the directory is still where it was opened and, unless it is only read, takes values.
    pub async fn readiness(&self) -> Readiness {
        let mut state = self.state.lock().await;
        if let Some((at, known)) = &state.last
            && at.elapsed() < FRESH
        {
            return known.clone();
        }
        let probe = state.pending.get_or_insert_with(|| self.store.probe());
        let readiness = match timeout(TIMEOUT, probe).await {
            Ok(answer) => {
                state.pending = None;
                let free = answer.as_ref().ok().and_then(|free| *free);
                let free = free.map_or(u64::MAX, |free| free.bytes);
                self.answer.free.store(free, Ordering::Relaxed);
                self.judge(answer)
            }
            Err(_) => Readiness::Silent(match &*self.store {
                Store::Directory(_) => "disk",
                Store::S3(_) => "store",
            }),
        };
        state.last = Some((Instant::now(), readiness.clone()));
        readiness
    }

    /// The readiness for a scrape, which sends no request to an S3 store: requests cost, and the scrape counts them.
    pub async fn for_scrape(&self) -> Readiness {
        match &*self.store {
            Store::Directory(_) => self.readiness().await,
            Store::S3(_) => {
                let last = &self.state.lock().await.last;
                last.as_ref()
                    .map_or(Readiness::Ready, |(_, known)| known.clone())
            }
        }
    }

    /// The readiness by the answer of the store. A full disk does not end readiness: one client that fills it would take the reads
    /// from all others.
    fn judge(&self, answer: Result<Option<Free>, Error>) -> Readiness {
        match answer {
            Err(Error::Displaced { reason }) => Readiness::Displaced(reason),
            Err(Error::NoSpace { reason }) => Readiness::Full(reason),
            Err(error) => Readiness::Refused(match &*self.store {
                Store::Directory(_) => format!("the disk refuses writes: {error}"),
                Store::S3(_) => error.to_string(),
            }),
            Ok(Some(Free { bytes, floor })) if bytes <= floor && floor > 0 => {
                Readiness::Low { free: bytes, floor }
            }
            Ok(_) => {
                let unjournaled = self.store.unjournaled();
                unjournaled.map_or(Readiness::Ready, Readiness::Unjournaled)
            }
        }
    }
}

impl Readiness {
    pub fn is_ready(&self) -> bool {
        matches!(
            self,
            Self::Ready | Self::Unjournaled(_) | Self::Low { .. } | Self::Full(_)
        )
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::http::admin::health::*;

    #[test]
    fn a_server_starts_serves_and_drains_and_never_goes_back() {
        let lifecycle = Lifecycle::default();
        assert_eq!(lifecycle.phase(), Phase::Starting);
        lifecycle.enter(Phase::Serving);
        assert_eq!(lifecycle.phase(), Phase::Serving);
        lifecycle.enter(Phase::Draining);
        lifecycle.enter(Phase::Serving);
        assert_eq!(lifecycle.phase(), Phase::Draining);
    }
}
