//! MKCOL, and MOVE and DELETE of a folder. What they come to is the store's.

use std::cell::Cell;

use async_trait::async_trait;
use hyper::StatusCode;
use serde::Serialize;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::head::path::check_depth;
use crate::http::locks::Scope;
use crate::http::refusal::common::NO_SUCH_FOLDER;
use crate::http::refusal::kind::Kind;
use crate::http::refusal::{BulkProgress, BulkWork, Refusal};
use crate::http::request::{RequestContext, Service};
use crate::http::response::{JSON, Outcome, Reply, empty, unstored};
use crate::http::service_config::ServiceConfig;
use crate::http::values::content_names::are_alike;
use crate::http::values::moves::{FolderMove, KEPT, OTHER_RULES, TAKEN};
use crate::http::verb::{BodyUse, Verb};
use crate::store::{Error, Key, Order, RemovedFolder, Stays, ValuesBelow};

const NEEDS_DEPTH: &Kind = &Kind::new(StatusCode::CONFLICT, "needs-depth");

/// The reply with a report of the removal or the copy of a folder: 409 where something stays, or was not copied.
pub fn report(report: &impl Serialize, stays: &Stays) -> Reply {
    let report = serde_json::to_string(report).unwrap_or_default() + "\n";
    Reply::from(if stays.count == 0 {
        unstored(StatusCode::OK, JSON, report)
    } else {
        unstored(StatusCode::CONFLICT, JSON, report)
    })
}

/// Makes the folder of this name, to stay without a value.
pub struct MakeFolder {
    folder: Key<'static>,
    with_above: bool,
}

impl MakeFolder {
    /// The folder of this name, if there can be a key below it.
    pub fn of(folder: Key<'static>, config: &ServiceConfig) -> Result<Self, Refusal> {
        let below = Key::new(format!("{folder}/k"))?;
        check_depth(&below, config.limits.max_key_depth)?;
        Ok(Self {
            folder,
            with_above: false,
        })
    }

    /// The same, and the folders that it is in, where they are missing.
    #[must_use]
    pub fn with_above(self) -> Self {
        Self {
            with_above: true,
            ..self
        }
    }
}

/// Removes the folder of this name with all that is below it, if it `is_deep`.
pub struct RemoveFolder {
    pub folder: Key<'static>,
    pub is_deep: bool,
}

/// Gives a folder, with all that is below it, another name.
pub struct MoveFolder(pub FolderMove);

#[async_trait(?Send)]
impl Verb for MakeFolder {
    fn body(&self) -> BodyUse {
        BodyUse::Refused
    }

    fn needs(&self) -> Vec<Need<'_>> {
        // For all keys that there could be below it: none is asked for afterwards.
        vec![Need::below(Right::Create, self.folder.as_str())]
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        make_folder(request, *self).await?;
        Ok(empty(StatusCode::CREATED).into())
    }
}

#[async_trait(?Send)]
impl Verb for RemoveFolder {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        Need::removal(self.folder.as_str()).into()
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let is_deep = self.is_deep;
        let removed = remove_folder(request, *self).await?;
        if !is_deep {
            return Err(NEEDS_DEPTH.because(format!(
                "this removes the folder and the {} values below it: repeat it with Depth: infinity",
                removed.met
            )));
        }
        Ok(report(&*removed, &removed.stays))
    }
}

#[async_trait(?Send)]
impl Verb for MoveFolder {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        // As for a folder that is removed, and one that is made: of all keys that there could be below both.
        let FolderMove { from, to, .. } = &self.0;
        let mut needs = vec![Need::below(Right::Read, from.as_str())];
        needs.extend(Need::removal(from.as_str()));
        needs.push(Need::below(Right::Create, to.as_str()));
        needs
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        move_folder(request, self.0).await?;
        Ok(empty(StatusCode::CREATED).into())
    }
}

/// Makes a folder, or has one stay that would go with its last value.
pub async fn make_folder(request: &RequestContext, asked: MakeFolder) -> Result<(), Refusal> {
    let MakeFolder { folder, with_above } = asked;
    let _changing = request.begin_change(&[Scope::one(folder.as_str())])?;
    let store = &request.service.store;
    let made = store.make_folder(folder.clone(), with_above).await;
    if matches!(made, Ok(()) | Err(Error::FolderKept)) {
        request.changed_folder(&folder);
    }
    Ok(made?)
}

