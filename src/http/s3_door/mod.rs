//! The door of S3: which request asks for which operation, of clients that speak to a store of buckets and objects.
//!
//! A bucket is the first segment of a key, and an object a value: those of every other door, and so are rights, limits,
//! versions and locks. Each operation calls what the other doors call, and says the result in the words of S3. What S3
//! has and this server has not is refused, as `NotImplemented`, or answered as by a store that was never set up with
//! it. Keeps no state. (`crate::s3` is something else: the engine that keeps values in an S3 store.)

mod buckets;
mod copy;
mod errors;
mod listing;
pub mod multipart;
mod objects;
pub mod payload;
pub mod removal;
pub mod signature;
mod stores;
mod target;
pub mod xml;

use async_trait::async_trait;
use hyper::Method;
use hyper::header::HeaderValue;

use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::head::path::PAGES;
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply};
use crate::http::s3_door::errors::{METHOD_NOT_ALLOWED, REQUEST_ID, not_implemented};
use crate::http::s3_door::target::Target;
use crate::http::verb::{BodyUse, OptionsRequest, Parsed, Verb, parsed};

pub use errors::render;

/// What a row of the table is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Service,
    Bucket,
    Object,
}

/// What answers the requests of a row.
enum Answer {
    Verb(fn(&RequestHead<'_>, Target) -> Parsed),
    /// The document that says that nothing was set up.
    Empty(&'static str),
    /// The error that says so.
    Missing(Refusal),
}

/// A row: a method, what it is about, and the parameter of the query that tells the operation, if one does.
struct Row(&'static [Method], On, &'static str, Answer);

use Answer::{Empty, Missing, Verb as Do};

const READS: &[Method] = &[Method::GET, Method::HEAD];
const GET: &[Method] = &[Method::GET];
const HEAD: &[Method] = &[Method::HEAD];
const PUT: &[Method] = &[Method::PUT];
const POST: &[Method] = &[Method::POST];
const DELETE: &[Method] = &[Method::DELETE];

/// The operations. A request is that of the first row that it fits; a parameter of [`OTHERS`] fits no other row.
static ROWS: &[Row] = &[
    Row(GET, On::Service, "", Do(buckets::list)),
    Row(GET, On::Bucket, "location", Do(buckets::location)),
    Row(GET, On::Bucket, "", Do(listing::list)),
    Row(HEAD, On::Bucket, "", Do(buckets::head)),
    Row(PUT, On::Bucket, "", Do(buckets::create)),
    Row(DELETE, On::Bucket, "", Do(buckets::delete)),
    Row(POST, On::Bucket, "delete", Do(removal::delete_many)),
    Row(GET, On::Bucket, "uploads", Do(multipart::list)),
    Row(POST, On::Object, "uploads", Do(multipart::begin)),
    Row(PUT, On::Object, "uploadId", Do(multipart::part)),
    Row(GET, On::Object, "uploadId", Do(multipart::parts)),
    Row(POST, On::Object, "uploadId", Do(multipart::complete)),
    Row(DELETE, On::Object, "uploadId", Do(multipart::abort)),
    Row(GET, On::Object, "attributes", Do(objects::attributes)),
    Row(READS, On::Object, "", Do(objects::get)),
    Row(PUT, On::Object, "", Do(put)),
    Row(DELETE, On::Object, "", Do(removal::delete)),
    Row(
        GET,
        On::Object,
        "tagging",
        Empty("<Tagging><TagSet/></Tagging>"),
    ),
    Row(
        GET,
        On::Bucket,
        "versioning",
        Empty("<VersioningConfiguration/>"),
    ),
    Row(GET, On::Bucket, "logging", Empty("<BucketLoggingStatus/>")),
    Row(
        GET,
        On::Bucket,
        "notification",
        Empty("<NotificationConfiguration/>"),
    ),
    Row(
        GET,
        On::Bucket,
        "accelerate",
        Empty("<AccelerateConfiguration/>"),
    ),
    Row(
        GET,
        On::Bucket,
        "requestPayment",
        Empty(
            "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>",
        ),
    ),
    missing("cors", errors::NO_CORS),
    missing("encryption", errors::NO_ENCRYPTION),
    missing("lifecycle", errors::NO_LIFECYCLE),
    missing("object-lock", errors::NO_LOCKS),
    missing("ownershipControls", errors::NO_OWNERSHIP),
    missing("policy", errors::NO_POLICY),
    missing("publicAccessBlock", errors::NO_ACCESS_BLOCK),
    missing("replication", errors::NO_REPLICATION),
    missing("tagging", errors::NO_TAGS),
    missing("website", errors::NO_WEBSITE),
];

const fn missing(parameter: &'static str, why: Refusal) -> Row {
    Row(GET, On::Bucket, parameter, Missing(why))
}

/// The parameters of S3 that make another operation of a request, beside those of [`ROWS`].
const OTHERS: [&str; 18] = [
    "acl",
    "analytics",
    "append",
    "delete",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "metadataConfiguration",
    "metadataTable",
    "metrics",
    "policyStatus",
    "renameObject",
    "restore",
    "retention",
    "select",
    "session",
    "torrent",
    "versions",
];

/// PUT of an object, or of a part of one, with a body or from another object.
fn put(asked: &RequestHead<'_>, target: Target) -> Parsed {
    // A part of no upload, or a version, would be stored as if it were all.
    if asked.query.has("partNumber") || asked.query.has("versionId") {
        return Err(errors::BAD_ARGUMENT);
    }
    match (copy::source(&asked.head.headers)?, target) {
        (None, target) => stores::put(asked, target),
        (Some(source), Target::Object(to)) => copy::copy(asked, source, to),
        (Some(_), _) => Err(errors::BAD_ARGUMENT),
    }
}

/// The operation of a request of this door; `None` for a page of the server.
pub fn verb(asked: &RequestHead<'_>) -> Parsed {
    let method = &asked.head.method;
    if asked.path.starts_with(PAGES) {
        return Ok(None);
    }
    if *method == Method::OPTIONS {
        let methods = "GET, HEAD, PUT, POST, DELETE, OPTIONS";
        return parsed(OptionsRequest::of(asked, methods));
    }
    let target = Target::of(asked)?;
    let on = match &target {
        Target::Service => On::Service,
        Target::Bucket(_) => On::Bucket,
        Target::Object(_) | Target::Folder(_) => On::Object,
    };
    let names = || asked.query.pairs().map(|(name, _)| name);
    let is_known = |name| ROWS.iter().any(|row| row.2 == name) || OTHERS.contains(&name);
    let parameter = names().find(|name| is_known(name)).unwrap_or_default();
    let is_own = |row: &&Row| row.0.contains(method) && row.1 == on && row.2 == parameter;
    let Some(row) = ROWS.iter().find(is_own) else {
        return Err(match parameter {
            "" => METHOD_NOT_ALLOWED,
            parameter => not_implemented(format!("the parameter {parameter} with {method}")),
        });
    };
    if !method.is_safe() {
        asked.config.may_change()?;
    }
    target::check_fields(asked)?;
    let inner = match &row.3 {
        Do(parse) => parse(asked, target)?,
        Empty(text) => Some(Box::new(buckets::Said::of(&target, Ok(text))) as Box<dyn Verb>),
        Missing(Refusal { kind, text, .. }) => {
            let why = kind.because(text.clone());
            Some(Box::new(buckets::Said::of(&target, Err(why))) as Box<dyn Verb>)
        }
    };
    inner.map_or(Ok(None), |inner| parsed(Named(inner)))
}

/// An operation, whose answer names the request.
struct Named(Box<dyn Verb>);

#[async_trait(?Send)]
impl Verb for Named {
    fn body(&self) -> BodyUse {
        self.0.body()
    }

    fn needs(&self) -> Vec<Need<'_>> {
        self.0.needs()
    }

    fn of_each(&self) -> Option<&'static str> {
        self.0.of_each()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.0.permit(client)
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let reply: Reply = self.0.perform(request, body).await?;
        let id = request.request_id();
        Ok(reply.with(|headers| {
            if let Ok(id) = HeaderValue::try_from(id) {
                headers.insert(REQUEST_ID, id);
            }
        }))
    }
}
