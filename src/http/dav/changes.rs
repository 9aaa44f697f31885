//! PUT, DELETE and MKCOL, as RFC 4918 has them: a folder must be there for what is stored. What each does is done by
//! the core.

use async_trait::async_trait;
use hyper::StatusCode;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::changes::{Delete, delete};
use crate::http::dav::conditions::Conditions;
use crate::http::dav::find::stayed;
use crate::http::dav::name::{Name, Resource, made, needs_parent, permitted, resource};
use crate::http::folders::change::{MakeFolder, RemoveFolder, make_folder, remove_folder};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_KEY, ROOT};
use crate::http::refusal::failures::NAME_TAKEN;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::request::head::{LENGTH_REQUIRED, RequestHead};
use crate::http::response::{Outcome, empty};
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::put::{PutRequest, put, put_of};
use crate::http::values::representation::stored;
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Key, Preconditions, Stays};

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
        let name = &self.name.text;
        vec![if self.name.is_folder {
            Need::below(Right::Delete, name)
        } else {
            Need::all(Right::Delete, name)
        }]
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
pub async fn remove(
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
pub fn forget(request: &RequestContext, name: &Name) {
    if let Some(locks) = &request.service.locks {
        locks.forget(&name.text);
    }
}
