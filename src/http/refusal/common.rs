//! The refusals that several features have. docs/http.md lists the names of all kinds.

use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderValue};

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use crate::store::BadKey;

const HIDDEN: &Kind = &Kind::new(StatusCode::NOT_FOUND, "hidden");
pub const BAD_KEY: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-key");
const KEY_TOO_LONG: &Kind = &Kind::new(StatusCode::URI_TOO_LONG, "key-too-long");
pub const TOO_LARGE: &Kind = &Kind::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large");
const METHOD: &Kind = &Kind::new(StatusCode::METHOD_NOT_ALLOWED, "method")
    .compat(&Kind::new(StatusCode::NOT_FOUND, "method"));

pub const NO_SUCH_KEY: Refusal = Refusal::new(
    &Kind::new(StatusCode::NOT_FOUND, "no-such-key"),
    "no such key; the path of a folder ends with '/'",
);

const NO_PATH: &Kind = &Kind::new(StatusCode::NOT_FOUND, "no-such-path");
pub const NO_SUCH_PATH: Refusal = Refusal::new(NO_PATH, "nothing has this path");
pub const ROOT: Refusal = Refusal::new(NO_PATH, "the root is not removed: delete what is in it");

pub const NO_SUCH_FOLDER: Refusal = Refusal::new(
    &Kind::new(StatusCode::NOT_FOUND, "no-such-folder"),
    "there is no folder of this name",
);

pub const PRECONDITION: Refusal = Refusal::new(
    &Kind::new(StatusCode::PRECONDITION_FAILED, "precondition-failed"),
    "the precondition does not hold",
);

pub const FOLDER_PRECONDITION: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "folder-precondition"),
    "a folder has no version, so a change of it takes no precondition",
);

pub const READ_ONLY: Refusal = Refusal::new(
    &Kind::new(StatusCode::FORBIDDEN, "read-only"),
    "this server is read-only",
);

pub const CUT_OFF: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "body-cut-off").flags(&[Flag::Closes]),
    "the request's body was cut off or malformed",
);

pub const LATE: Refusal = Refusal::new(
    &Kind::new(StatusCode::REQUEST_TIMEOUT, "request-timeout").flags(&[Flag::Closes]),
    "the request did not arrive in time",
);

/// The refusal of a value, or of a body, of more than `limit` bytes.
pub fn too_large(limit: u64) -> Refusal {
    TOO_LARGE.because(format!(
        "the value is larger than this server takes ({limit} bytes)"
    ))
}

/// The refusal of a method by a path of values, which takes these `methods`; with the way to store something, where
/// there is one beside them.
pub fn no_method(methods: &'static str) -> Refusal {
    let hint = if methods.contains("MKCOL") {
        ": store a value with PUT, a form with files by POST to /-/upload"
    } else {
        ""
    };
    METHOD.because(format!("this path takes {methods}{hint}"))
}

/// The refusal of a method by a page of the server, which knows these `methods`.
pub fn no_page_method(methods: &'static str) -> Refusal {
    METHOD
        .because(format!("this page knows {methods}"))
        .with(ALLOW, HeaderValue::from_static(methods))
}

impl Refusal {
    /// The refusal of a request whose body was given up: a body that was cut off becomes one that is late.
    pub fn of_late_body(self) -> Self {
        if self.kind != CUT_OFF.kind {
            return self;
        }
        let Self { kind, text, .. } = LATE;
        Self { kind, text, ..self }
    }
}

impl From<BadKey> for Refusal {
    fn from(why: BadKey) -> Self {
        let kind = match why {
            // The name alone decides: the answer does not say whether something has it.
            BadKey::Hidden => HIDDEN,
            BadKey::TooLong | BadKey::SegmentTooLong => KEY_TOO_LONG,
            _ => BAD_KEY,
        };
        kind.because(format!("bad key: {why}"))
    }
}
