//! The fields of requests and of objects: which a request may have, which say how its object is stored, and which are
//! sent with an object again.
//!
//! Pure.

use hyper::header::{
    CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
};

use crate::http::refusal::Refusal;
use crate::http::request::head::RequestHead;
use crate::http::s3_door::errors::{NO_SUCH_VERSION, not_implemented};
use crate::http::values::conditional::preconditions;
use crate::http::values::digest_fields::{AMZ_CONTENT_SHA256, checksum_type, checksums};
use crate::http::values::put::PutRequest;
use crate::store::{Found, Preconditions, kept_lines};

/// Whether checksums are of all bytes, or of those of the parts.
pub const CHECKSUM_TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");

/// The fields of S3 that a request may have; a name that ends with `-` is a prefix. Another would be passed over, and
/// what it asks for not be done.
const FIELDS: &str = "x-amz-algorithm x-amz-bucket-region x-amz-checksum- x-amz-content-sha256 x-amz-copy-source \
    x-amz-copy-source-if- x-amz-copy-source-range x-amz-date x-amz-decoded-content-length x-amz-max-parts x-amz-meta- \
    x-amz-metadata-directive x-amz-object-attributes x-amz-part-number-marker x-amz-request-payer x-amz-sdk- \
    x-amz-security-token x-amz-te x-amz-trailer x-amz-user-agent x-amz-mp-object-size";

/// The fields that may have these values alone.
const WITH: [(&str, &[&str]); 8] = [
    ("x-amz-acl", &["private", "bucket-owner-full-control"]),
    ("x-amz-api-version", &["2006-03-01"]),
    ("x-amz-optional-object-attributes", &["RestoreStatus"]),
    ("x-amz-object-ownership", &["BucketOwnerEnforced"]),
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
            |known: &str| name == known || known.ends_with('-') && name.starts_with(known);
        let has = |(known, values): &&(&str, &[&str])| {
            name == *known && values.iter().any(|it| it.as_bytes() == value.as_bytes())
        };
        if !FIELDS.split(' ').any(is_known) && !WITH.iter().any(|it| has(&it)) {
            return Err(not_implemented(format!("the field {name} with this value")));
        }
    }
    Ok(())
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

/// The fields of an object that this door alone knows, and sends again. One that comes in several lines is one.
pub fn own_fields(headers: &HeaderMap) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let own = headers.keys().filter(|name| is_own_field(name.as_str()));
    own.filter_map(|name| {
        let lines: Vec<_> = headers
            .get_all(name)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        let value = HeaderValue::from_bytes(&lines.join(&b","[..])).ok()?;
        Some((name.clone(), value))
    })
}

/// True for such a field.
pub fn is_own_field(name: &str) -> bool {
    name.starts_with("x-amz-meta-") || name == "expires"
}

/// Takes what the head says of an object.
pub fn described(put: &mut PutRequest, asked: &RequestHead<'_>) -> Result<(), Refusal> {
    let headers = &asked.head.headers;
    put.read(&stored_fields(headers), asked.config)?;
    put.keep(own_fields(headers))?;
    put.preconditions = conditions_of_write(headers);
    Ok(())
}

/// The conditions of a request that changes what it names.
pub fn conditions_of_write(headers: &HeaderMap) -> Option<Preconditions> {
    conditions(headers, "").filter(Preconditions::are_of_writes)
}

/// True where it is stored in the place of a version that is expected.
pub fn wants_version(put: &PutRequest) -> bool {
    let preconditions = put.preconditions.as_ref();
    preconditions.is_some_and(|it| it.matching.is_some())
}

/// The fields of an object that the other doors do not send.
pub fn fields_of(found: &Found) -> HeaderMap {
    let Found::File(object) = found else {
        return HeaderMap::new();
    };
    let lines = kept_lines(object.fields.as_deref().unwrap_or_default());
    let fields = lines.filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    });
    fields.collect()
}

/// Adds the checksums that are in `fields`.
pub fn add_checksums(headers: &mut HeaderMap, fields: &[Option<&HeaderMap>]) {
    for (name, value) in fields.iter().flatten().copied().flat_map(checksums) {
        headers.insert(name, value.clone());
        let of = HeaderValue::from_static(checksum_type(value));
        headers.insert(CHECKSUM_TYPE, of);
    }
}

/// Refuses a version that is not the one of an object.
pub fn check_version(asked: &RequestHead<'_>) -> Result<(), Refusal> {
    match asked.query.get("versionId") {
        None | Some("null") => Ok(()),
        Some(_) => Err(NO_SUCH_VERSION),
    }
}
