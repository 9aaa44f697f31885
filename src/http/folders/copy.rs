//! COPY of a folder: one of each value below it, some at a time.

use std::collections::VecDeque;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::Serialize;

use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::folders::change::report;
use crate::http::locks::Scope;
use crate::http::refusal::common::NO_SUCH_FOLDER;
use crate::http::refusal::{BulkProgress, BulkWork, Refusal};
use crate::http::request::{RequestContext, Service};
use crate::http::response::Outcome;
use crate::http::service_config::ServiceConfig;
use crate::http::values::moves::perform::relocate;
use crate::http::values::moves::{FolderMove, MoveRequest};
use crate::http::values::siblings::value_of;
use crate::http::verb::{BodyUse, Verb};
use crate::store::{
    Key, ListedValue, Order, Preconditions, Purpose, StagingQuota, Stays, ValuesBelow,
    WriteCondition,
};

/// Values that are copied at once: few, so that they leave disk threads to others.
const COPIED_AT_ONCE: usize = 8;

/// The reason why values are not copied that were there at first.
const GONE: &str = "gone meanwhile";

/// What came of the copy of a folder.
#[derive(Debug, Default, Serialize)]
pub struct CopiedFolder {
    /// Values that were copied.
    pub copied: u64,
    /// Values that were not, and folders that the server may not read.
    #[serde(flatten)]
    pub stays: Stays,
}

/// A value of a page.
type Listed = (Key<'static>, ListedValue);

/// Copies each value below a folder.
pub struct CopyFolder(pub FolderMove);

#[async_trait(?Send)]
impl Verb for CopyFolder {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        // Each key is looked at before the first is copied, and when its turn comes.
        Need::copy(self.0.from.as_str(), self.0.to.as_str()).into()
    }

    fn of_each(&self) -> Option<&'static str> {
        Some("COPY")
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let copied = copy_folder(request, self.0, async || Ok(Stays::default())).await?;
        Ok(report(&copied, &copied.stays))
    }
}

/// Copies the values below the folder, some at a time, after a look at the rights to all, at their names and at the
/// room for them. Then `clear` removes what is in the way: where something stays of that, nothing is copied. A failure
/// ends it; a value that is refused alone is told, and so is a folder that the server may not read.
pub async fn copy_folder(
    request: &RequestContext,
    asked: FolderMove,
    clear: impl AsyncFnOnce() -> Result<Stays, Refusal>,
) -> Result<CopiedFolder, Refusal> {
    let _changing = request.begin_change(&[Scope::deep(asked.to.as_str())])?;
    request.guard.exchange.record.end_with_client();
    let service = &*request.service;
    let (store, reactor) = (&service.store, service.reactor);
    let mut below = ValuesBelow::of(&asked.from, Order::Keys);
    let mut values = 0;
    let mut plan = store.plan_copies();
    while let Some(found) = store.next_values(reactor, &mut below).await? {
        values += found.values.len() as u64;
        for (key, value) in &found.values {
            let copy = copy_of(request.principal(), &service.config, &asked, key)?;
            let is_taken = value.len <= service.config.limits.max_body;
            if let Some(plan) = plan.as_mut().filter(|_| is_taken) {
                let preconditions = copy.to.preconditions.as_ref();
                let only_new =
                    preconditions.and_then(Preconditions::exact) == Some(WriteCondition::Create);
                plan.add(key, &copy.to.key, value.len, only_new).await?;
            }
        }
    }
    if values == 0 && !store.has_folder(&asked.from).await? {
        return Err(NO_SUCH_FOLDER);
    }
    if let Some(plan) = plan
        && plan.check().await?
    {
        let mut below = ValuesBelow::of(&asked.from, Order::Keys);
        while let Some(found) = store.next_values(reactor, &mut below).await? {
            plan.spare(found.values.iter().map(|(key, _)| key));
        }
    }
    let stays = clear().await?;
    if stays.count > 0 {
        return Ok(CopiedFolder { copied: 0, stays });
    }
    store.check_folder(&asked.to).await?;
    let (mut made, mut first) = (CopiedFolder::default(), Vec::new());
    let met = match copy_all(request, &asked, &mut made, &mut first).await {
        Ok(met) => met,
        Err(why) => {
            return Err(why.after(BulkProgress {
                values: Some(made.copied),
                keys: first,
                ..BulkProgress::of(BulkWork::Copy)
            }));
        }
    };
    // What was there at first, and not when it had its turn.
    if let Some(gone @ 1..) = values.checked_sub(met) {
        let name = format!("{}/", asked.from);
        made.stays.add(name, format!("{GONE}: {gone}"));
    }
    Ok(made)
}

