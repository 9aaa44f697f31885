//! The table of refusals: a row for each reason and for each failure of the store, with its status, its name, its fields, and
//! the logs that have it.
//!
//! Responses, the audit log and the log read it. Statuses stand here and in `response` alone; docs/http.md lists the names.

pub mod rejection;

use hyper::StatusCode;
use hyper::header::{
    ALLOW, CONTENT_RANGE, HeaderMap, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION,
    WWW_AUTHENTICATE,
};

use crate::http::head::syntax::{FramingError, put};
use crate::http::refusal::rejection::Rejection;
use crate::http::response::plain::{Offsets, SIGNED_OUT};
use crate::http::service::operation::Target;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads;
use crate::http::values::fields::BadField;
use crate::http::values::range::unsatisfied;
use crate::http::watch::request::BadWatchRequest;
use crate::http::watch::request::upgrade;
use crate::store::{self, BadKey};

/// The types of the problems that the draft of resumable uploads defines.
const MISMATCHING_OFFSET: &str =
    "https://iana.org/assignments/http-problem-types#mismatching-upload-offset";
const INCONSISTENT_LENGTH: &str =
    "https://iana.org/assignments/http-problem-types#inconsistent-upload-length";

/// The challenge with which a browser forgets a password: it names a scheme that browsers neither answer nor ask for.
const FORGET_PASSWORD: HeaderValue = HeaderValue::from_static("Bearer realm=\"signed out\"");

/// Adds fields to a response.
type Explain<'a> = Box<dyn FnOnce(&mut HeaderMap) + 'a>;

/// A row of the table.
pub struct Refusal<'a> {
    pub status: StatusCode,
    /// The name of the problem, or its type as a URI.
    pub name: &'static str,
    pub body: Wording,
    /// The connection ends with it: the end of the request is in doubt, or its client.
    pub closes: bool,
    /// The client is refused for who it is: the audit log has it.
    pub audited: bool,
    /// A host or an origin is refused, which an option can allow: the log has it.
    pub logged: bool,
    /// Adds fields that say what the client can do about it.
    pub explain: Option<Explain<'a>>,
}

/// The body of a refusal.
pub enum Wording {
    /// No body.
    Empty,
    /// The problem.
    Problem(Option<Offsets>),
    /// The problem, or for clients of S3 and Azure an error as theirs.
    OfStore,
}

impl<'a> Refusal<'a> {
    fn new(status: StatusCode, name: &'static str) -> Self {
        Self {
            status,
            name,
            body: Wording::Problem(None),
            closes: false,
            audited: false,
            logged: false,
            explain: None,
        }
    }

    /// A refusal that has a status alone.
    fn empty(status: StatusCode) -> Self {
        Self::new(status, "").body(Wording::Empty)
    }

    fn body(mut self, body: Wording) -> Self {
        self.body = body;
        self
    }

    fn closes(mut self) -> Self {
        self.closes = true;
        self
    }

    fn audited(mut self) -> Self {
        self.audited = true;
        self
    }

    fn logged(mut self) -> Self {
        self.logged = true;
        self
    }

    fn with(mut self, explain: impl FnOnce(&mut HeaderMap) + 'a) -> Self {
        self.explain = Some(Box::new(explain));
        self
    }
}

