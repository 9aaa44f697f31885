//! Requests in the protocols of S3 and Azure that mean something else here, and are refused.
//!
//! A copy, an access list, a tag, a part: each is a PUT or a DELETE of the path of a value, and would replace or remove it. Requests
//! that no client of plain HTTP sends are refused; other queries are ignored, as they are in plain requests. Pure.

use form_urlencoded::parse;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName};
use hyper::http::request::Parts;

use crate::http::auth::credentials::AuthorizationFields;
use crate::http::values::digest_fields::{AMZ_CHECKSUM, is_known_checksum};
use crate::http::values::media::has_prefix;

/// Parameters that make something else of a request that changes a value, in any case.
const OPERATIONS: [&str; 9] = [
    "acl",
    "comp",
    "legal-hold",
    "partNumber",
    "retention",
    "tagging",
    "uploadId",
    "uploads",
    "versionId",
];

/// Parameters that do so in the protocol of Azure alone, which [`AZURE`] tells: other clients may use these names.
const AZURE_OPERATIONS: [&str; 4] = ["action", "resource", "restype", "snapshot"];

/// The field that each request of Azure's protocol has.
const AZURE: HeaderName = HeaderName::from_static("x-ms-version");

/// Fields by which the body is not the value, or not all of it.
static FIELDS: [HeaderName; 8] = [
    HeaderName::from_static("x-amz-copy-source"),
    HeaderName::from_static("x-amz-rename-source"),
    HeaderName::from_static("x-amz-write-offset-bytes"),
    HeaderName::from_static("x-goog-copy-source"),
    HeaderName::from_static("x-ms-copy-source"),
    HeaderName::from_static("x-ms-rename-source"),
    HeaderName::from_static("x-ms-structured-body"),
    // A CRC of Azure's own.
    HeaderName::from_static("x-ms-content-crc64"),
];

const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");

/// `x-amz-checksum-` and one of these is no checksum.
const NO_CHECKSUMS: [&str; 3] = ["algorithm", "mode", "type"];

/// A request in the protocol of another store, which is not answered here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherStore {
    #[error("this server is no S3 or Azure store and does not know {0}: nothing was done")]
    Field(HeaderName),
    #[error(
        "this server is no S3 or Azure store and does not know the parameter {0}: nothing was done"
    )]
    Parameter(&'static str),
    #[error("this server cannot check {0}: it knows crc32, crc32c, crc64nvme, sha1 and sha256")]
    Checksum(HeaderName),
    #[error(
        "this server is no S3 store: it answers GET, HEAD, PUT and DELETE of single objects and nothing else of S3"
    )]
    Operation,
    #[error(
        "this server is no S3 store and has no buckets: the first folder of a key takes the place of one"
    )]
    Bucket,
    #[error(
        "this server is no S3 store and checks no signatures of S3: send a token or a password in their place"
    )]
    Signature,
}

/// Fields that clients of S3, Azure or Google's store alone send.
pub fn is_of_store(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("x-amz-") || name.starts_with("x-ms-") || name.starts_with("x-goog-")
}

/// Refuses a request that means something else here. `has_fields` where it has fields [of a store](is_of_store); `authorizes` where
/// clients prove who they are.
pub fn check(
    head: &Parts,
    presented: AuthorizationFields<'_>,
    has_fields: bool,
    authorizes: bool,
) -> Result<(), OtherStore> {
    let changes = !head.method.is_safe();
    if changes && has_fields {
        check_fields(&head.headers)?;
    }
    let query = head.uri.query();
    if changes && let Some(query) = query {
        check_parameters(query, has_fields && head.headers.contains_key(AZURE))?;
    }
    let is_signed = is_signed(presented);
    if is_signed || query.is_some_and(is_signed_link) {
        check_signed(head)?;
    }
    if is_signed && authorizes {
        return Err(OtherStore::Signature);
    }
    Ok(())
}

