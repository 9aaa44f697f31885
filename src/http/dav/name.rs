//! What a request of this door is for: a name, and what has it, a value or a folder.

use hyper::StatusCode;
use hyper::header::HeaderMap;

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::head::path::folder;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_PATH;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::response::{Reply, empty};
use crate::http::verb::Verb;
use crate::store::{Error, Found, Key, Purpose};

/// A folder is needed for what is to be stored (RFC 4918, sections 9.3.1, 9.7.1, 9.8.5).
const NO_PARENT: &Kind = &Kind::new(StatusCode::CONFLICT, "no-parent");

/// The name of what a request is for: of a value, or of a folder, with a `/` at the end of its path or without. That of
/// the root is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    /// The path ends with `/`.
    pub is_folder: bool,
}

impl Name {
    /// The name at `path`.
    pub fn at(path: &str) -> Result<Self, Refusal> {
        let (found, is_folder) = match folder(path) {
            _ if path == "/" => (String::new(), true),
            Ok(Some(found)) => (found, true),
            _ => {
                let found = folder(&format!("{path}/"))?;
                (found.ok_or(NO_SUCH_PATH)?, false)
            }
        };
        Ok(Self {
            text: found.trim_end_matches('/').to_owned(),
            is_folder,
        })
    }

    /// The key of this name; the root has none.
    pub fn key(&self) -> Result<Key<'static>, Refusal> {
        Ok(Key::new(self.text.clone())?)
    }

    /// The folder that it is in; that of the root is the root.
    pub fn parent(&self) -> Self {
        let parent = self.text.rsplit_once('/').map_or("", |(parent, _)| parent);
        Self {
            text: parent.to_owned(),
            is_folder: true,
        }
    }
}

/// What has a name.
pub enum Resource {
    Value(Box<Found>),
    Folder,
}

/// What has this `name`, if something has.
pub async fn resource(request: &RequestContext, name: &Name) -> Result<Option<Resource>, Refusal> {
    if name.text.is_empty() {
        return Ok(Some(Resource::Folder));
    }
    let (service, key) = (&*request.service, name.key()?);
    let (store, reactor) = (&service.store, service.reactor);
    if let Some(found) = store.get(reactor, &key, false, Purpose::Scan).await? {
        return Ok(Some(Resource::Value(Box::new(found))));
    }
    Ok(store.has_folder(&key).await?.then_some(Resource::Folder))
}

/// Refuses to store something of this `name` where there is no folder for it.
pub async fn needs_parent(request: &RequestContext, name: &Name) -> Result<(), Refusal> {
    match resource(request, &name.parent()).await? {
        Some(Resource::Folder) => Ok(()),
        _ => Err(NO_PARENT.because("there is no folder for this: make it by MKCOL first")),
    }
}

/// The `asked` request, if the client may make it.
pub fn permitted<V: Verb>(request: &RequestContext, mut asked: V) -> Result<V, Refusal> {
    request.permitted_now(|client| asked.permit(client))?;
    Ok(asked)
}

/// The needs to store something of this name, or in the folder of this name.
pub fn to_store(name: &Name) -> Vec<Need<'_>> {
    vec![if name.is_folder {
        Need::below(Right::Create, &name.text)
    } else {
        Need::Store(name.text.as_str().into())
    }]
}

/// Another has the name, or it is none.
pub fn is_taken(error: &Error) -> bool {
    matches!(
        error,
        Error::NameTaken(_) | Error::FolderKept | Error::Occupied(_)
    )
}

/// The answer to a change that has made something, or replaced it, with these headers.
pub fn made(is_new: bool, headers: HeaderMap) -> Reply {
    let mut response = if is_new {
        empty(StatusCode::CREATED)
    } else {
        empty(StatusCode::NO_CONTENT)
    };
    *response.headers_mut() = headers;
    response.into()
}
