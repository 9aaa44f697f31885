//! The table of refusals: a row for each, with its status, its name and its flags; and the fields of its response.
//!
//! Responses, the audit log and the log read it. Statuses stand here and in `response` alone; docs/http.md lists the names.

use hyper::StatusCode;
use hyper::header::{
    ALLOW, CONTENT_RANGE, HeaderMap, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION,
    WWW_AUTHENTICATE,
};

use crate::access::Existing;
use crate::http::archives::BadArchive;
use crate::http::auth::share::BadShare;
use crate::http::head::range::unsatisfied;
use crate::http::head::syntax::{FramingError, put};
use crate::http::refusal::Refusal;
use crate::http::service::operation::Target;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads;
use crate::http::values::fields::BadField;
use crate::http::values::moves::BadMove;
use crate::http::watch::request::{BadWatchRequest, upgrade};
use crate::store::{BadKey, Error};

/// The name of the problem that is none: a client has signed out.
pub const SIGNED_OUT: &str = "signed-out";

/// The types of the problems that the draft of resumable uploads defines.
const MISMATCHING_OFFSET: &str =
    "https://iana.org/assignments/http-problem-types#mismatching-upload-offset";
const INCONSISTENT_LENGTH: &str =
    "https://iana.org/assignments/http-problem-types#inconsistent-upload-length";

/// The challenge with which a browser forgets a password: it names a scheme that browsers neither answer nor ask for.
const FORGET_PASSWORD: HeaderValue = HeaderValue::from_static("Bearer realm=\"signed out\"");

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub status: StatusCode,
    /// The name of the problem, or its type as a URI.
    pub name: &'static str,
    flags: &'static [Flag],
}

/// A property of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// The connection ends with it: the end of the request is in doubt, or its client.
    Closes,
    /// The client itself is refused: the audit log has it.
    Audited,
    /// A host or an origin is refused, which an option can allow: the log has it.
    Logged,
    /// The response has no body.
    Empty,
    /// Clients of S3 and Azure get an error as theirs.
    OfStore,
}

