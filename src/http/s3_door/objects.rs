//! Objects: read, stored and removed, one or many. A key that ends with `/` is a folder that stays.

use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use httpdate::fmt_http_date;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG,
    EXPIRES, HeaderMap, HeaderName, HeaderValue, IF_MATCH, LAST_MODIFIED,
};
use serde::Deserialize;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::changes::{self, delete as remove};
use crate::http::fields::media::UNKNOWN;
use crate::http::folders::change::{MakeFolder, make_folder, release_folder};
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_KEY, PRECONDITION, too_large};
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, empty, with};
use crate::http::s3_door::buckets::{document, is_folder};
use crate::http::s3_door::errors::{BAD_ARGUMENT, BAD_XML, FOLDER_HAS_BODY, said};
use crate::http::s3_door::listing::{FOLDER_TAG, MOST};
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{
    Target, conditions, is_own_field, needs_bucket, not_found, own_fields, stored_fields,
};
use crate::http::s3_door::xml::{self, Document};
use crate::http::values::get::{self, GetOptions, GetOutcome};
use crate::http::values::put::{self, PutRequest};
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Error, Found, Key, Page, Preconditions, Prefixes, kept_lines};

/// The parameters of a GET that replace fields of its answer.
const OVERRIDES: [(&str, HeaderName); 6] = [
    ("response-cache-control", CACHE_CONTROL),
    ("response-content-disposition", CONTENT_DISPOSITION),
    ("response-content-encoding", CONTENT_ENCODING),
    ("response-content-language", CONTENT_LANGUAGE),
    ("response-content-type", CONTENT_TYPE),
    ("response-expires", EXPIRES),
];

/// GET and HEAD.
pub fn get(asked: &RequestHead<'_>, target: Target) -> Parsed {
    if asked.query.get("versionId").is_some_and(|it| it != "null") {
        return Err(NO_SUCH_VERSION);
    }
    // An object is its first part.
    if asked.query.get("partNumber").is_some_and(|it| it != "1") {
        return Err(NO_SUCH_PART);
    }
    let key = match target {
        Target::Folder(folder) => return parsed(GetFolder(folder)),
        Target::Object(key) => key,
        _ => return Err(NO_SUCH_KEY),
    };
    let mut overrides = HeaderMap::new();
    for (name, field) in OVERRIDES {
        if let Some(value) = asked.query.get(name) {
            overrides.insert(
                field,
                HeaderValue::try_from(value).map_err(|_| BAD_ARGUMENT)?,
            );
        }
    }
    let options = GetOptions {
        preconditions: conditions(&asked.head.headers, ""),
        takes_gzip: false,
        ..GetOptions::of(asked.head, asked.config)
    };
    parsed(Get {
        key,
        options,
        overrides,
    })
}

const NO_SUCH_VERSION: Refusal = Refusal::new(
    &Kind::new(StatusCode::NOT_FOUND, "no-such-version"),
    "an object has one version here, whose id is null",
);
const NO_SUCH_PART: Refusal = Refusal::new(
    &Kind::new(StatusCode::RANGE_NOT_SATISFIABLE, "no-such-part"),
    "an object has one part here",
);
const ONLY_SIGNED: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "only-signed"),
    "response- parameters are for signed requests",
);

struct Get {
    key: Key<'static>,
    options: GetOptions,
    overrides: HeaderMap,
}

#[async_trait(?Send)]
impl Verb for Get {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::all(Right::Read, self.key.as_str())]
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let is_signed = |client: &Principal| !client.subject.is_anonymous;
        if !self.overrides.is_empty() && !request.principal().is_some_and(is_signed) {
            return Err(ONLY_SIGNED);
        }
        let found = get::get(request, &self.key, Some(&self.options), None).await?;
        let Some(GetOutcome::Value(value)) = found else {
            return Err(not_found(request, &self.key).await);
        };
        let own = fields_of(&value.value.found);
        let reply = Reply::from(GetOutcome::Value(value));
        let is_modified = reply.response.status() != StatusCode::NOT_MODIFIED;
        Ok(reply.with(|headers| {
            if is_modified {
                headers.extend(own);
            }
            headers.extend(self.overrides);
        }))
    }
}

/// The fields of an object that this door alone knows.
pub fn fields_of(found: &Found) -> HeaderMap {
    let Found::File(object) = found else {
        return HeaderMap::new();
    };
    let lines = kept_lines(object.fields.as_deref().unwrap_or_default());
    let fields = lines.filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name).ok()?;
        let value = HeaderValue::from_bytes(value).ok()?;
        is_own_field(name.as_str()).then_some((name, value))
    });
    fields.collect()
}

