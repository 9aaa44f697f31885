//! `GetObject` and `HeadObject`. A key that ends with `/` is a folder that stays, and has no bytes.

use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use httpdate::fmt_http_date;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG,
    EXPIRES, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::fields::media::UNKNOWN;
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_KEY, PRECONDITION};
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, empty, with};
use crate::http::s3_door::buckets::document;
use crate::http::s3_door::errors::{BAD_ARGUMENT, NO_SUCH_VERSION};
use crate::http::s3_door::listing::{FOLDER_TAG, stays};
use crate::http::s3_door::target::{Target, conditions, is_own_field, not_found};
use crate::http::s3_door::xml::Document;
use crate::http::values::get::{self, GetOptions, GetOutcome};
use crate::http::values::representation::validators;
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Found, Key, Preconditions, Prefixes, Purpose, kept_lines};

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

const ATTRIBUTES: [&str; 5] = [
    "ETag",
    "Checksum",
    "ObjectParts",
    "StorageClass",
    "ObjectSize",
];

/// The attributes of an object that are asked for.
pub fn attributes(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let Target::Object(key) = target else {
        return Err(NO_SUCH_KEY);
    };
    let wanted = asked.head.headers.get_all("x-amz-object-attributes").iter();
    let wanted = wanted
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    let wanted: Vec<_> = wanted.map(|name| name.trim().to_owned()).collect();
    let is_known = |name: &String| ATTRIBUTES.contains(&name.as_str());
    if wanted.is_empty() || !wanted.iter().all(is_known) {
        return Err(BAD_ARGUMENT);
    }
    parsed(Attributes {
        key,
        wanted,
        preconditions: conditions(&asked.head.headers, ""),
    })
}

struct Attributes {
    key: Key<'static>,
    wanted: Vec<String>,
    preconditions: Option<Preconditions>,
}

#[async_trait(?Send)]
impl Verb for Attributes {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::all(Right::Read, self.key.as_str())]
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let service = &*request.service;
        let found = service
            .store
            .get(service.reactor, &self.key, false, Purpose::Use)
            .await?;
        let Some(found) = found else {
            return Err(not_found(request, &self.key).await);
        };
        if self
            .preconditions
            .as_ref()
            .is_some_and(|it| !found.allows(it))
        {
            return Err(PRECONDITION);
        }
        let wants = |name: &str| self.wanted.iter().any(|it| it == name);
        let mut text = Document::new("GetObjectAttributesResponse", true);
        let validators = validators(&found);
        if wants("ETag") {
            text.add("ETag", validators.etag.trim_matches('"'));
        }
        if wants("StorageClass") {
            text.show("StorageClass", "STANDARD");
        }
        if wants("ObjectSize") {
            text.show("ObjectSize", found.len());
        }
        Ok(document(text.end()).with(|headers| {
            put_field(headers, LAST_MODIFIED, fmt_http_date(validators.modified));
        }))
    }
}

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
        let is_modified = !reply.response.status().is_redirection();
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
        if !stays(request, &format!("{}/", self.0), Prefixes::all()).await? {
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