/// True where the request is signed by a key of S3.
pub fn is_signed(presented: AuthorizationFields<'_>) -> bool {
    let is_signature = |field: &[u8]| field.starts_with(b"AWS4-") || field.starts_with(b"AWS ");
    matches!(presented, AuthorizationFields::Field(field) if is_signature(field))
}

/// True where `query` has the signature of a presigned S3 URL.
fn is_signed_link(query: &str) -> bool {
    parse(query.as_bytes()).any(|(name, _)| name == "X-Amz-Signature")
}

fn check_fields(headers: &HeaderMap) -> Result<(), OtherStore> {
    if let Some(name) = FIELDS.iter().find(|name| headers.contains_key(*name)) {
        return Err(OtherStore::Field(name.clone()));
    }
    let is_block = |kind: &[u8]| kind.eq_ignore_ascii_case(b"BlockBlob");
    if headers
        .get(BLOB_TYPE)
        .is_some_and(|kind| !is_block(kind.as_bytes()))
    {
        return Err(OtherStore::Field(BLOB_TYPE));
    }
    let is_unknown = |name: &&HeaderName| {
        let kind = name.as_str().strip_prefix(AMZ_CHECKSUM);
        kind.is_some_and(|kind| !NO_CHECKSUMS.contains(&kind)) && !is_known_checksum(name)
    };
    match headers.keys().find(is_unknown) {
        Some(name) => Err(OtherStore::Checksum(name.clone())),
        None => Ok(()),
    }
}

fn check_parameters(query: &str, is_azure: bool) -> Result<(), OtherStore> {
    let azure = if is_azure { &AZURE_OPERATIONS[..] } else { &[] };
    for (name, _) in parse(query.as_bytes()) {
        let mut operations = OPERATIONS.iter().chain(azure);
        if let Some(operation) = operations.find(|operation| name.eq_ignore_ascii_case(operation)) {
            return Err(OtherStore::Parameter(operation));
        }
    }
    Ok(())
}

/// Refuses a request signed for S3 that does not concern one object: no other means the same here.
fn check_signed(head: &Parts) -> Result<(), OtherStore> {
    let (method, path) = (&head.method, head.uri.path());
    let is_known = matches!(
        *method,
        Method::GET | Method::HEAD | Method::PUT | Method::DELETE
    );
    let mut names = parse(head.uri.query().unwrap_or_default().as_bytes()).map(|(name, _)| name);
    if !is_known || path.ends_with('/') || !names.all(|name| is_ignored(&name)) {
        return Err(OtherStore::Operation);
    }
    let is_bucket = ["/", "%2F", "%2f"]
        .iter()
        .all(|slash| !path.trim_start_matches('/').contains(slash));
    if is_bucket && !method.is_safe() {
        return Err(OtherStore::Bucket);
    }
    Ok(())
}

/// True for the parameters of S3 that leave a request for an object as it is: the signature, the name of the operation, fields of the
/// answer, and the part of an object that was made of one.
fn is_ignored(name: &str) -> bool {
    let has = |prefix| has_prefix(name, prefix);
    name == "x-id" || name == "partNumber" || has("x-amz-") || has("response-")
}

#[cfg(test)]
mod tests {
    use crate::http::values::other_store::*;
    use hyper::Request;
    use hyper::header::AUTHORIZATION;

    const SIGNED: (&str, &str) = (
        "authorization",
        "AWS4-HMAC-SHA256 Credential=a/b, Signature=c",
    );

