//! The readiness of the store, as its last probe found it.
//!
//! The store is probed on the disk threads, never on a reactor, at most once a second whatever the number of requests, and by one
//! probe at a time: one thread waits for a disk that does not answer, not one for each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::store::{self, Error, Free, Store};

/// How long the result of a probe is reused.
const FRESH: Duration = Duration::from_secs(1);

/// The texts of a server that is ready.
const READY: &str = "ready";
const READS_ONLY: &str = "ready for reads: uploads are refused";

/// The time in which the store has to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The readiness of the server: the text that reports it, or why it is not ready.
pub type Readiness = Result<String, String>;

/// The prober of the store.
pub struct Probe {
    store: Arc<Store>,
    state: Mutex<ProbeState>,
    /// Bytes free for values; [`u64::MAX`] where the store cannot report it.
    free: AtomicU64,
}

#[derive(Default)]
struct ProbeState {
    last: Option<(Instant, Readiness)>,
    /// The probe that the store has not answered yet.
    pending: Option<store::Probe>,
}

impl Probe {
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            state: Mutex::default(),
            free: AtomicU64::new(u64::MAX),
        }
    }

    /// Bytes free for values, as the last probe found.
    pub fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|&free| free != u64::MAX)
    }

    /// Returns ready if the directory is still where it was opened and, unless it is only read, takes values.
    pub async fn readiness(&self) -> Readiness {
        let mut state = self.state.lock().await;
        if let Some((at, known)) = &state.last
            && at.elapsed() < FRESH
        {
            return known.clone();
        }
        let probe = state.pending.get_or_insert_with(|| self.store.probe());
        let readiness = if let Ok(answer) = timeout(TIMEOUT, probe).await {
            state.pending = None;
            let free = answer.as_ref().ok().and_then(|free| *free);
            let free = free.map_or(u64::MAX, |free| free.bytes);
            self.free.store(free, Ordering::Relaxed);
            self.judge(answer)
        } else {
            let store = match &*self.store {
                Store::Directory(_) => "disk",
                Store::S3(_) => "store",
            };
            let seconds = TIMEOUT.as_secs();
            Err(format!("the {store} has not answered for {seconds} s"))
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
                let known = last.as_ref().map(|(_, known)| known.clone());
                known.unwrap_or_else(|| Ok(READY.to_owned()))
            }
        }
    }

    /// The readiness by the answer of the store. A full disk does not end readiness: otherwise one client that fills the disk would
    /// stop the reads of all others.
    fn judge(&self, answer: Result<Option<Free>, Error>) -> Readiness {
        match answer {
            Err(Error::Displaced(reason)) => Err(reason.to_string()),
            Err(Error::NoSpace(reason)) => Ok(format!("{READS_ONLY}: {reason}")),
            Err(error) => Err(match &*self.store {
                Store::Directory(_) => format!("the disk refuses writes: {error}"),
                Store::S3(_) => error.to_string(),
            }),
            Ok(Some(Free { bytes, floor })) if bytes <= floor && floor > 0 => Ok(format!(
                "{READS_ONLY}: {bytes} bytes are free, and --min-free keeps {floor}"
            )),
            Ok(_) => Ok(match self.store.unjournaled() {
                None => READY.to_owned(),
                Some(why) => {
                    format!(
                        "ready, but without a journal, as {why}: each write is synced by itself"
                    )
                }
            }),
        }
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}
