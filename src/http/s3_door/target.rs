//! What a request of this door is for: the service, a bucket, an object or a folder; and the fields that it may have.
//!
//! A bucket stands in the path, or in the name of the host. Pure.

use std::borrow::Cow;

use hyper::header::{
    CONTENT_ENCODING, HOST, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
};
use percent_encoding::percent_decode_str;

use crate::http::head::allowlists::host_and_port;
use crate::http::head::syntax::has_bad_escape;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::s3_door::errors::{BAD_ARGUMENT, BAD_BUCKET, NO_BUCKET, not_implemented};
use crate::http::values::conditional::preconditions;
use crate::http::values::digest_fields::AMZ_CONTENT_SHA256;
use crate::store::{BadKey, Key, Preconditions};

/// The fields of S3 that a request may have; a name that ends with `-` is a prefix. Another would be passed over, and
/// what it asks for not be done.
const FIELDS: [&str; 21] = [
    "x-amz-algorithm",
    "x-amz-bucket-region",
    "x-amz-checksum-",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-copy-source-if-",
    "x-amz-copy-source-range",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-max-parts",
    "x-amz-meta-",
    "x-amz-metadata-directive",
    "x-amz-object-attributes",
    "x-amz-part-number-marker",
    "x-amz-request-payer",
    "x-amz-sdk-",
    "x-amz-security-token",
    "x-amz-te",
    "x-amz-trailer",
    "x-amz-user-agent",
    "x-amz-mp-object-size",
];

/// The fields that may have these values alone.
const WITH: [(&str, &[&str]); 8] = [
    ("x-amz-acl", &["private", "bucket-owner-full-control"]),
    ("x-amz-api-version", &["2006-03-01"]),
    ("x-amz-object-ownership", &["BucketOwnerEnforced"]),
    ("x-amz-optional-object-attributes", &["RestoreStatus"]),
    ("x-amz-storage-class", &["STANDARD"]),
    ("x-amz-tagging-directive", &["COPY"]),
    ("x-amz-bucket-object-lock-enabled", &["false"]),
    // There is no lock to go past.
    ("x-amz-bypass-governance-retention", &["true", "false"]),
];

/// Refuses a field of S3 that this door does not know.
pub fn check_fields(asked: &RequestHead<'_>) -> Result<(), Refusal> {
    for (name, value) in &asked.head.headers {
        let name = name.as_str();
        if !name.starts_with("x-amz-") {
            continue;
        }
        let is_known =
            |known: &&str| name == *known || known.ends_with('-') && name.starts_with(*known);
        let has = |(known, values): &&(&str, &[&str])| {
            name == *known && values.iter().any(|it| it.as_bytes() == value.as_bytes())
        };
        if !FIELDS.iter().any(is_known) && !WITH.iter().any(|it| has(&it)) {
            return Err(not_implemented(format!("the field {name} with this value")));
        }
    }
    Ok(())
}

/// A number in the query.
pub fn number(asked: &RequestHead<'_>, name: &str, otherwise: usize) -> Result<usize, Refusal> {
    let number = asked.query.get(name).map(str::parse).transpose();
    Ok(number.map_err(|_| BAD_ARGUMENT)?.unwrap_or(otherwise))
}

/// What a request is for.
pub enum Target {
    Service,
    /// The folder that is the bucket.
    Bucket(Key<'static>),
    /// A value in a bucket.
    Object(Key<'static>),
    /// A key that ends with `/`: the folder of this name.
    Folder(Key<'static>),
}

impl Target {
    /// The target of a request.
    pub fn of(asked: &RequestHead<'_>) -> Result<Self, Refusal> {
        let path = match virtual_bucket(asked) {
            Some(bucket) => Cow::Owned(format!("/{bucket}{}", asked.path)),
            None => Cow::Borrowed(asked.path),
        };
        Self::at(&path)
    }

    /// The target at a path, percent-encoded, that begins with the bucket.
    pub fn at(path: &str) -> Result<Self, Refusal> {
        match path.strip_prefix('/') {
            Some("") => Ok(Self::Service),
            Some(name) if !name.contains('%') => Self::named(name),
            _ if has_bad_escape(path) => Err(BAD_ARGUMENT),
            _ => {
                let name = percent_decode_str(&path[1..]).decode_utf8();
                Self::named(&name.map_err(|_| BadKey::NotUtf8)?)
            }
        }
    }

    /// The target of this name, which begins with the bucket.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        let (folder, is_folder) = match name.strip_suffix('/') {
            Some(folder) => (folder, true),
            None => (name, false),
        };
        let is_bucket = !folder.contains('/');
        if is_folder || is_bucket {
            // There can be keys below it.
            let below = Key::new(format!("{folder}/k")).map(drop);
            below.map_err(|why| if is_bucket { BAD_BUCKET } else { why.into() })?;
        }
        let key = Key::new(folder.to_owned())?;
        Ok(match (is_bucket, is_folder) {
            (true, _) => Self::Bucket(key),
            (false, true) => Self::Folder(key),
            (false, false) => Self::Object(key),
        })
    }

    /// The bucket.
    pub fn bucket(&self) -> Option<Key<'static>> {
        match self {
            Self::Service => None,
            Self::Bucket(key) | Self::Object(key) | Self::Folder(key) => Some(bucket_of(key)),
        }
    }
}

