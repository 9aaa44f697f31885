//! The disk threads: where everything runs that may wait for a device.
//!
//! One elastic pool for all reactors (named `disk-*`), so their number is a budget of the process and not of each
//! reactor. A job that has started runs to its end, also when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle, Runtime};

use super::error::Error;

/// Enough to keep a deep device queue busy; more threads only queue in the kernel instead of here.
const MAX_THREADS: usize = 32;

/// A handle on the disk threads; clones share them, and the last one to go lets them end.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    handle: Handle,
    // Taken on drop: a runtime may not wait for its threads from within another runtime.
    runtime: Option<Runtime>,
}

impl Disk {
    pub(super) fn start() -> std::io::Result<Self> {
        let next = AtomicUsize::new(0);
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(MAX_THREADS)
            .thread_name_fn(move || format!("disk-{}", next.fetch_add(1, Ordering::Relaxed)))
            .build()?;
        Ok(Self(Arc::new(Pool {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })))
    }

    /// Runs `job` on a disk thread, starting when the future is first polled, and waits for its result.
    pub(super) async fn run<T, F>(&self, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Error> + Send + 'static,
    {
        self.spawn(job).await
    }

    /// Starts `job` on a disk thread at once; the future waits for its result.
    pub(super) fn spawn<T, F>(&self, job: F) -> impl Future<Output = Result<T, Error>> + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Error> + Send + 'static,
    {
        let running = self.0.handle.spawn_blocking(job);
        async move {
            let panicked = |panic| Error::Failed {
                doing: "disk thread",
                source: std::io::Error::other(panic),
            };
            running.await.unwrap_or_else(|panic| Err(panicked(panic)))
        }
    }

    /// Runs `job` on a disk thread some time; nobody waits for it.
    pub(super) fn later(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.handle.spawn_blocking(job));
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