impl Row {
    pub fn has(self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}

const fn row(status: StatusCode, name: &'static str, flags: &'static [Flag]) -> Row {
    Row {
        status,
        name,
        flags,
    }
}

impl Refusal {
    /// The row of the refusal. With `--compat` some statuses are those of the C server.
    pub fn row(&self, config: &ServiceConfig) -> Row {
        use Flag::{Audited, Closes, Empty, Logged, OfStore};
        use Refusal as R;
        use StatusCode as S;
        match self {
            R::NoSuchKey => row(S::NOT_FOUND, "no-such-key", &[]),
            R::NoSuchPath | R::Root => row(S::NOT_FOUND, "no-such-path", &[]),
            R::NoKey if config.compat => row(S::NO_CONTENT, "", &[Empty]),
            R::NoKey => row(S::BAD_REQUEST, "no-key", &[]),
            R::NothingToStore => row(S::NOT_MODIFIED, "", &[Empty]),
            R::BadKey(BadKey::TooLong | BadKey::SegmentTooLong) => {
                row(S::URI_TOO_LONG, "key-too-long", &[])
            }
            R::BadKey(_) | R::BadEscape | R::Folder | R::NoDigestInName(_) => {
                row(S::BAD_REQUEST, "bad-key", &[])
            }
            R::NoSuchFolder => row(S::NOT_FOUND, "no-such-folder", &[]),
            R::FolderWithBody => row(S::UNSUPPORTED_MEDIA_TYPE, "folder-with-body", &[]),
            R::FolderPrecondition => row(S::BAD_REQUEST, "folder-precondition", &[]),
            R::NeedsDepth { .. } => row(S::CONFLICT, "needs-depth", &[]),
            R::KeyTooDeep { .. } => row(S::BAD_REQUEST, "key-too-deep", &[]),
            R::BadQuery(_)
            | R::BadArchive(
                BadArchive::Format
                | BadArchive::Parameter(_)
                | BadArchive::Files
                | BadArchive::TooMany,
            )
            | R::BadShare(BadShare::Query | BadShare::TooLong(_)) => {
                row(S::BAD_REQUEST, "bad-query", &[])
            }
            R::BadTarget => row(S::BAD_REQUEST, "bad-target", &[Closes]),
            R::BadHost => row(S::BAD_REQUEST, "bad-host", &[Closes]),
            R::WrongHost(_) => row(S::MISDIRECTED_REQUEST, "wrong-host", &[Logged]),
            R::CrossSite(_) => row(S::FORBIDDEN, "cross-site", &[Audited, Logged]),
            R::FramingError(why) => framing(*why),
            R::LengthRequired => row(S::LENGTH_REQUIRED, "length-required", &[]),
            R::CutOff => row(S::BAD_REQUEST, "body-cut-off", &[Closes]),
            R::Expectation => row(S::EXPECTATION_FAILED, "expectation", &[]),
            R::OtherStore(_) => row(S::NOT_IMPLEMENTED, "other-store", &[OfStore]),
            R::PartialPut => row(S::BAD_REQUEST, "partial-put", &[]),
            R::BadField(BadField::Framing) => {
                row(S::UNSUPPORTED_MEDIA_TYPE, "content-coding", &[OfStore])
            }
            R::BadField(_) => row(S::BAD_REQUEST, "bad-field", &[]),
            R::BadForm(_) => row(S::BAD_REQUEST, "bad-form", &[]),
            R::BadArchive(BadArchive::Coding) => {
                row(S::UNSUPPORTED_MEDIA_TYPE, "content-coding", &[])
            }
            R::BadArchive(_) => row(S::BAD_REQUEST, "bad-archive", &[]),
            R::NoForm => row(S::UNSUPPORTED_MEDIA_TYPE, "no-form", &[]),
            R::BadDigest(_) => row(S::BAD_REQUEST, "bad-digest", &[]),
            R::DigestMismatch | R::Sha256Mismatch(_) => row(S::BAD_REQUEST, "digest-mismatch", &[]),
            R::Unsatisfiable { .. } => row(S::RANGE_NOT_SATISFIABLE, "range-not-satisfiable", &[]),
            R::Precondition => row(S::PRECONDITION_FAILED, "precondition-failed", &[]),
            R::BadMove(why) => moving(*why),
            R::If => row(S::NOT_IMPLEMENTED, "if-field", &[]),
            R::Method(_) if config.compat => row(S::NOT_FOUND, "method", &[]),
            R::Method(_) | R::PageMethod(_) => row(S::METHOD_NOT_ALLOWED, "method", &[]),
            R::ReadOnly => row(S::FORBIDDEN, "read-only", &[]),
            R::TooLarge { .. } => row(S::PAYLOAD_TOO_LARGE, "too-large", &[]),
            R::Unauthenticated { .. } => row(S::UNAUTHORIZED, "unauthenticated", &[Audited]),
            R::SignedOut => row(S::UNAUTHORIZED, SIGNED_OUT, &[]),
            R::NotAllowed(_) => row(S::FORBIDDEN, "not-allowed", &[Audited]),
            R::Exists(Existing::NotAllowed) => row(S::FORBIDDEN, "exists", &[Audited]),
            R::Exists(Existing::Conflict) => row(S::CONFLICT, "exists", &[Audited]),
            R::Exists(Existing::Precondition) => row(S::PRECONDITION_FAILED, "exists", &[Audited]),
            R::CertificateEnded => row(S::FORBIDDEN, "certificate-ended", &[Audited, Closes]),
            R::BadShare(_) => row(S::FORBIDDEN, "no-share", &[Audited]),
            R::BadLink(_) => row(S::FORBIDDEN, "bad-link", &[Audited]),
            R::TooManyFailures { .. } => row(S::TOO_MANY_REQUESTS, "too-many-failures", &[Audited]),
            R::ChecksBusy => row(S::SERVICE_UNAVAILABLE, "checks-busy", &[]),
            R::BadWatchRequest(why) => watching(why),
            R::NoSuchUpload => row(S::NOT_FOUND, "no-such-upload", &[]),
            R::NotPartialUpload => row(S::UNSUPPORTED_MEDIA_TYPE, "not-partial-upload", &[]),
            R::UploadField(_) => row(S::BAD_REQUEST, "bad-upload-field", &[]),
            R::MismatchingOffset { .. } => row(S::CONFLICT, MISMATCHING_OFFSET, &[]),
            R::InconsistentLength => row(S::BAD_REQUEST, INCONSISTENT_LENGTH, &[]),
            R::UploadComplete => row(S::CONFLICT, "upload-complete", &[]),
            R::UploadTaken => row(S::CONFLICT, "upload-taken", &[]),
            R::OfUpload(..) | R::OfFolder(..) | R::OfForm(_) | R::OfArchive(_) => {
                self.reason().row(config)
            }
            R::Store(error) => failed(error, config),
            R::Panicked => row(S::INTERNAL_SERVER_ERROR, "internal", &[Closes]),
        }
    }

