//! MKCOL, and MOVE, COPY and DELETE of a folder. What its parts come to is the store's, but for a COPY: that is one of each value.

use std::cell::Cell;

use futures_util::future::join_all;

use crate::http::auth::credentials::Principal;
use crate::http::body::request::Received;
use crate::http::head::path::check_depth;
use crate::http::refusal::Refusal;
use crate::http::response::outcome::{CopiedFolder, Outcome};
use crate::http::service::context::{RequestContext, Service};
use crate::http::service::operation::{FolderMove, MoveRequest};
use crate::http::service_config::ServiceConfig;
use crate::http::values::content_names::are_alike;
use crate::http::values::moves::BadMove;
use crate::http::values::moves::perform::relocate;
use crate::store::{Error, Key, PAGE, Page, Stays};

/// Values that are copied at once: few, so that long ones leave disk threads to others.
const COPIED_AT_ONCE: usize = 8;

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
        Some(why) => Err(Refusal::OfFolder(Box::new(why), removed.removed, "removed")),
        None if !is_deep => Err(Refusal::NeedsDepth {
            values: removed.met,
        }),
        None => Ok(Outcome::FolderRemoved(removed)),
    }
}

/// Gives the folder its other name, unless a key below it would be none there, or other rules would hold for it.
pub async fn move_folder(service: &Service, asked: FolderMove) -> Result<Outcome, Refusal> {
    let (store, reactor) = (&service.store, service.reactor);
    let has_same_bounds = store.may_move_folder(&asked.from, &asked.to)?;
    if !has_same_bounds || !are_alike([&asked.from, &asked.to], &service.config) {
        return Err(BadMove::OtherRules.into());
    }
    let [from, to] = [&asked.from, &asked.to].map(Key::as_str);
    let is_longer = to.len() > from.len() || to.split('/').count() > from.split('/').count();
    let mut page = is_longer.then(|| Page::below(&asked.from, PAGE));
    while let Some(listing) = store.next_page(reactor, &mut page).await? {
        for (key, _) in &listing.keys {
            check_depth(&asked.to(key)?, service.config.limits.max_key_depth)?;
        }
    }
    match store.move_folder(asked.from, asked.to.clone()).await {
        Err(Error::NameTaken(what)) => Err(BadMove::Taken(what, asked.overwrites).into()),
        moved => Ok(moved.map(|()| Outcome::FolderMoved(asked.to))?),
    }
}

/// Copies the values below the folder, some at a time, after a look at the rights to all and at their names. A failure ends it; a value
/// that is refused alone is told.
pub async fn copy_folder(request: &RequestContext, asked: FolderMove) -> Result<Outcome, Refusal> {
    let service = &*request.service;
    let (store, reactor) = (&service.store, service.reactor);
    let first = Some(Page::below(&asked.from, PAGE));
    let (mut page, mut is_there) = (first.clone(), store.has_folder(&asked.from).await?);
    while let Some(listing) = store.next_page(reactor, &mut page).await? {
        for (key, _) in &listing.keys {
            is_there = true;
            copy_of(request.principal(), &service.config, &asked, key)?;
        }
    }
    if !is_there {
        return Err(Refusal::NoSuchFolder);
    }
    let (mut copied, mut stays) = (0, Stays::default());
    let mut copy_all = async |mut page: Option<Page>| {
        while let Some(listing) = store.next_page(reactor, &mut page).await? {
            for some in listing.keys.chunks(COPIED_AT_ONCE) {
                // It ends with the rights of the client.
                let by_now = request.principal().map(Principal::by_now).transpose()?;
                let client = by_now.as_ref();
                if let Some(client) = client {
                    client.permit_copy(asked.from.as_str(), asked.to.as_str())?;
                }
                let outcomes = some.iter().map(async |(key, _)| {
                    let copy = copy_of(client, &service.config, &asked, key)?;
                    relocate(request, copy).await
                });
                let mut failure = Ok(());
                for ((key, _), outcome) in some.iter().zip(join_all(outcomes).await) {
                    match outcome {
                        Ok(Outcome::Relocated(made)) => {
                            copied += 1;
                            request.audit_changed(&made.key);
                        }
                        // It has gone meanwhile.
                        Ok(_) => {}
                        Err(why) if why.row(&service.config).status.is_client_error() => {
                            stays.add(key.as_str().to_owned(), why.to_string());
                        }
                        Err(why) => failure = Err(why),
                    }
                }
                failure?;
            }
        }
        Ok::<_, Refusal>(())
    };
    if let Err(why) = copy_all(first).await {
        return Err(Refusal::OfFolder(Box::new(why), copied, "copied"));
    }
    Ok(Outcome::FolderCopied(Box::new(CopiedFolder {
        copied,
        stays,
    })))
}

/// The COPY of the value of `key`, if the `client` has the rights to it.
fn copy_of(
    client: Option<&Principal>,
    config: &ServiceConfig,
    asked: &FolderMove,
    key: &Key<'_>,
) -> Result<MoveRequest, Refusal> {
    let mut copy = asked.copy_of(key, config)?;
    if let Some(client) = client {
        client.permit_move(&mut copy)?;
    }
    Ok(copy)
}