/// The bucket that the host names, as in `bucket.s3.example`.
fn virtual_bucket(asked: &RequestHead<'_>) -> Option<String> {
    let hosts = &asked.config.s3_hosts;
    if hosts.is_empty() {
        return None;
    }
    let of_field = || asked.head.headers.get(HOST)?.to_str().ok();
    let authority = asked
        .head
        .uri
        .authority()
        .map(hyper::http::uri::Authority::as_str)
        .or_else(of_field)?;
    let host = host_and_port(authority).map_or(authority, |(host, _)| host);
    let host = host.to_ascii_lowercase();
    let bucket = hosts
        .iter()
        .find_map(|of| host.strip_suffix(&**of)?.strip_suffix('.'))?;
    (!bucket.is_empty()).then(|| bucket.to_owned())
}

/// The bucket that the object `key` is in.
pub fn bucket_of(key: &Key<'_>) -> Key<'static> {
    let name = key.as_str();
    let bucket = name.split_once('/').map_or(name, |(bucket, _)| bucket);
    Key::recorded(bucket.to_owned()).unwrap_or_else(|_| key.clone().into_owned())
}

/// The name of an object in its bucket.
pub fn name_of<'k>(key: &'k str, bucket: &Key<'_>) -> &'k str {
    key.get(bucket.as_str().len() + 1..).unwrap_or_default()
}

/// Refuses what is for a bucket that is not there.
pub async fn needs_bucket(request: &RequestContext, key: &Key<'_>) -> Result<(), Refusal> {
    let bucket = bucket_of(key);
    let has_bucket = request.service.store.has_folder(&bucket).await?;
    has_bucket.then_some(()).ok_or(NO_BUCKET)
}

/// That there is no object of this `key`, or not even its bucket.
pub async fn not_found(request: &RequestContext, key: &Key<'_>) -> Refusal {
    needs_bucket(request, key)
        .await
        .err()
        .unwrap_or(NO_SUCH_KEY)
}

/// The conditions of a request, behind this prefix of their names. Clients of S3 leave out the quotes of a tag.
pub fn conditions(headers: &HeaderMap, prefix: &str) -> Option<Preconditions> {
    let mut found = HeaderMap::new();
    for name in [
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
    ] {
        let is_tag = name == IF_MATCH || name == IF_NONE_MATCH;
        for value in headers.get_all(format!("{prefix}{name}")) {
            let bytes = value.as_bytes();
            let is_bare = is_tag && bytes != b"*" && !bytes.contains(&b'"');
            let quoted = || HeaderValue::from_bytes(&[b"\"", bytes, b"\""].concat()).ok();
            let value = Some(value.clone()).filter(|_| !is_bare).or_else(quoted);
            found.extend(value.map(|value| (name.clone(), value)));
        }
    }
    preconditions(&found)
}

/// The fields of a request that say how its value is stored, without those of its framing and of its conditions.
pub fn stored_fields(headers: &HeaderMap) -> HeaderMap {
    let mut stored = headers.clone();
    for name in [
        AMZ_CONTENT_SHA256,
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
    ] {
        stored.remove(name);
    }
    stored.remove(CONTENT_ENCODING);
    for line in headers.get_all(CONTENT_ENCODING) {
        let text = line.to_str().unwrap_or_default();
        let codings = text.split(',').map(str::trim);
        let codings =
            codings.filter(|it| !it.eq_ignore_ascii_case("aws-chunked") && !it.is_empty());
        let codings = codings.collect::<Vec<_>>().join(", ");
        if let Some(codings) = HeaderValue::try_from(codings)
            .ok()
            .filter(|it| !it.is_empty())
        {
            stored.append(CONTENT_ENCODING, codings);
        }
    }
    stored
}

/// The fields of an object that this door alone knows, and sends again.
pub fn own_fields(headers: &HeaderMap) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let own = headers
        .iter()
        .filter(|(name, _)| is_own_field(name.as_str()));
    own.map(|(name, value)| (name.clone(), value.clone()))
}

/// True for such a field.
pub fn is_own_field(name: &str) -> bool {
    name.starts_with("x-amz-meta-") || name == "expires"
}