    fn checked(
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        authorizes: bool,
    ) -> Option<OtherStore> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let presented = head.headers.get(AUTHORIZATION);
        let presented = presented.map_or(AuthorizationFields::Nothing, |it| {
            AuthorizationFields::Field(it.as_bytes())
        });
        let has_fields = head.headers.keys().any(is_of_store);
        check(&head, presented, has_fields, authorizes).err()
    }

    #[test]
    fn what_would_replace_or_remove_a_value_is_refused_and_other_queries_are_not() {
        for operation in OPERATIONS {
            for method in ["PUT", "DELETE", "POST", "PATCH"] {
                for target in [
                    format!("/b/k?{operation}"),
                    format!("/k?a=b&{}=x", operation.to_uppercase()),
                ] {
                    let why = checked(method, &target, &[], false);
                    assert_eq!(
                        why,
                        Some(OtherStore::Parameter(operation)),
                        "{method} {target}"
                    );
                }
            }
            let get = checked("GET", &format!("/b/k?{operation}"), &[], false);
            assert_eq!(get, None, "{operation}");
        }
        for target in [
            "/k?teamId=1",
            "/k?a=acl",
            "/k?acls",
            "/acl",
            "/k?x-acl=1",
            "/k?restype=1",
        ] {
            assert_eq!(checked("PUT", target, &[], false), None, "{target}");
        }
    }

    #[test]
    fn fields_of_other_stores_are_refused_where_they_make_something_else_of_a_body() {
        for name in &FIELDS {
            let fields = [(name.as_str(), "x")];
            let why = Some(OtherStore::Field(name.clone()));
            assert_eq!(checked("PUT", "/k", &fields, false), why, "{name}");
            assert_eq!(checked("GET", "/k", &fields, false), None, "{name}");
        }
        let azure = |kind| [("x-ms-version", "2026-02-06"), ("x-ms-blob-type", kind)];
        assert_eq!(checked("PUT", "/c/k", &azure("BlockBlob"), false), None);
        let append = checked("PUT", "/c/k", &azure("AppendBlob"), false);
        assert_eq!(append, Some(OtherStore::Field(BLOB_TYPE)));
        let container = checked("PUT", "/c?restype=container", &azure("BlockBlob"), false);
        assert_eq!(container, Some(OtherStore::Parameter("restype")));
        for (name, is_refused) in [
            ("x-amz-checksum-crc32", false),
            ("x-amz-checksum-sha256", false),
            ("x-amz-checksum-type", false),
            ("x-amz-meta-a", false),
            ("x-amz-checksum-xxhash64", true),
        ] {
            let why = checked("PUT", "/k", &[(name, "x")], false);
            assert_eq!(why.is_some(), is_refused, "{name}");
            assert!(checked("GET", "/k", &[(name, "x")], false).is_none());
        }
    }

    #[test]
    fn what_is_signed_for_s3_and_is_of_one_object_goes_on() {
        const LINK: &str = "/b/k?X-Amz-Algorithm=a&X-Amz-Signature=c";
        for (method, target) in [
            ("GET", "/b/k"),
            ("HEAD", "/b/k?partNumber=1"),
            ("GET", "/k"),
            ("GET", LINK),
            ("PUT", "/b/k?x-id=PutObject"),
            ("DELETE", "/b/a/k"),
            ("PUT", "/b%2Fk"),
            ("GET", "/b/k?response-content-type=a"),
        ] {
            assert_eq!(
                checked(method, target, &[SIGNED], false),
                None,
                "{method} {target}"
            );
        }
        for (method, target, why) in [
            ("GET", "/", OtherStore::Operation),
            ("GET", "/b?list-type=2", OtherStore::Operation),
            ("GET", "/b/?location", OtherStore::Operation),
            ("GET", "/b/k?versionId=a", OtherStore::Operation),
            ("GET", "/b/k?acl&X-Amz-Signature=c", OtherStore::Operation),
            ("POST", "/b/k?restore", OtherStore::Operation),
            ("PUT", "/b/k/", OtherStore::Operation),
            ("PUT", "/b?policy", OtherStore::Operation),
            ("PUT", "/b", OtherStore::Bucket),
            ("DELETE", "/b", OtherStore::Bucket),
        ] {
            let refused = checked(method, target, &[SIGNED], false);
            assert_eq!(refused, Some(why), "{method} {target}");
        }
        assert_eq!(
            checked("GET", "/b/k", &[SIGNED], true),
            Some(OtherStore::Signature)
        );
        let no_signature = checked("GET", "/?note=X-Amz-Signature=1", &[], false);
        assert_eq!(no_signature, None);
        let bearer = [("authorization", "Bearer AWS4-x")];
        assert_eq!(checked("GET", "/", &bearer, true), None);
    }
}