    /// Adds the fields that say what the client can do about the refusal.
    pub fn describe(&self, headers: &mut HeaderMap, config: &ServiceConfig) {
        match self {
            Self::OfUpload(why, state) => {
                why.describe(headers, config);
                uploads::describe(headers, state, config);
            }
            Self::OfForm(_) | Self::OfArchive(_) | Self::OfFolder(..) => {
                self.reason().describe(headers, config);
            }
            Self::Unsatisfiable { len } => put(headers, CONTENT_RANGE, unsatisfied(*len)),
            Self::Method(methods) if !config.compat => allow(headers, methods),
            Self::Store(Error::NameTaken(_) | Error::FolderKept) => {
                allow(headers, Target::Existing.methods(config));
            }
            Self::PageMethod(methods) => allow(headers, methods),
            Self::TooLarge { .. } if config.announces_uploads() => {
                uploads::add_limit(headers, config);
            }
            Self::Unauthenticated { realm } => challenge(headers, realm),
            Self::SignedOut => {
                headers.insert(WWW_AUTHENTICATE, FORGET_PASSWORD);
            }
            Self::TooManyFailures { retry_after } => retry(headers, *retry_after),
            Self::ChecksBusy => retry(headers, 1),
            Self::BadWatchRequest(BadWatchRequest::WebSocketVersion) => {
                headers.extend(upgrade());
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            Self::NotPartialUpload => uploads::add_accept_patch(headers),
            Self::Store(error) if self.row(config).status == StatusCode::SERVICE_UNAVAILABLE => {
                retry(headers, error.retry_after());
            }
            _ => {}
        }
    }
}

/// The row of an invalid head.
fn framing(why: FramingError) -> Row {
    use FramingError as F;
    use StatusCode as S;
    match why {
        F::Line => row(S::BAD_REQUEST, "bad-head", &[]),
        F::Http2 => row(S::HTTP_VERSION_NOT_SUPPORTED, "http2-off", &[]),
        F::Length | F::Chunks => row(S::BAD_REQUEST, "bad-framing", &[]),
        F::Coding => row(S::NOT_IMPLEMENTED, "transfer-coding", &[]),
        F::Late => row(S::REQUEST_TIMEOUT, "request-timeout", &[Flag::Closes]),
        F::TooLarge => row(S::REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", &[]),
    }
}

/// The row of a MOVE or COPY that cannot be done as it is asked for.
fn moving(why: BadMove) -> Row {
    use BadMove as B;
    use StatusCode as S;
    match why {
        B::Destination => row(S::BAD_REQUEST, "bad-destination", &[]),
        B::Overwrite | B::Field(_) | B::Depth | B::NotDeep => row(S::BAD_REQUEST, "bad-field", &[]),
        // RFC 4918, sections 9.8.5 and 9.9.5.
        B::Elsewhere => row(S::BAD_GATEWAY, "other-destination", &[]),
        B::Exists => row(S::PRECONDITION_FAILED, "precondition-failed", &[]),
        B::Same => row(S::FORBIDDEN, "same-key", &[]),
        B::Mixed => row(S::BAD_REQUEST, "folder-and-key", &[]),
        B::Within => row(S::FORBIDDEN, "folder-within", &[]),
        B::OtherRules => row(S::CONFLICT, "other-rules", &[]),
        B::Taken(_, true) => row(S::CONFLICT, "folder-taken", &[]),
        B::Taken(_, false) => row(S::PRECONDITION_FAILED, "folder-taken", &[]),
    }
}

/// The row of a refused request for the feed of changes.
fn watching(why: &BadWatchRequest) -> Row {
    use BadWatchRequest as W;
    use StatusCode as S;
    match why {
        W::Prefix | W::Since | W::Parameter => row(S::BAD_REQUEST, "bad-query", &[]),
        W::Handshake(_) => row(S::BAD_REQUEST, "bad-handshake", &[]),
        W::WebSocketVersion => row(S::UPGRADE_REQUIRED, "websocket-version", &[]),
        W::ForeignOrigin(_) => row(
            S::FORBIDDEN,
            "foreign-origin",
            &[Flag::Audited, Flag::Logged],
        ),
    }
}

/// The row of a failure of the store.
fn failed(error: &Error, config: &ServiceConfig) -> Row {
    use Error as E;
    use StatusCode as S;
    match error {
        E::NoSpace { .. } | E::TooLarge => row(S::INSUFFICIENT_STORAGE, "no-space", &[]),
        E::ReadOnly => row(S::INSUFFICIENT_STORAGE, "file-system-read-only", &[]),
        E::Exhausted { .. } | E::Counting => row(S::SERVICE_UNAVAILABLE, "exhausted", &[]),
        E::Displaced { .. } => row(S::SERVICE_UNAVAILABLE, "directory-displaced", &[]),
        E::Unreachable { .. } => row(S::SERVICE_UNAVAILABLE, "store-unreachable", &[]),
        E::Busy { .. } => row(S::SERVICE_UNAVAILABLE, "store-busy", &[]),
        E::Precondition => Refusal::Precondition.row(config),
        E::NameTaken(_) | E::FolderKept => row(S::METHOD_NOT_ALLOWED, "name-taken", &[]),
        E::NoParent(_) => row(S::CONFLICT, "no-parent", &[]),
        E::NoFolder => Refusal::NoSuchFolder.row(config),
        E::Occupied(_) => row(S::CONFLICT, "occupied", &[]),
        E::HalfMoved(..) => row(S::CONFLICT, "half-moved", &[]),
        E::Unsynced(why) => failed(why, config),
        E::Incomplete => Refusal::CutOff.row(config),
        E::Forbidden { .. } if config.compat => row(S::INTERNAL_SERVER_ERROR, "forbidden", &[]),
        E::Forbidden { .. } => row(S::FORBIDDEN, "forbidden", &[]),
        E::Truncated | E::Failed { .. } => row(S::INTERNAL_SERVER_ERROR, "store-failed", &[]),
        E::Refused { .. } => row(S::INTERNAL_SERVER_ERROR, "store-refused", &[]),
        E::TimedOut => row(S::GATEWAY_TIMEOUT, "store-timeout", &[]),
        E::OutcomeUnknown { is_late: true } => row(S::GATEWAY_TIMEOUT, "outcome-unknown", &[]),
        E::OutcomeUnknown { is_late: false } => row(S::BAD_GATEWAY, "outcome-unknown", &[]),
        E::BadGateway { .. } => row(S::BAD_GATEWAY, "store-failed", &[]),
        E::NotSupported { name, .. } => row(S::NOT_IMPLEMENTED, name, &[]),
        E::BadKey(_) => row(S::BAD_REQUEST, "bad-key", &[]),
    }
}

fn allow(headers: &mut HeaderMap, methods: &'static str) {
    headers.insert(ALLOW, HeaderValue::from_static(methods));
}

/// Asks the client to wait for `seconds`.
fn retry(headers: &mut HeaderMap, seconds: u64) {
    headers.insert(RETRY_AFTER, seconds.into());
}

/// Adds the schemes of authentication (RFC 9110, section 11.6.1). The realm is printable, and holds no quote.
fn challenge(headers: &mut HeaderMap, realm: &str) {
    for (scheme, rest) in [("Basic", ", charset=\"UTF-8\""), ("Bearer", "")] {
        let challenge = format!("{scheme} realm=\"{realm}\"{rest}");
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            headers.append(WWW_AUTHENTICATE, challenge);
        }
    }
}
