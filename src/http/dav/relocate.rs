//! COPY and MOVE (RFC 4918, sections 9.8 and 9.9). Overwrite replaces folders, too: what has the name of the
//! destination goes once the client may do all else, and nothing else is in the way.

use hyper::header::HeaderMap;

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::changes::move_value;
use crate::http::dav::changes::{made, remove};
use crate::http::dav::name::{Name, Resource, Target, needs_parent, permitted, resource};
use crate::http::dav::xml::stayed;
use crate::http::folders::change::{MakeFolder, MoveFolder, make_folder, move_folder};
use crate::http::folders::copy::{CopyFolder, copy_folder};
use crate::http::locks::Scope;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{PRECONDITION, too_large};
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::Outcome;
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::moves::request::{destination, is_deep, overwrites};
use crate::http::values::moves::{EXISTS, FIELD, FolderMove, MoveRequest, SAME, TAKEN, WITHIN};
use crate::store::{Error, Found, Order, Preconditions, Stays, ValuesBelow};

/// Moves or copies a value or a folder.
pub struct Relocate {
    to: Name,
    is_copy: bool,
    overwrites: bool,
    /// A folder is copied with all that is in it.
    is_deep: bool,
    preconditions: Option<Preconditions>,
}

impl Relocate {
    /// The COPY or MOVE of `name`, unless that lies in the destination, or would replace what it lies in.
    pub fn of(asked: &RequestHead<'_>, name: &Name) -> Result<Self, Refusal> {
        let (head, headers) = (asked.head, &asked.head.headers);
        let to = Name::at(destination(head, asked.client, asked.config)?.path())?;
        let (is_copy, is_deep) = (head.method == "COPY", is_deep(headers)?.unwrap_or(true));
        let [from, into] = [name, &to].map(Name::of_folder);
        if from == into {
            return Err(SAME.because("source and destination are the same"));
        }
        if from.starts_with(&into) || (into.starts_with(&from) && (is_deep || !is_copy)) {
            return Err(WITHIN.because("one of the two lies in the other"));
        }
        if !is_deep && !is_copy {
            let why = "MOVE takes a folder with all that is in it: Depth is infinity";
            return Err(FIELD.because(why));
        }
        Ok(Self {
            to,
            is_copy,
            overwrites: overwrites(headers)?,
            is_deep,
            preconditions: preconditions_of_write(headers),
        })
    }

    /// What it needs at the least, whether `from` is a value or a folder.
    pub fn needs<'a>(&'a self, from: &'a str) -> Vec<Need<'a>> {
        let mut needs = vec![
            Need::any(Right::Read, from),
            Need::any(Right::Create, &self.to.text),
        ];
        if !self.is_copy {
            needs.push(Need::any(Right::Delete, from));
        }
        needs
    }
}

/// A COPY or MOVE under way.
struct Relocation<'a> {
    request: &'a RequestContext,
    asked: Relocate,
    ends: FolderMove,
    /// What has the name of the destination.
    before: Option<Resource>,
}

/// Moves or copies a value or a folder.
pub async fn relocate(request: &RequestContext, target: &Target, asked: Relocate) -> Outcome {
    let found = target.found(request).await?;
    let before = resource(request, &asked.to).await?;
    let (is_new, is_copy, overwrites) = (before.is_none(), asked.is_copy, asked.overwrites);
    if !is_new && !overwrites {
        return Err(EXISTS.because("something has the name of the destination"));
    }
    needs_parent(request, &asked.to).await?;
    let ends = FolderMove {
        from: target.name.key()?,
        to: asked.to.key()?,
        overwrites,
    };
    let work = Relocation {
        request,
        asked,
        ends,
        before,
    };
    // No client gets a lock of what goes until its locks are forgotten.
    let begin = || request.begin_change(&[Scope::deep(&target.name.text)]);
    let changing = (!is_copy).then(begin).transpose()?;
    let stays = match found {
        Resource::Value(found) => work.value(&found).await?,
        Resource::Folder => work.folder().await?,
    };
    if stays.count > 0 {
        return Ok(stayed(&target.prefix, &stays));
    }
    if let Some(changing) = changing.flatten() {
        changing.forget_locks();
    }
    Ok(made(is_new, HeaderMap::new()))
}

