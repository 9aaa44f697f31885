//! The readiness of the store, as its last probe found it.
//!
//! The store is probed on the disk threads, never on a reactor, at most once a second whatever the number of requests,
//! and by one probe at a time: one thread waits for a disk that does not answer, not one for each request.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::store::bounds::Total;
use crate::store::{self, Directory, Error, Free, Store};

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
#[derive(Default)]
pub struct ReadinessProbe {
    state: Mutex<ProbeState>,
    /// Bytes free for values, as the last probe found, where the store can report it. A reader waits for no probe under
    /// way.
    pub free: parking_lot::Mutex<Option<u64>>,
}

#[derive(Default)]
struct ProbeState {
    last: Option<(Instant, Readiness)>,
    /// The probe that the store has not answered yet.
    pending: Option<store::Probe>,
}

impl ReadinessProbe {
    /// Returns ready if the directory is still where it was opened and, unless it is only read, takes values. A scrape
    /// sends no request to an S3 store: requests cost, and the scrape counts them.
    pub async fn readiness(&self, store: &Store, is_scrape: bool) -> Readiness {
        let mut state = self.state.lock().await;
        let costs = is_scrape && matches!(store, Store::S3(_));
        match &state.last {
            Some((at, known)) if costs || at.elapsed() < FRESH => return known.clone(),
            None if costs => return Ok(READY.to_owned()),
            _ => {}
        }
        let probe = state.pending.get_or_insert_with(|| store.probe());
        let readiness = if let Ok(answer) = timeout(TIMEOUT, probe).await {
            state.pending = None;
            let free = answer.as_ref().ok().copied().flatten();
            *self.free.lock() = free.map(|free| free.bytes);
            judge(store, answer)
        } else {
            let store = match store {
                Store::Directory(_) => "disk",
                Store::S3(_) => "store",
            };
            let seconds = TIMEOUT.as_secs();
            Err(format!("the {store} has not answered for {seconds} s"))
        };
        state.last = Some((Instant::now(), readiness.clone()));
        readiness
    }
}

/// The readiness by the answer of the store. A full disk does not end readiness: otherwise one client that fills the
/// disk would stop the reads of all others.
fn judge(store: &Store, answer: Result<Option<Free>, Error>) -> Readiness {
    match answer {
        Err(Error::Displaced(reason)) => Err(reason.to_string()),
        Err(Error::NoSpace(reason)) => Ok(format!("{READS_ONLY}: {reason}")),
        Err(error) => Err(match store {
            Store::Directory(_) => format!("the disk refuses writes: {error}"),
            Store::S3(_) => error.to_string(),
        }),
        Ok(Some(Free { bytes, floor, .. })) if is_short_of_space(store) => Ok(format!(
            "{READS_ONLY}: {bytes} bytes are free, and --min-free keeps {floor}"
        )),
        Ok(_) => Ok(
            bounds_to_keep(store).unwrap_or_else(|| match store.unjournaled() {
                None => READY.to_owned(),
                Some(why) => {
                    format!(
                        "ready, but without a journal, as {why}: each write is synced by itself"
                    )
                }
            }),
        ),
    }
}

fn is_short_of_space(store: &Store) -> bool {
    let directory = store.directory();
    directory.is_some_and(Directory::is_short_of_space)
}

/// The text of a server that does not keep its bounds yet: it serves reads, so it is ready.
fn bounds_to_keep(store: &Store) -> Option<String> {
    let account = store.directory()?.account()?;
    if let Err(counting) = account.counted() {
        return Some(format!("{READS_ONLY}: {counting}"));
    }
    let Total { bytes, keys } = account.above();
    let is_above = bytes > 0 || keys > 0;
    is_above.then(|| {
        format!("ready, and evicting what is above the bounds: {bytes} bytes, or {keys} values, are left")
    })
}
