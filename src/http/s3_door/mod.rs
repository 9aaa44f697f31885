//! The door of S3: which request asks for which operation, of clients that speak to a store of buckets and objects.
//!
//! A bucket is the first segment of a key, and an object a value: those of every other door, and so are rights, limits,
//! versions and locks. Each operation calls what the other doors call, and says the result in the words of S3. What S3
//! has and this server has not is refused, as `NotImplemented`, or answered as by a store that was never set up with
//! it. Keeps no state. (`crate::s3` is something else: the engine that keeps values in an S3 store.)

mod buckets;
mod copy;
mod errors;
mod fields;
mod listing;
pub mod multipart;
mod objects;
mod operation;
mod patience;
pub mod payload;
pub mod removal;
pub mod signature;
mod stores;
mod target;
pub mod xml;

use hyper::Method;

use crate::http::head::path::PAGES;
use crate::http::request::head::RequestHead;
use crate::http::s3_door::buckets::says;
use crate::http::s3_door::errors::{METHOD_NOT_ALLOWED, not_implemented};
use crate::http::s3_door::target::Target;
use crate::http::verb::{OptionsRequest, Parsed, parsed};

pub use errors::render;

/// What a row of the table is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Service,
    Bucket,
    Object,
}

/// A row: a method, what it is about, and the parameter of the query that tells the operation, if one does.
struct Row(
    &'static [Method],
    On,
    &'static str,
    fn(&RequestHead<'_>, Target) -> Parsed,
);

const READS: &[Method] = &[Method::GET, Method::HEAD];
const GET: &[Method] = &[Method::GET];
const HEAD: &[Method] = &[Method::HEAD];
const PUT: &[Method] = &[Method::PUT];
const POST: &[Method] = &[Method::POST];
const DELETE: &[Method] = &[Method::DELETE];

macro_rules! rows {
    ($($method:ident $on:ident $parameter:literal $parse:expr;)*) => {
        &[$(Row($method, On::$on, $parameter, $parse)),*]
    };
}

/// The operations. A request is that of the first row that it fits; a parameter of [`OTHERS`] fits no other row. The
/// last ones are about what was never set up here.
static ROWS: &[Row] = rows! {
    GET Service "" buckets::list;
    GET Bucket "location" buckets::location;
    GET Bucket "" listing::list;
    HEAD Bucket "" buckets::head;
    PUT Bucket "" buckets::create;
    DELETE Bucket "" buckets::delete;
    POST Bucket "delete" removal::delete_many;
    GET Bucket "uploads" multipart::list::uploads;
    POST Object "uploads" multipart::begin;
    PUT Object "uploadId" multipart::part;
    GET Object "uploadId" multipart::list::parts;
    POST Object "uploadId" multipart::complete::complete;
    DELETE Object "uploadId" multipart::abort;
    GET Object "attributes" objects::attributes;
    READS Object "" objects::get;
    PUT Object "" stores::put;
    DELETE Object "" removal::delete;
    GET Object "acl" |_, it| says(it, Ok(ACL));
    GET Bucket "acl" |_, it| says(it, Ok(ACL));
    GET Object "tagging" |_, it| says(it, Ok("<Tagging><TagSet/></Tagging>"));
    GET Bucket "versioning" |_, it| says(it, Ok("<VersioningConfiguration/>"));
    GET Bucket "logging" |_, it| says(it, Ok("<BucketLoggingStatus/>"));
    GET Bucket "notification" |_, it| says(it, Ok("<NotificationConfiguration/>"));
    GET Bucket "accelerate" |_, it| says(it, Ok("<AccelerateConfiguration/>"));
    GET Bucket "requestPayment" |_, it| says(it, Ok(REQUEST_PAYMENT));
    GET Bucket "cors" |_, it| says(it, Err(errors::NO_CORS));
    GET Bucket "encryption" |_, it| says(it, Err(errors::NO_ENCRYPTION));
    GET Bucket "lifecycle" |_, it| says(it, Err(errors::NO_LIFECYCLE));
    GET Bucket "object-lock" |_, it| says(it, Err(errors::NO_LOCKS));
    GET Bucket "ownershipControls" |_, it| says(it, Err(errors::NO_OWNERSHIP));
    GET Bucket "policy" |_, it| says(it, Err(errors::NO_POLICY));
    GET Bucket "publicAccessBlock" |_, it| says(it, Err(errors::NO_ACCESS_BLOCK));
    GET Bucket "replication" |_, it| says(it, Err(errors::NO_REPLICATION));
    GET Bucket "tagging" |_, it| says(it, Err(errors::NO_TAGS));
    GET Bucket "website" |_, it| says(it, Err(errors::NO_WEBSITE));
};

const ACL: &str = "<AccessControlPolicy><Owner><ID>data-server</ID></Owner><AccessControlList/></AccessControlPolicy>";

const REQUEST_PAYMENT: &str =
    "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>";

/// The parameters of S3 that make another operation of a request, beside those of [`ROWS`].
const OTHERS: &str = "analytics append delete intelligent-tiering inventory legal-hold \
    metadataConfiguration metadataTable metrics policyStatus renameObject restore retention select session torrent \
    versions";

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
    let mut names = asked.query.pairs().map(|(name, _)| name);
    let rows = || ROWS.iter().map(|row| row.2);
    let is_known = |name: &&str| rows().chain(OTHERS.split(' ')).any(|it| it == *name);
    let parameter = names.find(is_known).unwrap_or_default();
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
    fields::check_fields(asked)?;
    (row.3)(asked, target)
}