/// Each answers what stays: of what it replaces, and then nothing else was done, or of what was not copied.
impl Relocation<'_> {
    /// Moves or copies a value, which was `found`.
    async fn value(self, found: &Found) -> Result<Stays, Refusal> {
        let (request, config) = (self.request, &self.request.service.config);
        let (from, to) = (self.ends.from.clone(), self.ends.to.clone());
        let condition = (!self.ends.overwrites).then_some(Preconditions::NEW);
        let preconditions = self.asked.preconditions.clone();
        let is_refused = preconditions.as_ref().is_some_and(|it| !found.allows(it));
        let moved = MoveRequest {
            is_copy: self.asked.is_copy,
            preconditions,
            ..MoveRequest::of_ends(from, to, condition, config)?
        };
        let moved = permitted(request, moved)?;
        if let Some(Resource::Folder) = self.before {
            if is_refused {
                return Err(PRECONDITION);
            }
            if found.len() > config.limits.max_body {
                return Err(too_large(config.limits.max_body));
            }
            let stays = self.clear().await?;
            if stays.count > 0 {
                return Ok(stays);
            }
        }
        move_value(request, moved).await?;
        Ok(Stays::default())
    }

    /// Moves or copies a folder.
    async fn folder(self) -> Result<Stays, Refusal> {
        let (request, config) = (self.request, &self.request.service.config);
        permitted(request, MakeFolder::of(self.ends.to.clone(), config)?)?;
        if !self.asked.is_copy {
            return self.rename().await;
        }
        let copied = permitted(request, CopyFolder(self.ends.clone()))?.0;
        let stays = if self.asked.is_deep {
            copy_folder(request, copied, async || self.clear().await)
                .await?
                .stays
        } else {
            self.clear().await?
        };
        if stays.count == 0 {
            self.make_folders().await?;
        }
        Ok(stays)
    }

    /// Moves a folder. What has the name of the destination goes once nothing else is in the way.
    async fn rename(&self) -> Result<Stays, Refusal> {
        let moved = permitted(self.request, MoveFolder(self.ends.clone()))?.0;
        match move_folder(self.request, moved.clone()).await {
            Err(why) if why.kind == TAKEN => {}
            first => return first.map(|()| Stays::default()),
        }
        let stays = self.clear().await?;
        if stays.count == 0 {
            move_folder(self.request, moved).await?;
        }
        Ok(stays)
    }

    /// Removes what has the name of the destination.
    async fn clear(&self) -> Result<Stays, Refusal> {
        match &self.before {
            Some(before) => remove(self.request, &self.asked.to, before, None).await,
            None => Ok(Stays::default()),
        }
    }

    /// Makes the folder that is a copy, and those in it that have no value, which the copy of all values does not make.
    async fn make_folders(&self) -> Result<(), Refusal> {
        let service = &*self.request.service;
        let make = async |folder| {
            let folder = MakeFolder::of(folder, &service.config)?;
            let made = make_folder(self.request, folder).await;
            // One that is there stays.
            made.or_else(|why| match why.cause() {
                Some(Error::NameTaken(_) | Error::FolderKept | Error::Occupied(_)) => Ok(()),
                _ => Err(why),
            })
        };
        let mut below = ValuesBelow::of(&self.ends.from, Order::Keys);
        while self.asked.is_deep
            && let Some(found) = service
                .store
                .next_values(service.reactor, &mut below)
                .await?
        {
            for folder in found.folders {
                make(self.ends.to(folder.trim_end_matches('/'))?).await?;
            }
        }
        make(self.ends.to.clone()).await
    }
}
