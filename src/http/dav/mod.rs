//! The door of `WebDAV` (RFC 4918, classes 1 and 2): its methods, what each needs, and who performs it.
//!
//! Values and folders are those of every other door, and so are rights, limits, versions and locks: each method calls
//! what the others call, and says the result in the words of its RFC. GET and HEAD are the plain ones. Keeps no state.

mod changes;
pub mod conditions;
mod find;
pub mod locking;
mod name;
mod relocate;
pub mod xml;

use async_trait::async_trait;
use hyper::header::{ALLOW, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::dav::changes::IS_FOLDER;
use crate::http::dav::conditions::Conditions;
use crate::http::dav::find::Find;
use crate::http::dav::locking::LockRequest;
use crate::http::dav::name::Target;
use crate::http::dav::relocate::Relocate;
use crate::http::folders::change::MakeFolder;
use crate::http::head::path::PAGES;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{ROOT, no_method};
use crate::http::request::RequestContext;
use crate::http::request::head::{LENGTH_REQUIRED, RequestHead};
use crate::http::response::{Outcome, Reply, empty};
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::put::{PutRequest, put_of};
use crate::http::verb::{BodyUse, OptionsRequest, Parsed, Verb, parsed};
use crate::store::Preconditions;

const METHODS: &str =
    "GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK, OPTIONS";
const READING: &str = "GET, HEAD, PROPFIND, OPTIONS";

const NO_LENGTH: Refusal = Refusal::new(
    LENGTH_REQUIRED,
    "a link that says how much may be stored needs a Content-Length here",
);

/// A request of this door.
struct Asked {
    target: Target,
    conditions: Conditions,
    what: What,
}

/// What is asked for.
enum What {
    Find(Find),
    Patch,
    Put(Box<PutRequest>),
    MakeFolder(MakeFolder),
    Delete(Option<Preconditions>),
    Relocate(Relocate),
    Lock(LockRequest),
    /// The lock of this token ends.
    Unlock(String),
}

/// The operation of a request of this door; `None` for one that the plain door has: another method, a page of the
/// server, and an upload in parts, which would be stored as if its first part were all.
pub fn verb(asked: &RequestHead<'_>) -> Parsed {
    let (head, config) = (asked.head, asked.config);
    let methods = if config.read_only { READING } else { METHODS };
    let is_plain = [Method::GET, Method::HEAD, Method::POST, Method::PATCH].contains(&head.method);
    if is_plain || asked.path.starts_with(PAGES) || asked.common.resumable {
        return Ok(None);
    }
    if head.method == Method::OPTIONS {
        return parsed(Options(OptionsRequest::of(asked, methods)));
    }
    let target = Target::of(asked)?;
    let (name, method) = (&target.name, head.method.as_str());
    let conditions = Conditions::of(&head.headers, &target.prefix)?;
    if method != "PROPFIND" {
        config.may_change()?;
    }
    let is_root = name.text.is_empty();
    let what = match method {
        "PROPFIND" => What::Find(Find::of(asked, name)?),
        "PROPPATCH" => What::Patch,
        "PUT" if name.is_folder => return Err(IS_FOLDER),
        "PUT" => What::Put(put_of(asked, true)?),
        "MKCOL" if is_root => return Err(IS_FOLDER),
        "MKCOL" => What::MakeFolder(MakeFolder::of(name.key()?, config)?),
        "DELETE" if is_root => return Err(ROOT),
        "DELETE" => What::Delete(preconditions_of_write(&head.headers)),
        "COPY" | "MOVE" => What::Relocate(Relocate::of(asked, name)?),
        "LOCK" => What::Lock(LockRequest::of(&head.headers)?),
        "UNLOCK" => What::Unlock(locking::token_of(&head.headers)?),
        _ => return Err(no_method(methods).with(ALLOW, HeaderValue::from_static(methods))),
    };
    parsed(Asked {
        target,
        conditions,
        what,
    })
}

#[async_trait(?Send)]
impl Verb for Asked {
    fn body(&self) -> BodyUse {
        match self.what {
            What::Delete(_) | What::Relocate(_) | What::Unlock(_) => BodyUse::Ignored,
            _ => BodyUse::Value,
        }
    }

    fn needs(&self) -> Vec<Need<'_>> {
        let (name, is_folder) = (&*self.target.name.text, self.target.name.is_folder);
        vec![match &self.what {
            What::Find(_) => Need::any(Right::List, name),
            What::Put(put) => return put.needs().collect(),
            What::MakeFolder(folder) => return folder.needs(),
            What::Relocate(asked) => return asked.needs(name),
            What::Delete(_) if is_folder => Need::below(Right::Delete, name),
            What::Delete(_) => Need::all(Right::Delete, name),
            What::Patch | What::Lock(_) | What::Unlock(_) if is_folder => {
                Need::below(Right::Create, name)
            }
            What::Patch | What::Lock(_) | What::Unlock(_) => Need::Store(name.into()),
        }]
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())?;
        match &mut self.what {
            What::Find(asked) => {
                client.may_list(&mut asked.page);
            }
            What::Put(put) => {
                put.permit(client)?;
                put.limit(client)?;
                if put.most.is_some() && put.len.is_none() {
                    return Err(NO_LENGTH);
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self { target, what, .. } = *self;
        if !matches!(what, What::Unlock(_)) {
            self.conditions.check(request, &target.name).await?;
        }
        match what {
            What::Find(asked) => find::find(request, target, asked, body).await,
            What::Patch => find::patch(request, &target, body).await,
            What::Put(put) => changes::store(request, &target.name, put, body).await,
            What::MakeFolder(folder) => changes::make(request, &target.name, folder, body).await,
            What::Delete(asked) => changes::delete(request, &target, asked).await,
            What::Relocate(asked) => relocate::relocate(request, &target, asked).await,
            What::Lock(asked) => locking::lock(request, &target, asked, body).await,
            What::Unlock(token) => locking::unlock(request, &target.name, &token),
        }
    }
}

/// OPTIONS: the methods, and the classes of `WebDAV`. Office asks for the way to edit.
struct Options(OptionsRequest);

#[async_trait(?Send)]
impl Verb for Options {
    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let listed = Box::new(self.0).perform(request, body).await?;
        Ok(Reply::from(empty(StatusCode::OK)).with(|headers| {
            *headers = listed.response.into_parts().0.headers;
            headers.insert("dav", HeaderValue::from_static("1, 2"));
            let how = HeaderName::from_static("ms-author-via");
            headers.insert(how, HeaderValue::from_static("DAV"));
        }))
    }
}
