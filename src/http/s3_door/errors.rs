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
    ($($name:ident = $status:ident $kind:literal $code:ident $text:literal;)*) => {
        $(pub const $name: Refusal = Refusal::new(&Kind::new(S::$status, $kind), $text);)*
        /// The codes of the kinds of this door.
        const OWN: &[(&str, &str)] = &[$(($kind, stringify!($code))),*];
    };
}

refusals! {
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED "method" MethodNotAllowed "this method is not allowed against this resource";
    NO_BUCKET = NOT_FOUND "no-such-bucket" NoSuchBucket "there is no bucket of this name";
    BAD_BUCKET = BAD_REQUEST "bad-bucket" InvalidBucketName "no folder can have the name of this bucket";
    BUCKET_EXISTS = CONFLICT "bucket-exists" BucketAlreadyOwnedByYou "there is a bucket of this name";
    BUCKET_NOT_EMPTY = CONFLICT "bucket-not-empty" BucketNotEmpty "the bucket has objects, or folders";
    NO_SUCH_VERSION = NOT_FOUND "no-such-version" NoSuchVersion "an object has one version here, whose id is null";
    NO_SUCH_UPLOAD = NOT_FOUND "no-such-upload" NoSuchUpload "there is no such upload: it was completed, aborted, or has expired";
    NO_SUCH_PART = RANGE_NOT_SATISFIABLE "no-such-part" InvalidPartNumber "an object has one part here";
    INVALID_PART = BAD_REQUEST "invalid-part" InvalidPart "a part is missing, or has another ETag";
    BAD_CHECKSUM = BAD_REQUEST "bad-checksum" InvalidRequest "there is no such checksum, or not of this type, or there are two";
    NO_PART_CHECKSUM = BAD_REQUEST "no-part-checksum" InvalidRequest "a part came without the checksum that the upload has";
    INVALID_ORDER = BAD_REQUEST "invalid-part-order" InvalidPartOrder "the parts are not listed in the order of their numbers";
    OTHER_SIZE = BAD_REQUEST "other-size" InvalidRequest "the parts are not as long together as x-amz-mp-object-size says";
    BAD_ARGUMENT = BAD_REQUEST "bad-argument" InvalidArgument "a parameter or a field has no value that it can have";
    ITSELF = BAD_REQUEST "copy-to-itself" InvalidRequest "an object is copied to itself only with x-amz-metadata-directive: REPLACE";
    ONLY_SIGNED = BAD_REQUEST "only-signed" InvalidRequest "response- parameters are for signed requests";
    BAD_RANGE = RANGE_NOT_SATISFIABLE "range-not-satisfiable" InvalidRange "the range does not lie within the object";
    FOLDER_HAS_BODY = BAD_REQUEST "folder-has-body" InvalidRequest "a key that ends with '/' is a folder here, which has no bytes: send an empty body";
    NO_CORS = NOT_FOUND "no-cors" NoSuchCORSConfiguration "the bucket has no CORS configuration: --allow-origin lets pages of others in";
    NO_ENCRYPTION = NOT_FOUND "no-encryption" ServerSideEncryptionConfigurationNotFoundError "the bucket has no encryption configuration";
    NO_LIFECYCLE = NOT_FOUND "no-lifecycle" NoSuchLifecycleConfiguration "the bucket has no lifecycle configuration";
    NO_LOCKS = NOT_FOUND "no-object-lock" ObjectLockConfigurationNotFoundError "the bucket has no object lock configuration";
    NO_OWNERSHIP = NOT_FOUND "no-ownership" OwnershipControlsNotFoundError "the bucket has no ownership controls";
    NO_POLICY = NOT_FOUND "no-policy" NoSuchBucketPolicy "the bucket has no policy: the rules of --access hold";
    NO_ACCESS_BLOCK = NOT_FOUND "no-access-block" NoSuchPublicAccessBlockConfiguration "the bucket has no public access block";
    NO_REPLICATION = NOT_FOUND "no-replication" ReplicationConfigurationNotFoundError "the bucket has no replication configuration";
    NO_TAGS = NOT_FOUND "no-tags" NoSuchTagSet "the bucket has no tags";
    NO_WEBSITE = NOT_FOUND "no-website" NoSuchWebsiteConfiguration "the bucket has no website configuration: --site makes one";
}

/// The codes of the kinds of others. A condition that fails has its own, whatever the kind.
const CODES: &[(&str, &str)] = &[
    ("auth-missing", "AccessDenied"),
    ("bad-authorization", "AuthorizationHeaderMalformed"),
    ("bad-chunk", "IncompleteBody"),
    ("bad-digest", "InvalidDigest"),
    ("bad-key", "InvalidArgument"),
    ("bad-signed-url", "AuthorizationQueryParametersError"),
    ("bad-xml", "MalformedXML"),
    ("body-cut-off", "IncompleteBody"),
    ("clock-skew", "RequestTimeTooSkewed"),
    ("digest-mismatch", "BadDigest"),
    ("exists", "AccessDenied"),
    ("key-too-deep", "KeyTooLongError"),
    ("key-too-long", "KeyTooLongError"),
    ("length-required", "MissingContentLength"),
    ("name-taken", "KeyConflict"),
    ("no-such-access-key", "InvalidAccessKeyId"),
    ("occupied", "KeyConflict"),
    ("request-timeout", "RequestTimeout"),
    ("sha256-mismatch", "XAmzContentSHA256Mismatch"),
    ("signature", "SignatureDoesNotMatch"),
    ("too-many-fields", "MetadataTooLarge"),
];

/// The kinds that have another status in S3.
const STATUSES: &[(&str, StatusCode)] = &[
    ("auth-missing", S::FORBIDDEN),
    ("exists", S::FORBIDDEN),
    ("key-too-long", S::BAD_REQUEST),
    ("name-taken", S::CONFLICT),
];

/// The code and the status of a kind. Without a row its status tells.
fn code(kind: &Kind) -> (&'static str, StatusCode) {
    let mut rows = OWN.iter().chain(CODES);
    let row = rows.find(|(name, _)| *name == kind.name);
    if let Some((_, code)) = row.filter(|_| kind.status != S::PRECONDITION_FAILED) {
        let status = STATUSES.iter().find(|(name, _)| *name == kind.name);
        return (code, status.map_or(kind.status, |(_, status)| *status));
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

/// The document of a refusal of the request of this id.
pub fn document(refusal: &Refusal, id: &str) -> Document {
    let mut text = Document::of_error();
    text.add("Code", code(refusal.kind).0);
    text.add("Message", &refusal.to_string());
    text.add("RequestId", id);
    text
}

/// The response to a refused request.
pub fn render(refusal: &Refusal) -> Response<Body> {
    let (_, status) = code(refusal.kind);
    let id = refusal
        .besides()
        .and_then(|more| more.request_id.as_deref());
    let text = document(refusal, id.unwrap_or_default());
    let mut response = unstored(status, MEDIA_TYPE, text.end());
    if let Some(id) = id.and_then(|id| HeaderValue::try_from(id).ok()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
