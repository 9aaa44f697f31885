//! MKCOL, and DELETE of a folder. What its parts come to is the store's.

use std::cell::Cell;

use crate::http::body::request::Received;
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;
use crate::http::service::context::{RequestContext, Service};
use crate::store::Key;

/// Makes `folder`, unless there is a body.
pub async fn make_folder(
    service: &Service,
    folder: Key<'static>,
    body: &mut Received<'_>,
) -> Result<Outcome, Refusal> {
    while let Some(bytes) = body.next().await? {
        if !bytes.is_empty() {
            return Err(Refusal::FolderWithBody);
        }
    }
    service.store.make_folder(folder).await?;
    Ok(Outcome::FolderMade)
}

/// Removes `folder` with all that is below it, if it `is_deep`; else it only says how much that is. It ends with the rights of the client.
pub async fn remove_folder(
    request: &RequestContext,
    folder: Key<'static>,
    is_deep: bool,
) -> Result<Outcome, Refusal> {
    let Service { store, reactor, .. } = &*request.service;
    let refused = Cell::new(None);
    let may_go_on = || {
        let permitted = request.permit_removal(&folder);
        permitted.map_err(|why| refused.set(Some(why))).is_ok()
    };
    let removed = store.remove_folder(*reactor, folder.clone(), is_deep, may_go_on);
    let mut removed = Box::new(removed.await?.ok_or(Refusal::NoSuchFolder)?);
    let failure = removed.failure.take().map(Refusal::from);
    match failure.or_else(|| refused.take()) {
        Some(why) => Err(Refusal::OfFolder(Box::new(why), removed)),
        None if !is_deep => Err(Refusal::NeedsDepth {
            values: removed.met,
        }),
        None => Ok(Outcome::FolderRemoved(removed)),
    }
}