/// Copies the values below the folder, and notes in `made` what came of it, and in `first` the keys of the first
/// copies. The number of values that it has met.
async fn copy_all(
    request: &RequestContext,
    asked: &FolderMove,
    made: &mut CopiedFolder,
    first: &mut Vec<Key<'static>>,
) -> Result<u64, Refusal> {
    let Service {
        store,
        reactor,
        config,
        ..
    } = &*request.service;
    let (mut below, mut met) = (ValuesBelow::of(&asked.from, Order::Keys), 0);
    while let Some(found) = store.next_values(*reactor, &mut below).await? {
        for (name, why) in found.unreadable {
            made.stays.add(name, why.to_string());
        }
        met += found.values.len() as u64;
        let mut rest: VecDeque<_> = found.values.iter().collect();
        while !rest.is_empty() {
            let some = some_at_once(&mut rest, &request.service, asked);
            // It ends with the rights of the client.
            let needs = || Need::copy(asked.from.as_str(), asked.to.as_str());
            let client = request.permitted_now(|client| client.meet_all(needs()))?;
            let copies = some.iter().map(async |(key, _)| {
                let copy = copy_of(client.as_ref(), config, asked, key)?;
                let copied = relocate(request, copy, Purpose::Scan).await?;
                if let Some(made) = &copied {
                    request.audit_changed(&made.key);
                }
                Ok::<_, Refusal>(copied)
            });
            let mut failure = Ok(());
            for ((key, _), outcome) in some.iter().zip(join_all(copies).await) {
                match outcome {
                    Ok(Some(copy)) => {
                        made.copied += 1;
                        if first.len() < BulkProgress::MOST_NAMED {
                            first.push(copy.key);
                        }
                    }
                    Ok(None) => made.stays.add(key.as_str().to_owned(), GONE.to_owned()),
                    Err(why) if why.kind.shown(config.compat).status.is_client_error() => {
                        request.audit_refused(key, &why);
                        made.stays.add(key.as_str().to_owned(), why.to_string());
                    }
                    Err(why) => failure = failure.and(Err(why)),
                }
            }
            failure?;
        }
    }
    Ok(met)
}

/// Takes from `rest`, in which there is a value, those that are copied at once. A sibling counts only if it is later
/// than its value: it waits until that is copied.
fn some_at_once<'l>(
    rest: &mut VecDeque<&'l Listed>,
    service: &Service,
    asked: &FolderMove,
) -> Vec<&'l Listed> {
    let (store, config) = (&service.store, &service.config);
    let mut left = store.quota().map_or(0, StagingQuota::most_at_once);
    let (mut some, mut waiting) = (Vec::new(), 0);
    let mut before: Vec<Key<'_>> = Vec::new();
    while some.len() < COPIED_AT_ONCE
        && let Some((key, value)) = rest.get(waiting)
    {
        if !config.sites.is_empty()
            && let Ok(to) = asked.to(key.as_str())
        {
            let waits = value_of(&to, config).is_some_and(|value| before.contains(&value));
            before.push(to);
            if waits {
                waiting += 1;
                continue;
            }
        }
        match left.checked_sub(value.len) {
            None if !some.is_empty() => break,
            fits => left = fits.unwrap_or(0),
        }
        some.extend(rest.remove(waiting));
    }
    some
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
        copy.permit(client)?;
    }
    Ok(copy)
}
