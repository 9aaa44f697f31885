//! MKCOL, and DELETE of a folder. What its parts come to is the store's.

use crate::http::body::request::Received;
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;
use crate::http::service::context::Service;
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

/// Removes `folder` with all that is below it, if it `is_deep`; else it only says how much that is.
pub async fn remove_folder(
    service: &Service,
    folder: Key<'static>,
    is_deep: bool,
) -> Result<Outcome, Refusal> {
    let removed = service
        .store
        .remove_folder(service.reactor, folder, is_deep)
        .await?;
    let mut removed = Box::new(removed.ok_or(Refusal::NoSuchFolder)?);
    match removed.failure.take() {
        Some(error) => Err(Refusal::OfFolder(Box::new(error.into()), removed)),
        None if !is_deep => Err(Refusal::NeedsDepth {
            values: removed.met,
        }),
        None => Ok(Outcome::FolderRemoved(removed)),
    }
}
