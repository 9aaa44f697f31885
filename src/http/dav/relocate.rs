//! COPY and MOVE (RFC 4918, sections 9.8 and 9.9). Overwrite replaces folders, too: what has the name of the
//! destination goes once the client may do all else, and nothing else is in the way.

use async_trait::async_trait;
use hyper::header::HeaderMap;

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::changes::move_value;
use crate::http::dav::changes::{forget, remove};
use crate::http::dav::conditions::Conditions;
use crate::http::dav::find::stayed;
use crate::http::dav::name::{Name, Resource, is_taken, made, needs_parent, permitted, resource};
use crate::http::folders::change::{MakeFolder, MoveFolder, make_folder, move_folder};
use crate::http::folders::copy::{CopyFolder, check_copies, copy_folder};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_KEY, PRECONDITION, too_large};
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::Outcome;
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::moves::request::{destination, is_deep, overwrites};
use crate::http::values::moves::{
    EXISTS, FIELD, FolderMove, KEPT, MoveRequest, SAME, TAKEN, WITHIN,
};
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Found, Order, Preconditions, Stays, ValuesBelow};

/// A COPY or MOVE of `name`.
pub fn relocation(asked: &RequestHead<'_>, name: Name, conditions: Conditions) -> Parsed {
    let (head, config) = (asked.head, asked.config);
    let prefix = asked.client.forwarded_prefix(&head.headers);
    let to = destination(head, asked.client, config)?;
    let asked = Relocate {
        to: Name::at(to.path())?,
        is_copy: head.method == "COPY",
        overwrites: overwrites(&head.headers)?,
        is_deep: is_deep(&head.headers)?.unwrap_or(true),
        preconditions: preconditions_of_write(&head.headers),
        name,
        conditions,
        prefix: prefix.unwrap_or_default().into(),
    };
    asked.check()?;
    parsed(asked)
}

/// Moves or copies a value or a folder.
struct Relocate {
    name: Name,
    to: Name,
    is_copy: bool,
    overwrites: bool,
    /// A folder is copied with all that is in it.
    is_deep: bool,
    preconditions: Option<Preconditions>,
    conditions: Conditions,
    prefix: Box<str>,
}

#[async_trait(?Send)]
impl Verb for Relocate {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        let (from, to) = (&self.name.text, &self.to.text);
        let mut needs = vec![Need::any(Right::Read, from), Need::any(Right::Create, to)];
        if !self.is_copy {
            needs.push(Need::any(Right::Delete, from));
        }
        needs
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        self.conditions.check(request, &self.name).await?;
        let found = resource(request, &self.name).await?.ok_or(NO_SUCH_KEY)?;
        let before = resource(request, &self.to).await?;
        if before.is_some() && !self.overwrites {
            return Err(EXISTS.because("something has the name of the destination"));
        }
        needs_parent(request, &self.to).await?;
        let stays = match found {
            Resource::Value(found) => self.value(request, &found, before.as_ref()).await?,
            Resource::Folder => self.folder(request, before.as_ref()).await?,
        };
        if let Some(stays) = stays {
            return Ok(stayed(&stays, &self.prefix));
        }
        if !self.is_copy {
            forget(request, &self.name);
        }
        Ok(made(before.is_none(), HeaderMap::new()))
    }
}

impl Relocate {
    /// Refuses what lies in itself, or would replace what it lies in.
    fn check(&self) -> Result<(), Refusal> {
        let [from, to] = [&self.name, &self.to].map(|name| format!("{}/", name.text));
        if self.name.text.is_empty() || self.to.text.is_empty() {
            return Err(WITHIN.because("the root is neither moved nor replaced"));
        }
        if from == to {
            return Err(SAME.because("source and destination are the same"));
        }
        if from.starts_with(&to) || (to.starts_with(&from) && (self.is_deep || !self.is_copy)) {
            return Err(WITHIN.because("one of the two folders lies in the other"));
        }
        if !self.is_deep && !self.is_copy {
            return Err(
                FIELD.because("MOVE takes a folder with all that is in it: Depth is infinity")
            );
        }
        Ok(())
    }

