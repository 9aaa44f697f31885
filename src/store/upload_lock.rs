//! The lock of a resumable upload: one request at a time has it, and learns when another wants it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The lock of one upload.
#[derive(Debug)]
pub(super) struct UploadLock {
    /// Its one permit is the lock.
    permit: Arc<Semaphore>,
    /// How many requests wait for it.
    waiting: watch::Sender<usize>,
}

/// The lock is held as long as this lives.
pub(super) type Held = OwnedSemaphorePermit;

impl UploadLock {
    pub(super) fn new() -> Self {
        Self {
            permit: Arc::new(Semaphore::new(1)),
            waiting: watch::Sender::new(0),
        }
    }

    /// The lock, once its holder has given it up.
    pub(super) async fn acquire(&self) -> Option<Held> {
        let waiting = Waiting::begin(&self.waiting);
        let held = Arc::clone(&self.permit).acquire_owned().await.ok();
        drop(waiting);
        held
    }

    /// The lock, if nothing has it.
    pub(super) fn try_acquire(&self) -> Option<Held> {
        Arc::clone(&self.permit).try_acquire_owned().ok()
    }

    /// Waits until another request wants the lock. The lock has to outlive it.
    pub(super) fn is_wanted(&self) -> impl Future<Output = ()> + use<> {
        let mut waiting = self.waiting.subscribe();
        async move { drop(waiting.wait_for(|&waiting| waiting > 0).await) }
    }
}

/// A request that waits for the lock.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}
