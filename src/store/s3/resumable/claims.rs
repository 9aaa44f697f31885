//! The resumable uploads that requests of this server have at the moment: one request has an upload, and gives it up when
//! another of this server wants it. Between servers, what is kept of the upload decides ([`super::info`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::super::super::resumable::UploadId;
use super::super::super::upload_lock::{Held, UploadLock};

type Locks = HashMap<UploadId, Weak<UploadLock>>;

/// The uploads that requests of this server have.
#[derive(Debug, Default)]
pub(in crate::store) struct Claims(Mutex<Locks>);

/// The right of a request to change an upload.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Arc<Claims>,
    id: UploadId,
    lock: Arc<UploadLock>,
    /// `None` while it is waited for.
    held: Option<Held>,
}

impl Claims {
    /// The upload `id`, once the request that has it has given it up.
    pub(super) async fn claim(self: &Arc<Self>, id: UploadId) -> Claim {
        let lock = self.lock(id);
        let mut claim = Claim {
            claims: Arc::clone(self),
            id,
            lock,
            held: None,
        };
        claim.held = claim.lock.acquire().await;
        claim
    }

    fn lock(&self, id: UploadId) -> Arc<UploadLock> {
        let mut locks = self.locks();
        if let Some(lock) = locks.get(&id).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(UploadLock::new());
        locks.insert(id, Arc::downgrade(&lock));
        lock
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    pub(super) fn id(&self) -> UploadId {
        self.id
    }

    /// Waits until another request wants it.
    pub(super) fn is_wanted(&self) -> impl Future<Output = ()> + use<> {
        self.lock.is_wanted()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.held = None;
        let mut locks = self.claims.locks();
        // A request that waits has it too.
        if Arc::strong_count(&self.lock) == 1 {
            locks.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn one_request_has_an_upload_and_hears_of_the_next() {
        let claims = Arc::new(Claims::default());
        let id = UploadId::random().unwrap();
        let first = claims.claim(id).await;
        assert!(first.is_wanted().now_or_never().is_none());
        let mut second = Box::pin(claims.claim(id));
        assert!((&mut second).now_or_never().is_none());
        assert!(first.is_wanted().now_or_never().is_some());
        drop(first);
        let second = second.await;
        assert!(second.is_wanted().now_or_never().is_none());
        drop(second);
        assert!(claims.locks().is_empty());
    }
}