/// The row of a rejection.
pub fn rejected<'a>(why: &'a Rejection, config: &'a ServiceConfig) -> Refusal<'a> {
    use Rejection as R;
    use StatusCode as S;
    let row = Refusal::new;
    match why {
        R::NoSuchPath => row(S::NOT_FOUND, "no-such-path"),
        R::NoKey if config.compat => Refusal::empty(S::NO_CONTENT),
        R::NoKey => row(S::BAD_REQUEST, "no-key"),
        R::NothingToStore => Refusal::empty(S::NOT_MODIFIED),
        R::BadKey(BadKey::TooLong | BadKey::SegmentTooLong) => row(S::URI_TOO_LONG, "key-too-long"),
        R::BadKey(_) | R::BadEscape | R::Folder => row(S::BAD_REQUEST, "bad-key"),
        R::KeyTooDeep { .. } => row(S::BAD_REQUEST, "key-too-deep"),
        R::BadQuery(_) => row(S::BAD_REQUEST, "bad-query"),
        R::BadTarget => row(S::BAD_REQUEST, "bad-target").closes(),
        R::BadHost => row(S::BAD_REQUEST, "bad-host").closes(),
        R::WrongHost(_) => row(S::MISDIRECTED_REQUEST, "wrong-host").logged(),
        R::CrossSite(_) => row(S::FORBIDDEN, "cross-site").audited().logged(),
        R::FramingError(why) => framing(*why),
        R::LengthRequired => row(S::LENGTH_REQUIRED, "length-required"),
        R::CutOff => row(S::BAD_REQUEST, "body-cut-off").closes(),
        R::Expectation => row(S::EXPECTATION_FAILED, "expectation"),
        R::OtherStore(_) => row(S::NOT_IMPLEMENTED, "other-store").body(Wording::OfStore),
        R::PartialPut => row(S::BAD_REQUEST, "partial-put"),
        R::BadField(BadField::Framing) => {
            row(S::UNSUPPORTED_MEDIA_TYPE, "content-coding").body(Wording::OfStore)
        }
        R::BadField(_) => row(S::BAD_REQUEST, "bad-field"),
        R::BadForm(_) => row(S::BAD_REQUEST, "bad-form"),
        R::NoForm => row(S::UNSUPPORTED_MEDIA_TYPE, "no-form"),
        R::BadDigest(_) => row(S::BAD_REQUEST, "bad-digest"),
        R::DigestMismatch => row(S::BAD_REQUEST, "digest-mismatch"),
        R::Unsatisfiable { len } => row(S::RANGE_NOT_SATISFIABLE, "range-not-satisfiable")
            .with(|headers| put(headers, CONTENT_RANGE, unsatisfied(*len))),
        R::Precondition => row(S::PRECONDITION_FAILED, "precondition-failed"),
        // The status of the C server.
        R::Method if config.compat => row(S::NOT_FOUND, "method"),
        R::Method => row(S::METHOD_NOT_ALLOWED, "method")
            .with(|headers| allow(headers, Target::Values.methods(config))),
        R::PageMethod(methods) => {
            row(S::METHOD_NOT_ALLOWED, "method").with(|headers| allow(headers, methods))
        }
        R::ReadOnly => row(S::FORBIDDEN, "read-only"),
        R::TooLarge { .. } if config.announces_uploads() => row(S::PAYLOAD_TOO_LARGE, "too-large")
            .with(|headers| uploads::tell_limit(headers, config)),
        R::TooLarge { .. } => row(S::PAYLOAD_TOO_LARGE, "too-large"),
        R::Unauthenticated { realm } => row(S::UNAUTHORIZED, "unauthenticated")
            .audited()
            .with(|headers| challenge(headers, realm)),
        R::SignedOut => row(S::UNAUTHORIZED, SIGNED_OUT).with(|headers| {
            headers.insert(WWW_AUTHENTICATE, FORGET_PASSWORD);
        }),
        R::NotAllowed(_) => row(S::FORBIDDEN, "not-allowed").audited(),
        R::CertificateEnded => row(S::FORBIDDEN, "certificate-ended").audited().closes(),
        R::BadLink(_) => row(S::FORBIDDEN, "bad-link").audited(),
        R::TooManyFailures { retry_after } => row(S::TOO_MANY_REQUESTS, "too-many-failures")
            .audited()
            .with(|headers| retry(headers, *retry_after)),
        R::ChecksBusy => {
            row(S::SERVICE_UNAVAILABLE, "checks-busy").with(|headers| retry(headers, 1))
        }
        R::BadWatchRequest(why) => watching(why),
        R::NoSuchUpload => row(S::NOT_FOUND, "no-such-upload"),
        R::NotPartialUpload => {
            row(S::UNSUPPORTED_MEDIA_TYPE, "not-partial-upload").with(uploads::accept_parts)
        }
        R::UploadField(_) => row(S::BAD_REQUEST, "bad-upload-field"),
        &R::MismatchingOffset { expected, provided } => {
            let offsets = Offsets {
                expected_offset: expected,
                provided_offset: provided,
            };
            row(S::CONFLICT, MISMATCHING_OFFSET).body(Wording::Problem(Some(offsets)))
        }
        R::InconsistentLength => row(S::BAD_REQUEST, INCONSISTENT_LENGTH),
        R::UploadComplete => row(S::CONFLICT, "upload-complete"),
        R::UploadTaken => row(S::CONFLICT, "upload-taken"),
    }
}