/// A folder that stays, as an object without bytes.
struct GetFolder(Key<'static>);

#[async_trait(?Send)]
impl Verb for GetFolder {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::Any(Right::Read, format!("{}/", self.0).into())]
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let service = &*request.service;
        let name = format!("{}/", self.0);
        let first = Page {
            prefix: name.clone(),
            limit: 1,
            folders: true,
            within: Prefixes::all(),
            ..Page::default()
        };
        let listing = service.store.list(service.reactor, first).await?;
        if listing.folders.first() != Some(&name) {
            return Err(not_found(request, &self.0).await);
        }
        let response = with(empty(StatusCode::OK), |headers| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(UNKNOWN));
            headers.insert(ETAG, HeaderValue::from_static(FOLDER_TAG));
            put_field(headers, LAST_MODIFIED, fmt_http_date(UNIX_EPOCH));
        });
        Ok(response.into())
    }
}

/// PUT of an object, or of a folder.
pub fn put(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let payload = Payload::of(asked)?;
    match target {
        Target::Object(key) => parsed(Put {
            asked: put_of(asked, key, &payload)?,
            payload,
        }),
        Target::Folder(folder) => parsed(PutFolder {
            asked: MakeFolder::of(folder.clone(), asked.config)?,
            folder,
            payload,
        }),
        _ => Err(NO_SUCH_KEY),
    }
}

/// The object that a request with this head stores, with this payload.
pub fn put_of(
    asked: &RequestHead<'_>,
    key: Key<'static>,
    payload: &Payload,
) -> Result<Box<PutRequest>, Refusal> {
    asked.needs_length()?;
    let mut put = Box::new(PutRequest::of(key, asked.config)?);
    let limit = asked.config.limits.max_body;
    if payload.len.is_some_and(|len| len > limit) {
        return Err(too_large(limit));
    }
    described(&mut put, asked)?;
    payload.expect(&mut put)?;
    Ok(put)
}

/// Takes what the head says of an object.
pub fn described(put: &mut PutRequest, asked: &RequestHead<'_>) -> Result<(), Refusal> {
    let headers = &asked.head.headers;
    put.read(&stored_fields(headers), asked.config)?;
    put.keep(own_fields(headers))?;
    put.preconditions = conditions(headers, "").filter(Preconditions::are_of_writes);
    Ok(())
}

struct Put {
    asked: Box<PutRequest>,
    payload: Payload,
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
        let Self { asked, payload } = *self;
        let key = asked.key.clone();
        needs_bucket(request, &key).await?;
        payload.open(request, body)?;
        let wants = asked
            .preconditions
            .as_ref()
            .is_some_and(|it| it.matching.is_some());
        let stored = put::put(request, asked, body).await;
        let stored = unless_gone(request, &key, wants, stored).await?;
        let response = with(empty(StatusCode::OK), |headers| {
            put_field(headers, ETAG, stored.etag)
        });
        Ok(response.into())
    }
}

/// As S3 has it: a version that is expected of an object that is not there is no such key.
pub async fn unless_gone<T>(
    request: &RequestContext,
    key: &Key<'_>,
    wants: bool,
    stored: Result<T, Refusal>,
) -> Result<T, Refusal> {
    match stored {
        Err(why) if wants && why.kind == PRECONDITION.kind => {
            let directory = request.service.store.directory();
            let is_there = match directory {
                Some(directory) => directory.meta(key).await?.is_some(),
                None => true,
            };
            Err(if is_there { why } else { NO_SUCH_KEY })
        }
        stored => stored,
    }
}

/// So much is read of a body that should be empty, to say that it is not.
const LONGEST_NOTHING: usize = 64 << 10;

struct PutFolder {
    folder: Key<'static>,
    asked: MakeFolder,
    payload: Payload,
}

#[async_trait(?Send)]
impl Verb for PutFolder {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::below(Right::Create, self.folder.as_str())]
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self {
            folder,
            asked,
            payload,
        } = *self;
        needs_bucket(request, &folder).await?;
        if !payload
            .read(request, body, LONGEST_NOTHING)
            .await?
            .is_empty()
        {
            return Err(FOLDER_HAS_BODY);
        }
        let made = make_folder(request, asked).await;
        made.or_else(|why| if is_folder(&why) { Ok(()) } else { Err(why) })?;
        let response = with(empty(StatusCode::OK), |headers| {
            headers.insert(ETAG, HeaderValue::from_static(FOLDER_TAG));
        });
        Ok(response.into())
    }
}

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

    /// Removes it; what is not there is gone already.
    async fn perform(self, request: &RequestContext) -> Result<(), Refusal> {
        let is_gone = |why: &Refusal| {
            *why == NO_SUCH_KEY || matches!(why.cause(), Some(Error::Occupied(_) | Error::NoFolder))
        };
        let removed = match self {
            Self::Object(asked) => remove(request, asked).await,
            Self::Folder(folder) => release_folder(request, folder).await,
        };
        removed.or_else(|why| if is_gone(&why) { Ok(()) } else { Err(why) })
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
pub fn delete_many(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = target.bucket().ok_or(NO_SUCH_KEY)?;
    let payload = Payload::of(asked)?;
    parsed(DeleteMany { bucket, payload })
}

struct DeleteMany {
    bucket: Key<'static>,
    payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    #[serde(default)]
    quiet: bool,
    #[serde(default, rename = "Object")]
    objects: Vec<ListedObject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedObject {
    key: String,
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
