//! What the store answers, and what an answer that is no success means.
//!
//! The one place that reads the statuses and the error codes of S3.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper_util::client::legacy;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use super::connector::advice;
use super::lending::Loan;
use crate::value::Error;

/// The longest error message that is read.
const MAX_MESSAGE: usize = 64 << 10;

/// The success that a request came to. It holds its connection until its body is read or dropped.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Incoming,
    /// What can be borrowed of its connection, where that is a plain one.
    pub loan: Option<Loan>,
    pub _connection: OwnedSemaphorePermit,
}

/// Why a request is no success.
#[derive(Debug)]
pub enum Failure {
    /// It did not arrive: nothing was done.
    NotSent(String),
    /// The store, or what is before it, asks for patience: it says that nothing was done.
    Busy { retry_after: u64 },
    /// Its answer was lost, or the store failed: it was perhaps done.
    Lost(String),
    /// No answer came in time: it was perhaps done.
    Late,
    /// The store has refused it: nothing was done.
    Refused(Refusal),
    /// It was not tried.
    Unfit(Error),
}

/// What the store says of a request that it refuses.
#[derive(Debug, Default)]
pub struct Refusal {
    pub status: u16,
    code: String,
    message: String,
}

/// The body of a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ErrorBody {
    code: String,
    message: String,
}

impl Answer {
    /// This answer, where it is a success.
    pub async fn checked(self, timeout: Duration) -> Result<Self, Failure> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let (status, wait) = (self.status, retry_after(&self.headers));
        let body = tokio::time::timeout(timeout, self.whole(MAX_MESSAGE)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let text = std::str::from_utf8(&body).unwrap_or_default();
        let said: ErrorBody = quick_xml::de::from_str(text).unwrap_or_default();
        let refusal = Refusal {
            status,
            code: said.code,
            message: said.message,
        };
        Err(refusal.meaning(wait))
    }

    /// All of its body, of at most `max` bytes.
    pub async fn whole(self, max: usize) -> Result<Bytes, String> {
        let whole = Limited::new(self.body, max).collect().await;
        whole.map(Collected::to_bytes).map_err(|e| e.to_string())
    }
}

impl Failure {
    /// What became of a request without an answer.
    pub fn without_answer(error: &legacy::Error) -> Self {
        let source = std::error::Error::source(error);
        let cause = source.and_then(|source| source.downcast_ref::<hyper::Error>());
        let text = causes(error);
        // hyper gives up a request unsent when its connection was closed meanwhile.
        if error.is_connect() || cause.is_some_and(hyper::Error::is_canceled) {
            Self::NotSent(text)
        } else {
            Self::Lost(text)
        }
    }
}

/// An error, and what it comes from.
fn causes(error: &legacy::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text.push_str(advice(error).unwrap_or_default());
    text
}

impl Refusal {
    fn meaning(self, retry_after: Option<u64>) -> Failure {
        let says_patience = matches!(
            &*self.code,
            "ConditionalRequestConflict" | "OperationAborted" | "SlowDown" | "RequestTimeout"
        );
        let is_nameless_conflict = self.status == 409 && self.code.is_empty();
        let retry_after = retry_after.unwrap_or(1);
        match self.status {
            _ if says_patience || is_nameless_conflict => Failure::Busy { retry_after },
            429 | 503 => Failure::Busy { retry_after },
            500 | 502 | 504.. if !self.is_full() => Failure::Lost(self.said()),
            _ => Failure::Refused(self),
        }
    }

    /// Whether there is no such object: not when it is the bucket that is missing.
    pub fn is_missing(&self) -> bool {
        self.status == 404 && self.code != "NoSuchBucket"
    }

    /// Whether there is no such upload in parts.
    pub fn is_no_upload(&self) -> bool {
        self.code == "NoSuchUpload"
    }

    /// Whether the version or the range that was asked for is not there any more.
    pub fn is_changed(&self) -> bool {
        matches!(self.status, 412 | 416)
    }

    fn is_full(&self) -> bool {
        self.status == 507
            || matches!(
                &*self.code,
                "QuotaExceeded" | "XMinioStorageFull" | "StorageFull"
            )
    }

    /// What it means where no meaning was expected.
    pub fn error(self) -> Error {
        match (self.status, &*self.code) {
            _ if self.is_full() => Error::NoSpace {
                reason: "no space left in the store",
            },
            (_, "KeyTooLongError") => Error::BadKey("it is too long for the store"),
            (413, _) | (_, "EntityTooLarge") => Error::TooLarge,
            (409, _) => Error::Occupied(self.message),
            (412, _) => Error::Precondition,
            (501, _) => Error::NotSupported {
                name: "not-in-the-store",
                what: "the store behind this server cannot do this",
            },
            (300..=399 | 401 | 403, _) => Error::Refused { said: self.said() },
            _ if is_about_the_server(&self.code) => Error::Refused { said: self.said() },
            _ => Error::BadGateway { said: self.said() },
        }
    }

    pub fn said(&self) -> String {
        format!("{} {} {}", self.status, self.code, self.message)
    }
}

/// Whether a refusal means that the server is set up wrongly.
fn is_about_the_server(code: &str) -> bool {
    matches!(
        code,
        "AuthorizationHeaderMalformed"
            | "AuthorizationQueryParametersError"
            | "ExpiredToken"
            | "InvalidToken"
            | "InvalidRegion"
            | "InvalidBucketName"
            | "NoSuchBucket"
            | "IllegalLocationConstraintException"
    )
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_meaning() {
        let meaning = |status, code: &str| {
            let refusal = Refusal {
                status,
                code: code.to_owned(),
                message: String::new(),
            };
            match refusal.meaning(None) {
                Failure::Refused(refusal) => format!("{:?}", refusal.error()),
                other => format!("{other:?}"),
            }
        };
        for (status, code, expected) in [
            (403, "SignatureDoesNotMatch", "Refused"),
            (404, "NoSuchBucket", "Refused"),
            (400, "AuthorizationHeaderMalformed", "Refused"),
            (301, "PermanentRedirect", "Refused"),
            (400, "BadDigest", "BadGateway"),
            (409, "ConditionalRequestConflict", "Busy"),
            (409, "OperationAborted", "Busy"),
            (409, "ObjectParentIsFile", "Occupied"),
            (412, "PreconditionFailed", "Precondition"),
            (413, "", "TooLarge"),
            (400, "EntityTooLarge", "TooLarge"),
            (409, "", "Busy"),
            (400, "RequestTimeout", "Busy"),
            (429, "", "Busy"),
            (503, "SlowDown", "Busy"),
            (500, "InternalError", "Lost"),
            (502, "", "Lost"),
            (504, "", "Lost"),
            (599, "", "Lost"),
            (507, "", "NoSpace"),
            (507, "XMinioStorageFull", "NoSpace"),
            (403, "QuotaExceeded", "NoSpace"),
            (501, "NotImplemented", "NotSupported"),
            (418, "", "BadGateway"),
        ] {
            let found = meaning(status, code);
            assert!(found.starts_with(expected), "{status} {code}: {found}");
        }
    }
}
