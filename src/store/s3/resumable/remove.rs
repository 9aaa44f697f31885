//! The end of a resumable upload that was not published, or has been for long.
//!
//! It is marked first, so that no request goes on with it; then what it has in the store is removed. Where that is broken
//! off, the sweep goes on with it.

use std::sync::Arc;

use hyper::Method;

use super::super::super::error::Error;
use super::super::call::Call;
use super::super::client::Client;
use super::super::contract::Exact;
use super::super::escape;
use super::super::joining::forget;
use super::RemoteResumable;
use super::info::{self, Info, Standing};

/// How often a request that makes changes at the same time is given way to.
const TRIES: usize = 8;

impl RemoteResumable {
    /// Removes it.
    pub async fn remove(&mut self) -> Result<(), Error> {
        self.receiving = None;
        bury(&self.client, &self.object, self.info.clone(), &self.etag).await?;
        self.has_ended();
        self.is_known = true;
        self.info.standing = Standing::Removed;
        Ok(())
    }

    /// It is no longer unfinished.
    pub(super) fn has_ended(&self) {
        self.shared.unfinished.ended(self.claim.id());
    }

    /// Has the store forget the tails that are no longer needed, while nothing waits for it.
    pub(super) fn drop_tails(&mut self) {
        let kept = self.info.progress.tail.as_ref().map(|tail| &tail.name);
        for name in std::mem::take(&mut self.tails) {
            if Some(&name) != kept {
                discard(&self.client, info::object(self.client.place(), &name));
            }
        }
    }
}

impl Drop for RemoteResumable {
    fn drop(&mut self) {
        if self.is_known {
            return;
        }
        let (client, object) = (Arc::clone(&self.client), self.object.clone());
        let (info, etag) = (self.info.clone(), self.etag.clone());
        let (shared, id) = (Arc::clone(&self.shared), self.claim.id());
        // Without a runtime the process is about to end; the sweep finds it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                match bury(&client, &object, info, &etag).await {
                    Ok(()) => shared.unfinished.ended(id),
                    Err(error) => {
                        tracing::warn!(%error, "an upload stays in the store until it expires");
                    }
                }
            });
        }
    }
}

/// Removes the upload that `object` keeps, which is `info` under `etag` or a later version.
async fn bury(client: &Client, object: &str, mut info: Info, etag: &str) -> Result<(), Error> {
    let mut etag = etag.to_owned();
    for _ in 0..TRIES {
        if info.standing == Standing::Removed || mark(client, object, &mut info, &etag).await? {
            clear(client, object, &info).await;
            return Ok(());
        }
        match info::load(client, object).await? {
            Some(now) => (info, etag) = (now.info, now.etag),
            None => return Ok(()),
        }
    }
    Err(Error::Busy { retry_after: 1 })
}

/// Marks the upload as removed, if it still is what `etag` says.
pub(super) async fn mark(
    client: &Client,
    object: &str,
    info: &mut Info,
    etag: &str,
) -> Result<bool, Error> {
    let standing = std::mem::replace(&mut info.standing, Standing::Removed);
    match info::save(client, object, info, &Exact::Swap(etag.to_owned())).await {
        Ok(_) => Ok(true),
        Err(Error::Taken) => {
            info.standing = standing;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Removes what an upload that is marked has in the store; what says where it is comes last.
pub(super) async fn clear(client: &Client, object: &str, info: &Info) {
    let place = client.place();
    if let Some(id) = &info.multipart {
        let value = escape::path(&format!("{}{}", place.prefix, info.key));
        let call = Call::named(Method::DELETE, value).with_query(&[("uploadId", id)]);
        forget(client, &call).await;
    }
    if let Some(tail) = &info.progress.tail {
        let tail = info::object(place, &tail.name);
        forget(client, &Call::named(Method::DELETE, tail)).await;
    }
    forget(client, &Call::named(Method::DELETE, object.to_owned())).await;
}

/// Removes an object while nothing waits for it.
pub(super) fn discard(client: &Arc<Client>, object: String) {
    let client = Arc::clone(client);
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let call = Call::named(Method::DELETE, object);
        runtime.spawn(async move { forget(&client, &call).await });
    }
}
