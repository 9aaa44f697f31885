//! PUT, DELETE, MKCOL, COPY and MOVE, as RFC 4918 has them: a folder must be there for what is stored, and Overwrite
//! replaces folders, too. What each does is done by the core.

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::HeaderMap;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::changes::{Delete, delete, move_value};
use crate::http::dav::conditions::Conditions;
use crate::http::dav::name::{
    Name, Resource, is_taken, made, needs_parent, of_name, permitted, resource,
};
use crate::http::dav::properties::stayed;
use crate::http::folders::change::{
    MakeFolder, MoveFolder, RemoveFolder, make_folder, move_folder, remove_folder,
};
use crate::http::folders::copy::{CopyFolder, check_copies, copy_folder};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_KEY, PRECONDITION, ROOT, too_large};
use crate::http::refusal::failures::NAME_TAKEN;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::request::head::{LENGTH_REQUIRED, RequestHead};
use crate::http::response::{Outcome, empty};
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::moves::request::{destination, is_deep, overwrites};
use crate::http::values::moves::{
    EXISTS, FIELD, FolderMove, KEPT, MoveRequest, SAME, TAKEN, WITHIN,
};
use crate::http::values::put::{PutRequest, put, put_of};
use crate::http::values::representation::stored;
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Found, Key, Order, Preconditions, Stays, ValuesBelow};

const IS_FOLDER: Refusal = Refusal::new(NAME_TAKEN, "a folder has this name");
const NO_LENGTH: Refusal = Refusal::new(
    LENGTH_REQUIRED,
    "a link that says how much may be stored needs a Content-Length here",
);
const TAKES_NO_BODY: &Kind = &Kind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "folder-with-body");

/// A change by one of the methods here; `None` for another method.
pub fn change(asked: &RequestHead<'_>, name: Name, conditions: Conditions) -> Parsed {
    let (head, config) = (asked.head, asked.config);
    let prefix = asked.client.forwarded_prefix(&head.headers);
    let prefix: Box<str> = prefix.unwrap_or_default().into();
    match head.method.as_str() {
        "PUT" if name.is_folder => Err(IS_FOLDER),
        "PUT" => parsed(Put {
            asked: put_of(asked, true)?,
            name,
            conditions,
        }),
        "DELETE" if name.text.is_empty() => Err(ROOT),
        "DELETE" => parsed(Remove {
            preconditions: preconditions_of_write(&head.headers),
            name,
            conditions,
            prefix,
        }),
        "MKCOL" if name.text.is_empty() => Err(IS_FOLDER),
        "MKCOL" => parsed(Make {
            folder: Some(MakeFolder::of(name.key()?, config)?),
            name,
            conditions,
        }),
        method @ ("MOVE" | "COPY") => {
            let to = destination(head, asked.client, config)?;
            let asked = Relocate {
                to: Name::at(to.path())?,
                is_copy: method == "COPY",
                overwrites: overwrites(&head.headers)?,
                is_deep: is_deep(&head.headers)?.unwrap_or(true),
                preconditions: preconditions_of_write(&head.headers),
                name,
                conditions,
                prefix,
            };
            asked.check()?;
            parsed(asked)
        }
        _ => Ok(None),
    }
}

/// Stores a value.
struct Put {
    asked: Box<PutRequest>,
    name: Name,
    conditions: Conditions,
}

#[async_trait(?Send)]
impl Verb for Put {
    fn needs(&self) -> Vec<Need<'_>> {
        self.asked.needs().collect()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.asked.permit(client)?;
        self.asked.limit(client)
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        if self.asked.most.is_some() && self.asked.len.is_none() {
            return Err(NO_LENGTH);
        }
        self.conditions.check(request, &self.name).await?;
        let before = resource(request, &self.name).await?;
        match before {
            Some(Resource::Folder) => return Err(IS_FOLDER),
            Some(Resource::Value(_)) => {}
            None => needs_parent(request, &self.name).await?,
        }
        let is_new = before.is_none();
        let has_date = self.asked.has_date();
        let reply = stored(put(request, self.asked, body).await?, has_date);
        let headers = reply.response.into_parts().0.headers;
        Ok(made(is_new, headers))
    }
}

/// Makes a folder.
struct Make {
    folder: Option<MakeFolder>,
    name: Name,
    conditions: Conditions,
}

#[async_trait(?Send)]
impl Verb for Make {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::below(Right::Create, &self.name.text)]
    }

    async fn perform(
        mut self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        if body.ignore().await? {
            return Err(TAKES_NO_BODY.because("MKCOL takes no body here"));
        }
        self.conditions.check(request, &self.name).await?;
        if resource(request, &self.name).await?.is_some() {
            return Err(NAME_TAKEN.because("a value or a folder has this name"));
        }
        needs_parent(request, &self.name).await?;
        if let Some(folder) = self.folder.take() {
            make_folder(request, folder).await?;
        }
        Ok(empty(StatusCode::CREATED).into())
    }
}

/// Removes a value, or a folder with all that is in it.
struct Remove {
    name: Name,
    preconditions: Option<Preconditions>,
    conditions: Conditions,
    prefix: Box<str>,
}

#[async_trait(?Send)]
impl Verb for Remove {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        let name = &self.name;
        let of_value = Need::All(Right::Delete, name.text.clone().into());
        of_name(name, of_value, Need::below(Right::Delete, &name.text))
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        self.conditions.check(request, &self.name).await?;
        let found = resource(request, &self.name).await?.ok_or(NO_SUCH_KEY)?;
        if let Some(stays) = remove(request, &self.name, &found, self.preconditions).await? {
            return Ok(stayed(&stays, &self.prefix));
        }
        Ok(empty(StatusCode::NO_CONTENT).into())
    }
}

/// Removes what was found by this `name`, and its locks; answers what stays of a folder.
async fn remove(
    request: &RequestContext,
    name: &Name,
    found: &Resource,
    preconditions: Option<Preconditions>,
) -> Result<Option<Stays>, Refusal> {
    let key = name.key()?;
    match found {
        Resource::Value(_) => {
            delete(request, permitted(request, Delete { key, preconditions })?).await?;
        }
        Resource::Folder => {
            let asked = permitted(request, removal(key))?;
            let removed = remove_folder(request, asked).await?;
            if removed.stays.count > 0 {
                return Ok(Some(removed.stays));
            }
        }
    }
    forget(request, name);
    Ok(None)
}

fn removal(folder: Key<'static>) -> RemoveFolder {
    RemoveFolder {
        folder,
        is_deep: true,
    }
}

/// Forgets the locks of what is gone.
fn forget(request: &RequestContext, name: &Name) {
    if let Some(locks) = &request.service.locks {
        locks.forget(&name.text);
    }
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
