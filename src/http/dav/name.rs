//! What a request of this door is for: a name, and what has it, a value or a folder.

use hyper::StatusCode;

use crate::http::head::path;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::verb::Verb;
use crate::store::{Found, Key, Purpose};

/// A folder is needed for what is to be stored (RFC 4918, sections 9.3.1, 9.7.1, 9.8.5).
const NO_PARENT: &Kind = &Kind::new(StatusCode::CONFLICT, "no-parent");

/// The name of a value or folder, with a `/` at the end of its path or without. That of the root is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    /// The path ends with `/`.
    pub is_folder: bool,
}

impl Name {
    /// The name at `path`.
    pub fn at(path: &str) -> Result<Self, Refusal> {
        let (text, is_folder) = path::name(path)?;
        Ok(Self { text, is_folder })
    }

    /// The key of this name; the root has none.
    pub fn key(&self) -> Result<Key<'static>, Refusal> {
        Ok(Key::new(self.text.clone())?)
    }

    /// The name as that of a folder, with a `/` at the end; empty for the root.
    pub fn of_folder(&self) -> String {
        match &*self.text {
            "" => String::new(),
            text => format!("{text}/"),
        }
    }
}

/// The name of a request, and the path of this server behind a proxy.
pub struct Target {
    pub name: Name,
    pub prefix: Box<str>,
}

impl Target {
    pub fn of(asked: &RequestHead<'_>) -> Result<Self, Refusal> {
        let prefix = asked.client.forwarded_prefix(&asked.head.headers);
        Ok(Self {
            name: Name::at(asked.path)?,
            prefix: prefix.unwrap_or_default().into(),
        })
    }

    /// What has the name.
    pub async fn found(&self, request: &RequestContext) -> Result<Resource, Refusal> {
        let found = resource(request, &self.name).await?;
        found.ok_or(NO_SUCH_KEY)
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
    let parent = name.text.rsplit_once('/').map_or("", |(parent, _)| parent);
    let parent = Name {
        text: parent.to_owned(),
        is_folder: true,
    };
    match resource(request, &parent).await? {
        Some(Resource::Folder) => Ok(()),
        _ => Err(NO_PARENT.because("there is no folder for this: make it by MKCOL first")),
    }
}

/// The `asked` request, if the client may make it.
pub fn permitted<V: Verb>(request: &RequestContext, mut asked: V) -> Result<V, Refusal> {
    request.permitted_now(|client| asked.permit(client))?;
    Ok(asked)
}