    /// Moves or copies a value.
    async fn value(
        &self,
        request: &RequestContext,
        found: &Found,
        before: Option<&Resource>,
    ) -> Result<Option<Stays>, Refusal> {
        let config = &request.service.config;
        let condition = (!self.overwrites).then_some(Preconditions::NEW);
        let asked = MoveRequest::of_ends(self.name.key()?, self.to.key()?, condition, config)?;
        let asked = permitted(
            request,
            MoveRequest {
                is_copy: self.is_copy,
                preconditions: self.preconditions.clone(),
                ..asked
            },
        )?;
        if let Some(folder @ Resource::Folder) = before {
            let preconditions = self.preconditions.as_ref();
            if preconditions.is_some_and(|it| !found.allows(it)) {
                return Err(PRECONDITION);
            }
            if found.len() > config.limits.max_body {
                return Err(too_large(config.limits.max_body));
            }
            if let Some(stays) = remove(request, &self.to, folder, None).await? {
                return Ok(Some(stays));
            }
        }
        move_value(request, asked).await?;
        Ok(None)
    }

    /// Moves or copies a folder. What has the name of the destination goes first, once nothing else is in the way.
    async fn folder(
        &self,
        request: &RequestContext,
        before: Option<&Resource>,
    ) -> Result<Option<Stays>, Refusal> {
        let (from, to) = (self.name.key()?, self.to.key()?);
        let asked = || FolderMove {
            from: from.clone(),
            to: to.clone(),
            overwrites: self.overwrites,
        };
        let config = &request.service.config;
        let folder = permitted(request, MakeFolder::of(to.clone(), config)?)?;
        if !self.is_copy {
            let first = move_folder(request, permitted(request, MoveFolder(asked()))?.0).await;
            let is_taken = |why: &Refusal| {
                *why.kind == *TAKEN || *why.kind == *KEPT || why.cause().is_some_and(is_taken)
            };
            return match (first, before) {
                (Err(why), Some(before)) if is_taken(&why) => {
                    if let Some(stays) = remove(request, &self.to, before, None).await? {
                        return Ok(Some(stays));
                    }
                    move_folder(request, asked()).await?;
                    Ok(None)
                }
                (first, _) => first.map(|()| None),
            };
        }
        let asked = permitted(request, CopyFolder(asked()))?.0;
        if let Some(before) = before {
            check_copies(request, &asked).await?;
            if let Some(stays) = remove(request, &self.to, before, None).await? {
                return Ok(Some(stays));
            }
        }
        let mut stays = Stays::default();
        if self.is_deep {
            let again = FolderMove {
                from: asked.from.clone(),
                to: asked.to.clone(),
                ..asked
            };
            stays = copy_folder(request, again).await?.stays;
            self.copy_empty(request, &asked).await?;
        }
        keep(make_folder(request, folder).await)?;
        Ok(Some(stays).filter(|stays| stays.count > 0))
    }

    /// Makes the folders that have no value, and which the copy of all values does not make.
    async fn copy_empty(
        &self,
        request: &RequestContext,
        asked: &FolderMove,
    ) -> Result<(), Refusal> {
        let service = &*request.service;
        let mut below = ValuesBelow::of(&asked.from, Order::Keys);
        while let Some(found) = service
            .store
            .next_values(service.reactor, &mut below)
            .await?
        {
            for folder in found.folders {
                let folder = asked.to(folder.trim_end_matches('/'))?;
                let folder = MakeFolder::of(folder, &service.config)?;
                keep(make_folder(request, folder).await)?;
            }
        }
        Ok(())
    }
}

/// The making of a folder, which may be there, and stays then.
fn keep(made: Result<(), Refusal>) -> Result<(), Refusal> {
    match made {
        Err(why) if why.cause().is_some_and(is_taken) => Ok(()),
        made => made,
    }
}
