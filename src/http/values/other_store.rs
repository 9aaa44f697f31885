//! Requests in the protocols of S3, Azure and Google's store that mean something else here, and are refused.
//!
//! A copy, an access list, a tag, a part: each is a PUT or a DELETE of the path of a value, and would replace or remove
//! it. A condition, a key to encrypt with, a lock or metadata would be dropped. So a field of these stores is accepted
//! only if it is known to change nothing; other queries are ignored, as they are in plain requests. Pure.

use std::fmt::Display;

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use hyper::Method;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;

use crate::http::fields::media::has_prefix;
use crate::http::fields::names::is_of;
use crate::http::head::names::{AuthorizationFields, STORES, is_of_store};
use crate::http::head::query::QueryFields;
use crate::http::values::digest_fields::{AMZ_CHECKSUM, is_checksum, is_known_checksum};

/// Parameters that make something else of a request that changes a value, in any case.
const OPERATIONS: [&str; 10] = [
    "acl",
    "comp",
    "compose",
    "legal-hold",
    "partNumber",
    "retention",
    "tagging",
    "uploadId",
    "uploads",
    "versionId",
];

/// Parameters that do so in the protocol of one store only, also of a read. A field with the prefix beside the
/// parameter identifies the protocol: other clients may use these names.
const OPERATIONS_OF_ONE: [(&str, &str); 7] = [
    ("x-ms-version", "action"),
    ("x-ms-version", "comp"),
    ("x-ms-version", "resource"),
    ("x-ms-version", "restype"),
    ("x-ms-version", "snapshot"),
    ("x-ms-version", "versionId"),
    ("x-goog-", "generation"),
];

/// Parameters that are conditions of Google's store, in any case, also of a GET.
const CONDITIONS: [&str; 4] = [
    "ifGenerationMatch",
    "ifGenerationNotMatch",
    "ifMetagenerationMatch",
    "ifMetagenerationNotMatch",
];

/// Fields that change nothing: they identify the client, the time or the program, or say how the bytes are framed and
/// checked. A name that ends with `-` is a prefix.
const HARMLESS: [&str; 32] = [
    // CloudFront.
    "x-amz-cf-",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-request-payer",
    "x-amz-sdk-",
    "x-amz-security-token",
    "x-amz-te",
    "x-amz-trailer",
    "x-amz-user-agent",
    "x-goog-api-client",
    "x-goog-api-version",
    // Google's proxy that signs people in.
    "x-goog-authenticated-user-",
    "x-goog-content-sha256",
    "x-goog-date",
    "x-goog-gcs-idempotency-token",
    "x-goog-iap-",
    "x-goog-project-id",
    "x-goog-request-params",
    "x-goog-user-project",
    "x-ms-client-request-id",
    // Azure's proxies that sign people in.
    "x-ms-client-principal",
    "x-ms-client-principal-",
    "x-ms-correlation-request-id",
    "x-ms-date",
    "x-ms-forwarded-client-ip",
    "x-ms-proxy",
    "x-ms-request-id",
    "x-ms-return-client-request-id",
    "x-ms-token-",
    "x-ms-useragent",
    "x-ms-version",
];

/// Fields that change nothing with this value.
const HARMLESS_WITH: [(&str, &str); 3] = [
    ("x-amz-storage-class", "STANDARD"),
    ("x-ms-blob-type", "BlockBlob"),
    ("x-ms-delete-snapshots", "include"),
];

/// Fields that a GET is refused for, beside conditions: they name a part of the value, or its owner.
const OF_READS: [&str; 3] = ["x-amz-expected-bucket-owner", "x-ms-lease-id", "x-ms-range"];

const OTHER_STORE: &Kind =
    &Kind::new(StatusCode::NOT_IMPLEMENTED, "other-store").flags(&[Flag::OfStore]);

const OPERATION: Refusal = Refusal::new(
    OTHER_STORE,
    "this server is no S3 store: it answers GET, HEAD, PUT and DELETE of single objects and nothing else of S3",
);

const BUCKET: Refusal = Refusal::new(
    OTHER_STORE,
    "this server is no S3 store and has no buckets: the first folder of a key takes the place of one",
);

const SIGNATURE: Refusal = Refusal::new(
    OTHER_STORE,
    "this server is no S3 store and checks no signatures of S3: send a token or a password in their place",
);

/// The refusal of a field, or of a parameter, that this server does not know.
fn does_not_know(what: impl Display) -> Refusal {
    OTHER_STORE.because(format!(
        "this server is no S3 or Azure store and does not know {what}: nothing was done"
    ))
}

fn parameter(name: &str) -> Refusal {
    does_not_know(format_args!("the parameter {name}"))
}

/// Refuses a request that means something else here. `has_fields` where it has fields [of a store](is_of_store);
/// `authorizes` where clients authenticate.
pub fn check(
    head: &Parts,
    query: &QueryFields<'_>,
    presented: AuthorizationFields<'_>,
    has_fields: bool,
    authorizes: bool,
) -> Result<(), Refusal> {
    let changes = !head.method.is_safe();
    if has_fields {
        check_fields(&head.headers, changes)?;
    }
    if !query.is_empty() {
        check_parameters(query, &head.headers, has_fields, changes)?;
    }
    if is_signed(presented) || is_signed_link(query) {
        check_signed(head, query)?;
        if authorizes {
            return Err(SIGNATURE);
        }
    }
    Ok(())
}