/// Removes a folder that has neither a value nor a folder, and refuses another.
pub async fn remove_empty_folder(
    request: &RequestContext,
    folder: Key<'static>,
) -> Result<(), Refusal> {
    let _changing = request.begin_change(&[Scope::one(folder.as_str())])?;
    request
        .service
        .store
        .remove_empty_folder(folder.clone())
        .await?;
    request.changed_folder(&folder);
    Ok(())
}

/// Has a folder go with its last value; at once, where it has none.
pub async fn release_folder(request: &RequestContext, folder: Key<'static>) -> Result<(), Refusal> {
    let _changing = request.begin_change(&[Scope::one(folder.as_str())])?;
    request.service.store.release_folder(folder.clone()).await?;
    request.changed_folder(&folder);
    Ok(())
}

/// Removes a folder, if that is deep; else it only finds how much is below it. It ends with the rights of the client.
pub async fn remove_folder(
    request: &RequestContext,
    asked: RemoveFolder,
) -> Result<Box<RemovedFolder>, Refusal> {
    let RemoveFolder { folder, is_deep } = asked;
    let _changing = request.begin_change(&[Scope::deep(folder.as_str())])?;
    request.guard.exchange.record.end_with_client();
    let Service { store, reactor, .. } = &*request.service;
    let refused = Cell::new(None);
    let may_go_on = || {
        let permit = |client: &Principal| client.meet_all(Need::removal(folder.as_str()));
        let permitted = request.permitted_now(permit);
        permitted.map_err(|why| refused.set(Some(why))).is_ok()
    };
    let removed = store.remove_folder(*reactor, folder.clone(), is_deep, may_go_on);
    let mut removed = Box::new(removed.await?.ok_or(NO_SUCH_FOLDER)?);
    if removed.removed + removed.folders > 0 {
        request.changed_folder(&folder);
    }
    let failure = removed.failure.take().map(Refusal::from);
    let Some(why) = failure.or_else(|| refused.take()) else {
        return Ok(removed);
    };
    let mut done = BulkProgress::of(BulkWork::Removal);
    done.values = Some(removed.removed);
    Err(why.after(done))
}

/// Gives the folder its other name, unless a key below it would be none there, or other rules would hold for it.
pub async fn move_folder(request: &RequestContext, asked: FolderMove) -> Result<(), Refusal> {
    let ends = [&asked.from, &asked.to].map(|end| Scope::deep(end.as_str()));
    let _changing = request.begin_change(&ends)?;
    let Service { store, reactor, .. } = &*request.service;
    let config = &request.service.config;
    let has_same_bounds = store.may_move_folder(&asked.from, &asked.to)?;
    if !has_same_bounds || !are_alike([&asked.from, &asked.to], config) {
        return Err(OTHER_RULES.because(
            "not the same bounds, or rules of names, hold for the two folders: move the values one by one, or COPY the folder and DELETE it",
        ));
    }
    let [from, to] = [&asked.from, &asked.to].map(Key::as_str);
    if to.len() > from.len() || to.split('/').count() > from.split('/').count() {
        let check = |key: &str| check_depth(&asked.to(key)?, config.limits.max_key_depth);
        let mut below = ValuesBelow::of(&asked.from, Order::AsRead);
        while let Some(found) = store.next_values(*reactor, &mut below).await? {
            let mut values = found.values.iter();
            values.try_for_each(|(key, _)| check(key.as_str()))?;
            // As MKCOL has it, there has to be a key below each folder.
            let mut folders = found.folders.iter();
            folders.try_for_each(|folder| check(&format!("{folder}/k")))?;
        }
    }
    match store
        .move_folder(asked.from.clone(), asked.to.clone())
        .await
    {
        Err(Error::NameTaken(what)) => {
            let kind = if asked.overwrites { TAKEN } else { KEPT };
            Err(kind.because(format!(
                "{what} has the name of the destination: the move of a folder neither replaces nor merges"
            )))
        }
        moved => {
            moved?;
            request.changed_folder(&asked.from);
            request.changed_folder(&asked.to);
            Ok(())
        }
    }
}