/// The row of an invalid head.
fn framing<'a>(why: FramingError) -> Refusal<'a> {
    use FramingError as F;
    use StatusCode as S;
    match why {
        F::Line => Refusal::new(S::BAD_REQUEST, "bad-head"),
        F::Http2 => Refusal::new(S::HTTP_VERSION_NOT_SUPPORTED, "http2-off"),
        F::Length | F::Chunks => Refusal::new(S::BAD_REQUEST, "bad-framing"),
        F::Coding => Refusal::new(S::NOT_IMPLEMENTED, "transfer-coding"),
        F::Late => Refusal::new(S::REQUEST_TIMEOUT, "request-timeout").closes(),
        F::TooLarge => Refusal::new(S::REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large"),
    }
}

/// The row of a refused request for the feed of changes.
fn watching<'a>(why: &BadWatchRequest) -> Refusal<'a> {
    use BadWatchRequest as W;
    use StatusCode as S;
    match why {
        W::Prefix | W::Since | W::Parameter => Refusal::new(S::BAD_REQUEST, "bad-query"),
        W::Handshake(_) => Refusal::new(S::BAD_REQUEST, "bad-handshake"),
        W::WebSocketVersion => {
            Refusal::new(S::UPGRADE_REQUIRED, "websocket-version").with(|headers| {
                headers.extend(upgrade());
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            })
        }
        W::ForeignOrigin(_) => Refusal::new(S::FORBIDDEN, "foreign-origin")
            .audited()
            .logged(),
    }
}

/// The row of a failure of the store.
pub fn failed<'a>(error: &'a store::Error, config: &'a ServiceConfig) -> Refusal<'a> {
    use StatusCode as S;
    use store::Error as E;
    let row = Refusal::new;
    let later = |name| {
        let retry_after = error.retry_after();
        row(S::SERVICE_UNAVAILABLE, name).with(move |headers| retry(headers, retry_after))
    };
    match error {
        E::NoSpace { .. } | E::TooLarge => row(S::INSUFFICIENT_STORAGE, "no-space"),
        E::ReadOnly => row(S::INSUFFICIENT_STORAGE, "file-system-read-only"),
        E::Exhausted { .. } => later("exhausted"),
        E::Displaced { .. } => later("directory-displaced"),
        E::Unreachable { .. } => later("store-unreachable"),
        E::Busy { .. } => later("store-busy"),
        E::Precondition => rejected(&Rejection::Precondition, config),
        E::Occupied(_) => row(S::CONFLICT, "occupied"),
        E::Unsynced(why) => failed(why, config),
        E::Incomplete => rejected(&Rejection::CutOff, config),
        // The status of the C server.
        E::Forbidden { .. } if config.compat => row(S::INTERNAL_SERVER_ERROR, "forbidden"),
        E::Forbidden { .. } => row(S::FORBIDDEN, "forbidden"),
        E::Truncated | E::Failed { .. } => row(S::INTERNAL_SERVER_ERROR, "store-failed"),
        E::Refused { .. } => row(S::INTERNAL_SERVER_ERROR, "store-refused"),
        E::TimedOut => row(S::GATEWAY_TIMEOUT, "store-timeout"),
        E::OutcomeUnknown { is_late: true } => row(S::GATEWAY_TIMEOUT, "outcome-unknown"),
        E::OutcomeUnknown { is_late: false } => row(S::BAD_GATEWAY, "outcome-unknown"),
        E::BadGateway { .. } => row(S::BAD_GATEWAY, "store-failed"),
        E::NotSupported { name, .. } => row(S::NOT_IMPLEMENTED, name),
        E::BadKey(_) => row(S::BAD_REQUEST, "bad-key"),
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
