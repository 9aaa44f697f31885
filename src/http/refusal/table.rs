//! The table of the refusals that several features have, with the kind of each. docs/http.md lists the names of all.

use hyper::StatusCode;

use crate::access::Existing;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use crate::store::{BadKey, Error};

/// The name of the problem that is none: a client has signed out.
pub const SIGNED_OUT: &str = "signed-out";

/// The types of the problems that the draft of resumable uploads defines.
const MISMATCHING_OFFSET: &str =
    "https://iana.org/assignments/http-problem-types#mismatching-upload-offset";
const INCONSISTENT_LENGTH: &str =
    "https://iana.org/assignments/http-problem-types#inconsistent-upload-length";

impl Refusal {
    /// The kind of the refusal. With `--compat` some statuses are those of the C server.
    pub fn kind(&self, compat: bool) -> Kind {
        use Flag::{Audited, Closes, Empty};
        use Refusal as R;
        use StatusCode as S;
        match self {
            R::NoSuchKey => Kind::new(S::NOT_FOUND, "no-such-key"),
            R::NoSuchPath | R::Root => Kind::new(S::NOT_FOUND, "no-such-path"),
            R::NoKey if compat => Kind::new(S::NO_CONTENT, "").flags(&[Empty]),
            R::NoKey => Kind::new(S::BAD_REQUEST, "no-key"),
            R::NothingToStore => Kind::new(S::NOT_MODIFIED, "").flags(&[Empty]),
            R::BadKey(BadKey::TooLong | BadKey::SegmentTooLong) => {
                Kind::new(S::URI_TOO_LONG, "key-too-long")
            }
            R::BadKey(_) | R::BadEscape | R::Folder | R::NoDigestInName(_) => {
                Kind::new(S::BAD_REQUEST, "bad-key")
            }
            R::NoSuchFolder => Kind::new(S::NOT_FOUND, "no-such-folder"),
            R::FolderWithBody => Kind::new(S::UNSUPPORTED_MEDIA_TYPE, "folder-with-body"),
            R::FolderPrecondition => Kind::new(S::BAD_REQUEST, "folder-precondition"),
            R::NeedsDepth { .. } => Kind::new(S::CONFLICT, "needs-depth"),
            R::KeyTooDeep { .. } => Kind::new(S::BAD_REQUEST, "key-too-deep"),
            R::BadTarget => Kind::new(S::BAD_REQUEST, "bad-target").flags(&[Closes]),
            R::BadHost => Kind::new(S::BAD_REQUEST, "bad-host").flags(&[Closes]),
            R::Of(kind, _) => **kind,
            R::Late => Kind::new(S::REQUEST_TIMEOUT, "request-timeout").flags(&[Closes]),
            R::LengthRequired => Kind::new(S::LENGTH_REQUIRED, "length-required"),
            R::CutOff => Kind::new(S::BAD_REQUEST, "body-cut-off").flags(&[Closes]),
            R::Expectation => Kind::new(S::EXPECTATION_FAILED, "expectation"),
            R::PartialPut => Kind::new(S::BAD_REQUEST, "partial-put"),
            R::NoForm => Kind::new(S::UNSUPPORTED_MEDIA_TYPE, "no-form"),
            R::DigestMismatch | R::Sha256Mismatch(_) => {
                Kind::new(S::BAD_REQUEST, "digest-mismatch")
            }
            R::Unsatisfiable { .. } => Kind::new(S::RANGE_NOT_SATISFIABLE, "range-not-satisfiable"),
            R::Precondition => Kind::new(S::PRECONDITION_FAILED, "precondition-failed"),
            R::If => Kind::new(S::NOT_IMPLEMENTED, "if-field"),
            R::Method(_) if compat => Kind::new(S::NOT_FOUND, "method"),
            R::Method(_) | R::PageMethod(_) => Kind::new(S::METHOD_NOT_ALLOWED, "method"),
            R::ReadOnly => Kind::new(S::FORBIDDEN, "read-only"),
            R::TooLarge { .. } => Kind::new(S::PAYLOAD_TOO_LARGE, "too-large"),
            R::Unauthenticated { .. } => {
                Kind::new(S::UNAUTHORIZED, "unauthenticated").flags(&[Audited])
            }
            R::SignedOut => Kind::new(S::UNAUTHORIZED, SIGNED_OUT),
            R::NotAllowed(_) => Kind::new(S::FORBIDDEN, "not-allowed").flags(&[Audited]),
            R::Exists(Existing::NotAllowed) => Kind::new(S::FORBIDDEN, "exists").flags(&[Audited]),
            R::Exists(Existing::Conflict) => Kind::new(S::CONFLICT, "exists").flags(&[Audited]),
            R::Exists(Existing::Precondition) => {
                Kind::new(S::PRECONDITION_FAILED, "exists").flags(&[Audited])
            }
            R::CertificateEnded => {
                Kind::new(S::FORBIDDEN, "certificate-ended").flags(&[Audited, Closes])
            }
            R::TooManyFailures { .. } => {
                Kind::new(S::TOO_MANY_REQUESTS, "too-many-failures").flags(&[Audited])
            }
            R::ChecksBusy => Kind::new(S::SERVICE_UNAVAILABLE, "checks-busy"),
            R::NoSuchUpload => Kind::new(S::NOT_FOUND, "no-such-upload"),
            R::NotPartialUpload => Kind::new(S::UNSUPPORTED_MEDIA_TYPE, "not-partial-upload"),
            R::UploadField(_) => Kind::new(S::BAD_REQUEST, "bad-upload-field"),
            R::MismatchingOffset { .. } => Kind::new(S::CONFLICT, MISMATCHING_OFFSET),
            R::InconsistentLength => Kind::new(S::BAD_REQUEST, INCONSISTENT_LENGTH),
            R::UploadComplete => Kind::new(S::CONFLICT, "upload-complete"),
            R::UploadTaken => Kind::new(S::CONFLICT, "upload-taken"),
            R::OfUpload(..) | R::OfFolder(..) | R::OfForm(_) | R::OfArchive(_) => {
                self.reason().kind(compat)
            }
            R::Store(error) => failed(error, compat),
            R::Panicked => Kind::new(S::INTERNAL_SERVER_ERROR, "internal").flags(&[Closes]),
        }
    }
}

