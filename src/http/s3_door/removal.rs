//! `DeleteObject` and `DeleteObjects`: what is not there is gone already.

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{HeaderMap, IF_MATCH};
use serde::Deserialize;

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::changes::{self, delete as remove};
use crate::http::folders::change::release_folder;
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, empty};
use crate::http::s3_door::buckets::document;
use crate::http::s3_door::errors::{NO_SUCH_VERSION, said};
use crate::http::s3_door::listing::MOST;
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{Target, conditions, needs_bucket};
use crate::http::s3_door::xml::{self, BAD_XML, Document};
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Error, Key, Preconditions};

/// DELETE of an object, or of a folder, which goes with its last value then.
pub fn delete(asked: &RequestHead<'_>, target: Target) -> Parsed {
    if asked.query.get("versionId").is_some_and(|it| it != "null") {
        return Err(NO_SUCH_VERSION);
    }
    let preconditions = conditions(&asked.head.headers, "").filter(Preconditions::are_of_writes);
    parsed(Delete {
        removal: Some(Removal::of(target, preconditions)?),
    })
}

/// The removal of one object.
enum Removal {
    Object(changes::Delete),
    Folder(Key<'static>),
}

impl Removal {
    fn of(target: Target, preconditions: Option<Preconditions>) -> Result<Self, Refusal> {
        match target {
            Target::Object(key) => Ok(Self::Object(changes::Delete { key, preconditions })),
            Target::Folder(folder) => Ok(Self::Folder(folder)),
            _ => Err(NO_SUCH_KEY),
        }
    }

    fn needs(&self) -> Vec<Need<'_>> {
        match self {
            Self::Object(asked) => asked.needs(),
            Self::Folder(folder) => vec![Need::below(Right::Delete, folder.as_str())],
        }
    }

    /// Removes it; what is not there is gone already, unless a version of it is expected, or there is no bucket.
    async fn perform(self, request: &RequestContext) -> Result<(), Refusal> {
        let expects = matches!(&self, Self::Object(asked) if asked.preconditions.is_some());
        let is_gone = |why: &Refusal| {
            *why == NO_SUCH_KEY || matches!(why.cause(), Some(Error::Occupied(_) | Error::NoFolder))
        };
        let (Self::Object(changes::Delete { key, .. }) | Self::Folder(key)) = &self;
        let key = key.clone();
        let removed = match self {
            Self::Object(asked) => remove(request, asked).await,
            Self::Folder(folder) => release_folder(request, folder).await,
        };
        match removed {
            Err(why) if is_gone(&why) => {
                needs_bucket(request, &key).await?;
                if expects { Err(why) } else { Ok(()) }
            }
            removed => removed,
        }
    }
}

struct Delete {
    removal: Option<Removal>,
}

#[async_trait(?Send)]
impl Verb for Delete {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        self.removal.iter().flat_map(Removal::needs).collect()
    }

    async fn perform(
        mut self: Box<Self>,
        request: &RequestContext,
        _: &mut Received<'_>,
    ) -> Outcome {
        if let Some(removal) = self.removal.take() {
            removal.perform(request).await?;
        }
        Ok(empty(StatusCode::NO_CONTENT).into())
    }
}

/// POST of a list of keys, each of which is removed by itself.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what a row of the table takes"
)]
pub fn delete_many(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = target.bucket().ok_or(NO_SUCH_KEY)?;
    let payload = Payload::of(asked)?;
    parsed(DeleteMany { bucket, payload })
}

struct DeleteMany {
    bucket: Key<'static>,
    payload: Payload,
}

/// The list of objects that are to be removed.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Listed {
    #[serde(default)]
    quiet: bool,
    /// As they are listed.
    #[serde(default, rename = "Object")]
    pub objects: Vec<ListedObject>,
}

/// One of them. A condition that this door does not know is refused, with the request: nothing is removed without it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ListedObject {
    /// The name in its bucket.
    pub key: String,
    version_id: Option<String>,
    #[serde(rename = "ETag")]
    etag: Option<String>,
}

#[async_trait(?Send)]
impl Verb for DeleteMany {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::Any(Right::Delete, format!("{}/", self.bucket).into())]
    }

    fn of_each(&self) -> Option<&'static str> {
        Some("DELETE")
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self { bucket, payload } = *self;
        let listed: Listed = xml::receive(request, payload, body).await?;
        if listed.objects.len() > MOST || listed.objects.is_empty() {
            return Err(BAD_XML);
        }
        needs_bucket(request, &bucket).await?;
        let mut text = Document::new("DeleteResult", true);
        for object in listed.objects {
            match remove_listed(request, &bucket, &object).await {
                Ok(()) if listed.quiet => {}
                Ok(()) => text.within("Deleted", |text| text.add("Key", &object.key)),
                Err(why) => {
                    let (code, message) = said(&why);
                    text.within("Error", |text| {
                        text.add("Key", &object.key);
                        text.add("Code", code);
                        text.add("Message", &message);
                    });
                }
            }
        }
        Ok(document(text.end()))
    }
}

async fn remove_listed(
    request: &RequestContext,
    bucket: &Key<'_>,
    object: &ListedObject,
) -> Result<(), Refusal> {
    if object
        .version_id
        .as_deref()
        .is_some_and(|it| !matches!(it, "null" | ""))
    {
        return Err(NO_SUCH_VERSION);
    }
    let mut fields = HeaderMap::new();
    if let Some(etag) = &object.etag {
        put_field(&mut fields, IF_MATCH, etag.clone());
    }
    let name = format!("{}/{}", bucket, object.key);
    let target = Target::named(&name)?;
    let removal = Removal::of(target, conditions(&fields, ""))?;
    let permitted = request.permitted_now(|client| client.meet_all(removal.needs()));
    let removed = match permitted {
        Ok(_) => removal.perform(request).await,
        Err(why) => Err(why),
    };
    if let (Err(why), Ok(key)) = (&removed, Key::new(name)) {
        request.audit_refused(&key, why);
    }
    removed
}
