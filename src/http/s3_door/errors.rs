//! Refusals in the words of S3: the code of each kind, and the document.

use std::fmt::Display;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::http::body::response::Body;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use crate::http::response::unstored;
use crate::http::s3_door::xml::{Document, MEDIA_TYPE};

type S = StatusCode;

/// The id of the request, which is that of the access log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

const NOT_IMPLEMENTED: &Kind = &Kind::new(S::NOT_IMPLEMENTED, "not-implemented");

/// The refusal of what S3 has and this server has not.
pub fn not_implemented(what: impl Display) -> Refusal {
    NOT_IMPLEMENTED.because(format!(
        "this server does not have {what}: nothing was done"
    ))
}

macro_rules! refusals {
    ($($name:ident = $status:ident $kind:literal $text:literal;)*) => {
        $(pub const $name: Refusal = Refusal::new(&Kind::new(S::$status, $kind), $text);)*
    };
}

refusals! {
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED "method" "this method is not allowed against this resource";
    NO_BUCKET = NOT_FOUND "no-such-bucket" "there is no bucket of this name";
    BAD_BUCKET = BAD_REQUEST "bad-bucket" "no folder can have the name of this bucket";
    BUCKET_EXISTS = CONFLICT "bucket-exists" "there is a bucket of this name";
    BUCKET_NOT_EMPTY = CONFLICT "bucket-not-empty" "the bucket has objects, or folders";
    NO_SUCH_VERSION = NOT_FOUND "no-such-version" "an object has one version here, whose id is null";
    NO_SUCH_UPLOAD = NOT_FOUND "no-such-upload" "there is no such upload: it was completed, aborted, or has expired";
    INVALID_PART = BAD_REQUEST "invalid-part" "a part is missing, or has another ETag";
    INVALID_ORDER = BAD_REQUEST "invalid-part-order" "the parts are not listed in the order of their numbers";
    OTHER_SIZE = BAD_REQUEST "other-size" "the parts are not as long together as x-amz-mp-object-size says";
    BAD_ARGUMENT = BAD_REQUEST "bad-argument" "a parameter or a field has no value that it can have";
    ITSELF = BAD_REQUEST "copy-to-itself" "an object is copied to itself only with x-amz-metadata-directive: REPLACE";
    BAD_RANGE = RANGE_NOT_SATISFIABLE "range-not-satisfiable" "the range does not lie within the object";
    FOLDER_HAS_BODY = BAD_REQUEST "folder-has-body" "a key that ends with '/' is a folder here, which has no bytes: send an empty body";
    NO_CORS = NOT_FOUND "no-cors" "the bucket has no CORS configuration: --allow-origin lets pages of others in";
    NO_ENCRYPTION = NOT_FOUND "no-encryption" "the bucket has no encryption configuration";
    NO_LIFECYCLE = NOT_FOUND "no-lifecycle" "the bucket has no lifecycle configuration";
    NO_LOCKS = NOT_FOUND "no-object-lock" "the bucket has no object lock configuration";
    NO_OWNERSHIP = NOT_FOUND "no-ownership" "the bucket has no ownership controls";
    NO_POLICY = NOT_FOUND "no-policy" "the bucket has no policy: the rules of --access hold";
    NO_ACCESS_BLOCK = NOT_FOUND "no-access-block" "the bucket has no public access block";
    NO_REPLICATION = NOT_FOUND "no-replication" "the bucket has no replication configuration";
    NO_TAGS = NOT_FOUND "no-tags" "the bucket has no tags";
    NO_WEBSITE = NOT_FOUND "no-website" "the bucket has no website configuration: --site makes one";
}

