//! `DeleteObject` and `DeleteObjects`: what is not there is gone already.

use hyper::StatusCode;
use hyper::header::{HeaderMap, IF_MATCH};
use serde::Deserialize;

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::changes::{self, delete as remove};
use crate::http::folders::change::release_folder;
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::empty;
use crate::http::s3_door::errors::{NO_SUCH_VERSION, not_implemented, said};
use crate::http::s3_door::fields::{check_version, conditions_of_write};
use crate::http::s3_door::listing::MOST;
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{Target, needs_bucket};
use crate::http::s3_door::xml::{self, BAD_XML, Document};
use crate::http::verb::{Parsed, Verb as _};
use crate::store::{Error, Key, Preconditions};

/// DELETE of an object, or of a folder, which goes with its last value then.
pub fn delete(asked: &RequestHead<'_>, target: Target) -> Parsed {
    check_version(asked)?;
    let removal = Removal::of(target, conditions_of_write(&asked.head.headers))?;
    operation(Takes::Nothing, removal.needs(), async |request, _| {
        removal.perform(request).await?;
        Ok(empty(StatusCode::NO_CONTENT).into())
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
            Target::Folder(_) if preconditions.is_some() => {
                Err(not_implemented("a condition on the removal of a folder"))
            }
            Target::Folder(folder) => Ok(Self::Folder(folder)),
            _ => Err(NO_SUCH_KEY),
        }
    }

    fn needs(&self) -> Vec<Need<'static>> {
        let needs = match self {
            Self::Object(asked) => asked.needs(),
            Self::Folder(folder) => vec![Need::below(Right::Delete, folder.as_str())],
        };
        needs.into_iter().map(Need::into_owned).collect()
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

/// POST of a list of keys, each of which is removed by itself.
pub fn delete_many(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = target.bucket()?;
    let payload = Payload::of(asked)?;
    let needs = [Need::Any(Right::Delete, format!("{bucket}/").into())];
    operation(Takes::Names("DELETE"), needs, async move |request, body| {
        let listed: Listed = xml::receive(request, payload, body).await?;
        if listed.objects.len() > MOST || listed.objects.is_empty() {
            return Err(BAD_XML);
        }
        needs_bucket(request, &bucket).await?;
        let mut text = Document::new("DeleteResult");
        for object in listed.objects {
            match remove_listed(request, &bucket, &object).await {
                Ok(()) if listed.quiet => {}
                Ok(()) => text.within("Deleted", |text| text.add("Key", &object.key)),
                Err(why) => text.within("Error", |text| {
                    let (code, message) = said(&why);
                    text.add("Key", &object.key);
                    text.add("Code", code);
                    text.add("Message", &message);
                }),
            }
        }
        Ok(text.answer())
    })
}

async fn remove_listed(
    request: &RequestContext,
    bucket: &Key<'_>,
    object: &ListedObject,
) -> Result<(), Refusal> {
    let version = object.version_id.as_deref();
    if version.is_some_and(|it| !matches!(it, "null" | "")) {
        return Err(NO_SUCH_VERSION);
    }
    let mut fields = HeaderMap::new();
    if let Some(etag) = &object.etag {
        put_field(&mut fields, IF_MATCH, etag.clone());
    }
    let name = format!("{}/{}", bucket, object.key);
    let removal = Removal::of(Target::named(&name)?, conditions_of_write(&fields))?;
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
