//! What servers leave in a store: resumable uploads that expired, and the objects of a check that was killed.
//!
//! Both are told by their names. A killed server also leaves parts of a long value, which the store keeps, unseen. A list of
//! uploads does not say which program began one, so none is ended here: a rule of the store removes them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::client::Client;
use super::leftovers;
use super::resumable::UnfinishedUploads;
use super::resumable::sweep::expire;

/// How old a resumable upload is that has been given up where none expires, and how long after a search the next one is.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How often uploads that expired are looked for at least.
const HOUR: Duration = Duration::from_secs(3600);

/// What sweeps a store from time to time.
#[derive(Debug)]
pub(super) struct Sweeper {
    client: Client,
    /// How long a resumable upload is kept; `None` where there are none.
    upload_expiry: Option<Duration>,
    unfinished: Arc<UnfinishedUploads>,
    /// When it does next; `None` while it sweeps.
    next: Mutex<Option<Instant>>,
    /// When it looks next for uploads that expired; `None` while it does.
    next_expiry: Mutex<Option<Instant>>,
}

impl Sweeper {
    /// One with a client of its own, which tells what it finds.
    pub(super) fn new(
        client: Client,
        upload_expiry: Option<Duration>,
        unfinished: Arc<UnfinishedUploads>,
    ) -> Self {
        Self {
            client,
            upload_expiry,
            unfinished,
            next: Mutex::new(Some(Instant::now())),
            next_expiry: Mutex::new(upload_expiry.map(|_| Instant::now())),
        }
    }

    /// Sweeps, if it is time to.
    pub(super) async fn tick(&self) {
        if is_time(&self.next_expiry) {
            let pause = self.expire(self.upload_expiry.unwrap_or_default()).await;
            *locked(&self.next_expiry) = Some(Instant::now() + pause);
        }
        if is_time(&self.next) {
            self.sweep().await;
            *locked(&self.next) = Some(Instant::now() + DAY);
        }
    }

    async fn expire(&self, expiry: Duration) -> Duration {
        match expire(&self.client, &self.unfinished, expiry, DAY).await {
            Ok(0) => {}
            Ok(uploads) => tracing::info!(uploads, "resumable uploads that expired are removed"),
            Err(error) => {
                tracing::warn!(%error, "the store was not searched for uploads that expired");
            }
        }
        if expiry.is_zero() {
            return DAY;
        }
        expiry.clamp(Duration::from_secs(1), HOUR)
    }

    async fn sweep(&self) {
        if let Err(error) = leftovers::sweep(&self.client, leftovers::OLD).await {
            tracing::warn!(%error, "the store was not searched for what a check left behind");
        }
    }
}

fn is_time(next: &Mutex<Option<Instant>>) -> bool {
    let has_come = |next: &mut Instant| *next <= Instant::now();
    locked(next).take_if(has_come).is_some()
}

fn locked(next: &Mutex<Option<Instant>>) -> std::sync::MutexGuard<'_, Option<Instant>> {
    next.lock().unwrap_or_else(PoisonError::into_inner)
}