/// The code of each kind, by its name; with the status of S3, where that differs from the kind's.
const CODES: &[(&str, &str, Option<StatusCode>)] = &[
    ("auth-missing", "AccessDenied", Some(S::FORBIDDEN)),
    ("bad-argument", "InvalidArgument", None),
    ("bad-authorization", "AuthorizationHeaderMalformed", None),
    ("bad-bucket", "InvalidBucketName", None),
    ("bad-chunk", "IncompleteBody", None),
    ("bad-digest", "InvalidDigest", None),
    ("bad-key", "InvalidArgument", None),
    ("bad-signed-url", "AuthorizationQueryParametersError", None),
    ("bad-xml", "MalformedXML", None),
    ("body-cut-off", "IncompleteBody", None),
    ("bucket-exists", "BucketAlreadyOwnedByYou", None),
    ("bucket-not-empty", "BucketNotEmpty", None),
    ("clock-skew", "RequestTimeTooSkewed", None),
    ("digest-mismatch", "BadDigest", None),
    ("exists", "AccessDenied", Some(S::FORBIDDEN)),
    ("key-too-deep", "KeyTooLongError", None),
    ("key-too-long", "KeyTooLongError", Some(S::BAD_REQUEST)),
    ("invalid-part", "InvalidPart", None),
    ("invalid-part-order", "InvalidPartOrder", None),
    ("length-required", "MissingContentLength", None),
    ("method", "MethodNotAllowed", None),
    ("name-taken", "KeyConflict", Some(S::CONFLICT)),
    (
        "no-access-block",
        "NoSuchPublicAccessBlockConfiguration",
        None,
    ),
    ("no-cors", "NoSuchCORSConfiguration", None),
    (
        "no-encryption",
        "ServerSideEncryptionConfigurationNotFoundError",
        None,
    ),
    ("no-lifecycle", "NoSuchLifecycleConfiguration", None),
    (
        "no-object-lock",
        "ObjectLockConfigurationNotFoundError",
        None,
    ),
    ("no-ownership", "OwnershipControlsNotFoundError", None),
    ("no-policy", "NoSuchBucketPolicy", None),
    (
        "no-replication",
        "ReplicationConfigurationNotFoundError",
        None,
    ),
    ("no-such-access-key", "InvalidAccessKeyId", None),
    ("no-such-bucket", "NoSuchBucket", None),
    ("no-such-upload", "NoSuchUpload", None),
    ("no-such-version", "NoSuchVersion", None),
    ("no-such-part", "InvalidPartNumber", None),
    ("no-tags", "NoSuchTagSet", None),
    ("no-website", "NoSuchWebsiteConfiguration", None),
    ("occupied", "KeyConflict", None),
    ("range-not-satisfiable", "InvalidRange", None),
    ("request-timeout", "RequestTimeout", None),
    ("sha256-mismatch", "XAmzContentSHA256Mismatch", None),
    ("signature", "SignatureDoesNotMatch", None),
    ("signature-v2", "InvalidRequest", None),
    ("too-large", "EntityTooLarge", None),
    ("too-many-fields", "MetadataTooLarge", None),
];

/// The code and the status of a kind. Without a row its status tells.
fn code(kind: &Kind) -> (&'static str, StatusCode) {
    let row = CODES.iter().find(|(name, ..)| *name == kind.name);
    if let Some((_, code, status)) = row.filter(|_| kind.status != S::PRECONDITION_FAILED) {
        return (code, status.unwrap_or(kind.status));
    }
    match kind.status {
        S::UNAUTHORIZED | S::FORBIDDEN => ("AccessDenied", S::FORBIDDEN),
        S::NOT_FOUND => ("NoSuchKey", kind.status),
        S::CONFLICT => ("OperationAborted", kind.status),
        S::PRECONDITION_FAILED => ("PreconditionFailed", kind.status),
        S::PAYLOAD_TOO_LARGE => ("EntityTooLarge", kind.status),
        S::NOT_IMPLEMENTED => ("NotImplemented", kind.status),
        S::SERVICE_UNAVAILABLE | S::TOO_MANY_REQUESTS => ("SlowDown", S::SERVICE_UNAVAILABLE),
        S::INSUFFICIENT_STORAGE => ("InsufficientStorage", kind.status),
        status if status.is_server_error() => ("InternalError", status),
        status => ("InvalidRequest", status),
    }
}

/// The code and the words of a refusal, as one of many in an answer.
pub fn said(refusal: &Refusal) -> (&'static str, String) {
    (code(refusal.kind).0, refusal.to_string())
}

/// The response to a refused request.
pub fn render(refusal: &Refusal) -> Response<Body> {
    let (code, status) = code(refusal.kind);
    let id = refusal
        .besides()
        .and_then(|more| more.request_id.as_deref());
    let mut text = Document::new("Error", false);
    text.add("Code", code);
    text.add("Message", &refusal.to_string());
    text.add("RequestId", id.unwrap_or_default());
    let mut response = unstored(status, MEDIA_TYPE, text.end());
    if let Some(id) = id.and_then(|id| HeaderValue::try_from(id).ok()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
