//! The secrets that requests are signed with: found at the start, and renewed before they expire by one thread,
//! `s3-credentials`. Readers get what is current and wait for nothing.
//!
//! They are never an option, and never in a log, an error or a `Debug`. Secrets that cannot be renewed stay in use: the store
//! decides when they are over.

mod services;
mod source;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;

use super::sign::{Renewed, Secrets};
use crate::s3::contract::Settings;
use services::Fetcher;
use source::{Source, Variables};

/// How long before their end secrets are renewed; of short-lived ones, at half of their time.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// How often a source that names no end is asked again: a file that another program renews.
const REREAD: Duration = Duration::from_secs(30);

/// The pause before the next try after a failed one, and the longest that it grows to.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The files that secrets are read from in the environment of this process, and the addresses that are asked for them.
pub fn reach(region: &str) -> (Vec<PathBuf>, Vec<String>) {
    Source::reach(&Variables::of_process(), region)
}

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
#[error("no credentials: {0}")]
pub struct NoCredentials(String);

/// The secrets of the moment.
#[derive(Debug)]
pub struct Credentials {
    current: Arc<RwLock<Arc<Secrets>>>,
    /// The thread ends with it.
    _end: oneshot::Sender<()>,
}

impl Credentials {
    /// Finds them by the environment of this process, and keeps them current. Blocks.
    pub fn start(settings: &Settings) -> Result<Self, NoCredentials> {
        let fetcher = Fetcher::new(settings.ca.clone());
        Self::find(Variables::of_process(), &settings.region, fetcher)
    }

    fn find(variables: Variables, region: &str, fetcher: Fetcher) -> Result<Self, NoCredentials> {
        let region = region.to_owned();
        let (found, first) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let run = move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let Ok(runtime) = runtime.enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                tokio::select! {
                    () = keep(&variables, &region, &fetcher, &found) => {}
                    _ = ended => {}
                }
            });
        };
        let thread = thread::Builder::new().name("s3-credentials".to_owned());
        let started = thread.spawn(run);
        started.map_err(|error| NoCredentials(format!("no thread to find them: {error}")))?;
        let first = first
            .recv()
            .map_err(|_| NoCredentials("their thread ended".to_owned()))?;
        Ok(Self {
            current: first?,
            _end: end,
        })
    }

    /// These, for ever.
    #[cfg(test)]
    pub fn fixed(secrets: Secrets) -> Self {
        Self {
            current: Arc::new(RwLock::new(Arc::new(secrets))),
            _end: oneshot::channel().0,
        }
    }

    /// The secrets of the moment. They are the same `Arc` until they change.
    pub fn current(&self) -> Arc<Secrets> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

type Loaded = Result<Arc<RwLock<Arc<Secrets>>>, NoCredentials>;

/// Finds secrets, hands them over, and renews them for as long as they can change.
async fn keep(
    variables: &Variables,
    region: &str,
    fetcher: &Fetcher,
    found: &mpsc::Sender<Loaded>,
) {
    let (source, first) = match Source::find(variables, region, fetcher).await {
        Ok(first) => first,
        Err(why) => {
            let _ = found.send(Err(NoCredentials(why)));
            return;
        }
    };
    let mut pause = pause_until(first.expires);
    let current = Arc::new(RwLock::new(Arc::new(first.secrets)));
    let _ = found.send(Ok(Arc::clone(&current)));
    let mut retry = RETRY.0;
    while source.can_change() {
        tokio::time::sleep(pause).await;
        match source.renew(fetcher).await {
            Ok(renewed) => {
                retry = RETRY.0;
                pause = pause_until(renewed.expires);
                replace(&current, renewed);
            }
            Err(why) => {
                tracing::warn!(why, "the credentials of the store were not renewed");
                pause = retry;
                retry = RETRY.1.min(retry * 2);
            }
        }
    }
}

fn replace(current: &RwLock<Arc<Secrets>>, renewed: Renewed) {
    let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
    if **current != renewed.secrets {
        *current = Arc::new(renewed.secrets);
    }
}

/// How long to wait before secrets that are valid until then are renewed.
fn pause_until(expires: Option<SystemTime>) -> Duration {
    let Some(expires) = expires else {
        return REREAD;
    };
    let left = expires
        .duration_since(SystemTime::now())
        .unwrap_or_default();
    left.saturating_sub(AHEAD).max(left / 2).max(RETRY.0)
}