/// True where the request is signed by a key of S3, or of Google's store, which has the same protocol.
pub fn is_signed(presented: AuthorizationFields<'_>) -> bool {
    let is_signature = |field: &[u8]| {
        let schemes: [&[u8]; 4] = [b"AWS4-", b"AWS ", b"GOOG4-", b"GOOG1 "];
        schemes.iter().any(|scheme| field.starts_with(scheme))
    };
    matches!(presented, AuthorizationFields::Field(field) if is_signature(field))
}

/// True where `query` has the signature of a presigned URL.
fn is_signed_link(query: &QueryFields<'_>) -> bool {
    query.has("X-Amz-Signature") || query.has("X-Goog-Signature")
}

/// Refuses a field of a store that is not known to change nothing in a request that `changes` a value, or a condition
/// of another.
fn check_fields(headers: &HeaderMap, changes: bool) -> Result<(), Refusal> {
    for (name, value) in headers {
        if !is_of_store(name) {
            continue;
        }
        if changes && is_checksum(name) {
            if !is_known_checksum(name) {
                return Err(OTHER_STORE.because(format!(
                    "this server cannot check {name}: it knows crc32, crc32c, crc64nvme, sha1 and sha256"
                )));
            }
        } else if is_refused(name.as_str(), value.as_bytes(), changes) {
            return Err(does_not_know(name));
        }
    }
    Ok(())
}

fn is_refused(name: &str, value: &[u8], changes: bool) -> bool {
    if !changes {
        let mut own = STORES.iter().filter_map(|store| name.strip_prefix(store));
        return OF_READS.contains(&name) || own.any(|own| own.starts_with("if-"));
    }
    let mut with = HARMLESS_WITH.iter();
    !name.starts_with(AMZ_CHECKSUM)
        && !HARMLESS.iter().any(|known| is_of(name, known))
        && !with.any(|(known, with)| name == *known && value.eq_ignore_ascii_case(with.as_bytes()))
}

fn check_parameters(
    query: &QueryFields<'_>,
    headers: &HeaderMap,
    has_fields: bool,
    changes: bool,
) -> Result<(), Refusal> {
    let is_from = |prefix| headers.keys().any(|name| name.as_str().starts_with(prefix));
    let of_one = OPERATIONS_OF_ONE.iter();
    let of_one = of_one.filter(|(prefix, _)| has_fields && is_from(prefix));
    let of_one = of_one.map(|(_, name)| name);
    let of_changes = OPERATIONS.iter().filter(|_| changes);
    let refused: Vec<_> = CONDITIONS.iter().chain(of_changes).chain(of_one).collect();
    let refused = query.pairs().find_map(|(name, _)| {
        let mut refused = refused.iter();
        refused.find(|refused| name.eq_ignore_ascii_case(refused))
    });
    refused.map_or(Ok(()), |refused| Err(parameter(refused)))
}

/// Refuses a request signed for S3 that does not concern one object: no other means the same here.
fn check_signed(head: &Parts, query: &QueryFields<'_>) -> Result<(), Refusal> {
    let (method, path) = (&head.method, head.uri.path());
    let is_known = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE].contains(method);
    let mut parameters = query.pairs();
    if !is_known || path.ends_with('/') || !parameters.all(|(name, value)| is_ignored(name, value))
    {
        return Err(OPERATION);
    }
    let is_bucket = ["/", "%2F", "%2f"]
        .iter()
        .all(|slash| !path.trim_start_matches('/').contains(slash));
    if is_bucket && !method.is_safe() {
        return Err(BUCKET);
    }
    Ok(())
}

/// True for the parameters of S3 that leave a request for an object as it is: the signature, the name of the operation,
/// fields of the answer, and the first part of an object, which was made of one.
fn is_ignored(name: &str, value: &str) -> bool {
    let has = |prefix| has_prefix(name, prefix);
    let is_named = name == "x-id" || (name == "partNumber" && value == "1");
    is_named || has("x-amz-") || has("x-goog-") || has("response-")
}