/// The kind of a failure of the store.
fn failed(error: &Error, compat: bool) -> Kind {
    use Error as E;
    use StatusCode as S;
    match error {
        E::NoSpace { .. } | E::TooLarge => Kind::new(S::INSUFFICIENT_STORAGE, "no-space"),
        E::ReadOnly => Kind::new(S::INSUFFICIENT_STORAGE, "file-system-read-only"),
        E::Exhausted { .. } | E::Counting => Kind::new(S::SERVICE_UNAVAILABLE, "exhausted"),
        E::Displaced { .. } => Kind::new(S::SERVICE_UNAVAILABLE, "directory-displaced"),
        E::Unreachable { .. } => Kind::new(S::SERVICE_UNAVAILABLE, "store-unreachable"),
        E::Busy { .. } => Kind::new(S::SERVICE_UNAVAILABLE, "store-busy"),
        E::Precondition => Refusal::Precondition.kind(compat),
        E::NameTaken(_) | E::FolderKept => Kind::new(S::METHOD_NOT_ALLOWED, "name-taken"),
        E::NoParent(_) => Kind::new(S::CONFLICT, "no-parent"),
        E::NoFolder => Refusal::NoSuchFolder.kind(compat),
        E::Occupied(_) => Kind::new(S::CONFLICT, "occupied"),
        E::HalfMoved(..) => Kind::new(S::CONFLICT, "half-moved"),
        E::Unsynced(why) => failed(why, compat),
        E::Incomplete => Refusal::CutOff.kind(compat),
        E::Forbidden { .. } if compat => Kind::new(S::INTERNAL_SERVER_ERROR, "forbidden"),
        E::Forbidden { .. } => Kind::new(S::FORBIDDEN, "forbidden"),
        E::Truncated | E::Failed { .. } => Kind::new(S::INTERNAL_SERVER_ERROR, "store-failed"),
        E::Refused { .. } => Kind::new(S::INTERNAL_SERVER_ERROR, "store-refused"),
        E::TimedOut => Kind::new(S::GATEWAY_TIMEOUT, "store-timeout"),
        E::OutcomeUnknown { is_late: true } => Kind::new(S::GATEWAY_TIMEOUT, "outcome-unknown"),
        E::OutcomeUnknown { is_late: false } => Kind::new(S::BAD_GATEWAY, "outcome-unknown"),
        E::BadGateway { .. } => Kind::new(S::BAD_GATEWAY, "store-failed"),
        E::NotSupported { name, .. } => Kind::new(S::NOT_IMPLEMENTED, name),
        E::BadKey(_) => Kind::new(S::BAD_REQUEST, "bad-key"),
    }
}