#[cfg(test)]
mod tests {
    use crate::http::values::other_store::*;
    use data_server_testing::table;
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
    ) -> Option<Refusal> {
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
        let query = QueryFields::of(head.uri.query());
        check(&head, &query, presented, has_fields, authorizes).err()
    }

    #[test]
    fn what_would_replace_or_remove_a_value_is_refused_and_other_queries_are_not() {
        for operation in OPERATIONS {
            let other = format!("/k?a=b&{}=x", operation.to_uppercase());
            let target = format!("/b/k?{operation}");
            for method in ["PUT", "DELETE", "POST", "PATCH"] {
                for target in [&target, &other] {
                    let why = checked(method, target, &[], false);
                    assert_eq!(why, Some(parameter(operation)), "{target}");
                }
            }
            assert_eq!(checked("GET", &target, &[], false), None, "{operation}");
        }
        for target in "/k?teamId=1 /k?a=acl /k?acls /acl /k?x-acl=1 /k?restype=1".split(' ') {
            assert_eq!(checked("PUT", target, &[], false), None, "{target}");
        }
    }

    #[test]
    fn a_field_of_a_store_goes_on_only_if_it_changes_nothing() {
        let put = |name: &str, value| checked("PUT", "/k", &[(name, value)], false);
        for name in "x-amz-acl x-amz-copy-source x-amz-if-match-size x-amz-meta-a x-amz-mfa \
            x-amz-server-side-encryption x-amz-of-tomorrow x-amz-dates x-goog-hash x-goog-if-generation-match \
            x-ms-blob-content-type x-ms-content-crc64 x-ms-if-tags x-ms-structured-body".split(' ') {
            let why = Some(does_not_know(name));
            assert_eq!(put(name, "x"), why, "{name}");
            let delete = checked("DELETE", "/k", &[(name, "x")], false);
            assert_eq!(delete, why, "{name}");
        }
        for known in HARMLESS {
            let name = format!("{known}{}", if known.ends_with('-') { "x" } else { "" });
            assert_eq!(put(&name, "x"), None, "{name}");
        }
        for (name, value) in HARMLESS_WITH {
            assert_eq!(put(name, value), None, "{name}");
            assert!(put(name, "other").is_some(), "{name}");
        }
        for (name, is_refused) in [
            ("x-amz-checksum-crc32", false),
            ("x-amz-checksum-sha256", false),
            ("x-amz-checksum-type", false),
            ("x-amz-checksum-xxhash64", true),
        ] {
            assert_eq!(put(name, "x").is_some(), is_refused, "{name}");
            assert!(checked("GET", "/k", &[(name, "x")], false).is_none());
        }
    }

    #[test]
    fn a_read_is_refused_for_a_condition_or_a_part_alone() {
        for (name, is_refused) in [
            ("x-amz-if-match-size", true),
            ("x-ms-if-tags", true),
            ("x-ms-range", true),
            ("x-goog-if-generation-match", true),
            ("x-amz-copy-source", false),
            ("x-ms-cookieuri-requested", false),
        ] {
            let get = checked("GET", "/k", &[(name, "x")], false);
            assert_eq!(get.is_some(), is_refused, "{name}");
        }
    }

    #[test]
    fn a_parameter_of_one_store_is_refused_of_its_clients_alone() {
        let azure = ("x-ms-version", "2026-02-06");
        let google = ("x-goog-api-client", "x");
        for (fields, target, why) in [
            (&[azure][..], "/c?restype=container", Some("restype")),
            (&[azure], "/c?generation=1", None),
            (&[azure], "/c?versionid=2026", Some("versionId")),
            (&[google], "/c?generation=1", Some("generation")),
            (&[], "/c?restype=container&generation=1", None),
        ] {
            for method in ["DELETE", "GET"] {
                let refused = checked(method, target, fields, false);
                assert_eq!(refused, why.map(parameter), "{method} {target}");
            }
        }
        for condition in CONDITIONS {
            for method in ["GET", "PUT"] {
                let refused = checked(method, &format!("/k?{condition}=0"), &[], false);
                assert_eq!(refused, Some(parameter(condition)));
            }
        }
    }

    #[test]
    fn what_is_signed_for_s3_and_is_of_one_object_goes_on() {
        const LINK: &str = "/b/k?X-Amz-Algorithm=a&X-Amz-Signature=c";
        for [method, target, why] in table(
            "
            GET ; /b/k
            HEAD ; /b/k?partNumber=1
            GET ; /k
            GET ; /b/k?X-Amz-Algorithm=a&X-Amz-Signature=c
            PUT ; /b/k?x-id=PutObject
            DELETE ; /b/a/k
            PUT ; /b%2Fk
            GET ; /b/k?response-content-type=a
            GET ; / ; Operation
            GET ; /b?list-type=2 ; Operation
            GET ; /b/?location ; Operation
            GET ; /b/k?versionId=a ; Operation
            GET ; /b/k?partNumber=2 ; Operation
            GET ; /b/k?acl&X-Amz-Signature=c ; Operation
            POST ; /b/k?restore ; Operation
            PUT ; /b/k/ ; Operation
            PUT ; /b?policy ; Operation
            PUT ; /b ; Bucket
            DELETE ; /b ; Bucket",
        ) {
            let refused = checked(method, target, &[SIGNED], false);
            let why = match why {
                "" => None,
                "Bucket" => Some(BUCKET),
                _ => Some(OPERATION),
            };
            assert_eq!(refused, why, "{method} {target}");
        }
        for (target, fields) in [("/b/k", &[SIGNED][..]), (LINK, &[])] {
            let refused = checked("GET", target, fields, true);
            assert_eq!(refused, Some(SIGNATURE), "{target}");
        }
        let no_signature = checked("GET", "/?note=X-Amz-Signature=1", &[], false);
        assert_eq!(no_signature, None);
        let bearer = [("authorization", "Bearer AWS4-x")];
        assert_eq!(checked("GET", "/", &bearer, true), None);
    }
}
