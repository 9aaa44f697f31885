//! The answer to a request: a success with its body, or why there is none; and whether the request is tried again.
//!
//! The one place that reads the statuses and the error codes of S3. A change is tried again only where it was surely
//! not made.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;
use hyper::header::{AsHeaderName, HeaderMap, RETRY_AFTER};
use hyper_util::client::legacy;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};

use super::connector::advice;
use crate::client::with_causes;
use crate::metrics::S3Counters;
use crate::value::Error;

/// The longest error message that is read.
const MAX_MESSAGE: usize = 64 << 10;

/// The most characters of the store's own message that are passed on.
const MAX_SAID: usize = 1000;

/// The time for which a store that cannot be reached is tried: long enough for a second endpoint where the first does
/// not answer at all. One that refuses connections is given up after [`MOST`] tries, in half a second.
const UNREACHABLE: Duration = Duration::from_secs(2);

/// The time for which a store that asks for patience is tried.
const BUSY: Duration = Duration::from_secs(2);

/// Times that a failed request which changes nothing is sent again.
const FAILED: u32 = 2;

/// The most times that a request is sent.
const MOST: u32 = 6;

/// The pause before the second try; it doubles from one try to the next.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause that is not asked for.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The success that a request came to. It holds its connection until its body is read or dropped.
#[derive(Debug)]
pub struct StoreResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Incoming,
    pub(super) _connection: OwnedSemaphorePermit,
}

/// Why a request is no success.
#[derive(Debug)]
pub enum RequestError {
    /// It did not arrive: nothing was done.
    NotSent(String),
    /// The store, or what is before it, asks for patience: it says that nothing was done.
    Busy {
        /// In seconds; 0 where the pause that grows with each try is enough.
        retry_after: u64,
        /// A proxy, or a part of a store, also says so of what was done.
        may_be_made: bool,
    },
    /// Its answer was lost, or the store failed: it was perhaps done.
    MaybeDone(String),
    /// No answer came in time: it was perhaps done.
    Late,
    /// The store has refused it: nothing was done.
    Refused(ErrorBody),
    /// It was not tried.
    NotTried(Error),
}

/// The refusal of a request by the store, and the body that says why.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ErrorBody {
    #[serde(skip)]
    pub status: u16,
    code: String,
    message: String,
    /// The region of the bucket, where the store names one.
    region: String,
}

impl StoreResponse {
    /// The answer, where it is a success.
    pub async fn checked(self, within: Duration) -> Result<Self, RequestError> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let (status, wait) = (self.status, retry_after(&self.headers));
        let region = text(&self.headers, "x-amz-bucket-region");
        let region = region.unwrap_or_default().to_owned();
        let body = self.whole(MAX_MESSAGE, within).await.unwrap_or_default();
        let mut refusal: ErrorBody = parse(&body).unwrap_or_default();
        refusal.status = status;
        if refusal.region.is_empty() {
            refusal.region = region;
        }
        Err(refusal.meaning(wait))
    }

    /// The whole body, of at most `max` bytes, if it comes within this time.
    pub async fn whole(self, max: usize, within: Duration) -> Result<Bytes, RequestError> {
        let whole = timeout(within, Limited::new(self.body, max).collect()).await;
        let whole = whole.map_err(|_| RequestError::Late)?;
        let lost = |error: Box<dyn std::error::Error + Send + Sync>| {
            RequestError::MaybeDone(error.to_string())
        };
        whole.map(Collected::to_bytes).map_err(lost)
    }
}

/// The XML of the body of an answer.
pub fn parse<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(body).map_err(|_| unclear("an answer is not UTF-8"))?;
    let parsed = quick_xml::de::from_str(text);
    parsed.map_err(|error| unclear(&format!("an answer cannot be read: {error}")))
}

impl RequestError {
    /// The failure of a request without an answer.
    pub fn without_answer(error: &legacy::Error) -> Self {
        let source = std::error::Error::source(error);
        let cause = source.and_then(|source| source.downcast_ref::<hyper::Error>());
        let text = with_causes(error) + advice(error).unwrap_or_default();
        // hyper gives up a request unsent when its connection was closed meanwhile.
        if error.is_connect() || cause.is_some_and(hyper::Error::is_canceled) {
            Self::NotSent(text)
        } else {
            Self::MaybeDone(text)
        }
    }

    /// The error of a request that was to change nothing.
    pub fn error(self) -> Error {
        match self {
            Self::NotSent(said) => Error::Unreachable(said),
            Self::Busy { retry_after, .. } => Error::Busy {
                retry_after: retry_after.max(1),
            },
            Self::MaybeDone(said) => Error::BadGateway(said),
            Self::Late => Error::TimedOut,
            Self::Refused(refusal) => refusal.error(),
            Self::NotTried(error) => error,
        }
    }

    /// True where a change that was sent whole may have been made.
    pub fn may_be_made(&self) -> bool {
        match self {
            Self::MaybeDone(_) | Self::Late => true,
            Self::Busy { may_be_made, .. } => *may_be_made,
            Self::NotSent(_) | Self::Refused(_) | Self::NotTried(_) => false,
        }
    }

    /// The error of a change that was sent whole.
    pub fn outcome(self) -> Error {
        match self {
            Self::Late => Error::OutcomeUnknown { is_late: true },
            Self::MaybeDone(_) => Error::OutcomeUnknown { is_late: false },
            failure => failure.error(),
        }
    }
}

impl ErrorBody {
    fn meaning(self, retry_after: Option<u64>) -> RequestError {
        // The store decided for another request, or did not receive all of this one.
        let is_undone = matches!(
            &*self.code,
            "ConditionalRequestConflict" | "OperationAborted" | "RequestTimeout"
        );
        // A conflict with another write of the key is over as soon as that write is.
        let own = u64::from(self.status != 409);
        let busy = |may_be_made| RequestError::Busy {
            retry_after: retry_after.unwrap_or(own),
            may_be_made,
        };
        match self.status {
            _ if is_undone => busy(false),
            409 if self.code.is_empty() => busy(true),
            429 | 503 => busy(true),
            _ if self.code == "SlowDown" => busy(true),
            500 | 502 | 504.. if !self.is_full() => RequestError::MaybeDone(self.said()),
            _ => RequestError::Refused(self),
        }
    }

    /// True where there is no such object; a missing bucket is a fault of the settings.
    pub fn is_missing(&self) -> bool {
        self.status == 404 && self.code != "NoSuchBucket"
    }

    /// True where there is no such upload in parts.
    pub fn is_no_upload(&self) -> bool {
        self.code == "NoSuchUpload"
    }

    /// True where the version or the range that was asked for is gone.
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

    /// The error that it is where no refusal was expected.
    pub fn error(self) -> Error {
        match (self.status, &*self.code) {
            _ if self.is_full() => Error::NoSpace("no space left in the store".into()),
            (_, "KeyTooLongError") => Error::BadKey("it is too long for the store"),
            (413, _) | (_, "EntityTooLarge") => Error::TooLarge,
            (409, _) => Error::Occupied(self.message),
            (412, _) => Error::Precondition,
            (501, _) => Error::NotSupported {
                name: "not-in-the-store",
                what: "the store behind this server cannot do this",
            },
            // This server is set up wrongly.
            (300..=399 | 401 | 403, _)
            | (
                _,
                "AuthorizationHeaderMalformed"
                | "AuthorizationQueryParametersError"
                | "ExpiredToken"
                | "InvalidToken"
                | "InvalidRegion"
                | "InvalidBucketName"
                | "NoSuchBucket"
                | "IllegalLocationConstraintException",
            ) => Error::Refused(self.said()),
            _ => Error::BadGateway(self.said()),
        }
    }

    pub fn said(&self) -> String {
        let mut said = match &*self.code {
            "" => format!("{}, without a code of S3", self.status),
            code => format!("{} {code}: {}", self.status, self.message),
        };
        if !self.region.is_empty() {
            let _ = write!(said, "; the bucket is in the region {}", self.region);
        }
        // It is printed to terminals too, in one line.
        let said = said.replace(char::is_control, " ");
        said.chars().take(MAX_SAID).collect()
    }
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    text(headers, RETRY_AFTER)?.trim().parse().ok()
}

/// The value of a field, where it is text.
pub fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// An answer that is not what S3 says.
pub fn unclear(what: &str) -> Error {
    Error::BadGateway(what.to_owned())
}

/// True where `error` says that nothing was done, and does not depend on what was.
pub fn says_undone(error: &Error) -> bool {
    !matches!(error, Error::OutcomeUnknown { .. } | Error::Precondition)
}

/// The error of a change that may have been made although its last try ended with `error`.
pub fn doubted(error: Error) -> Error {
    match error {
        Error::OutcomeUnknown { .. } => error,
        _ => Error::OutcomeUnknown { is_late: false },
    }
}

/// The tries of one request.
#[derive(Debug)]
pub struct Tries<'a> {
    began: Instant,
    pub until: Instant,
    made: u32,
    failed: u32,
    /// A try may have changed something, also one whose answer asks for patience.
    pub may_be_made: bool,
    counters: &'a S3Counters,
}

impl<'a> Tries<'a> {
    /// The tries of a request that has time until `until`.
    pub fn until(until: Instant, counters: &'a S3Counters) -> Self {
        Self {
            began: Instant::now(),
            until,
            made: 0,
            failed: 0,
            may_be_made: false,
            counters,
        }
    }

    /// Waits for the moment of the next try of a request that changes nothing; the failure when there is none.
    pub async fn retry(&mut self, failure: RequestError) -> Result<(), RequestError> {
        let Some(pause) = self.pause_after(&failure) else {
            return Err(failure);
        };
        sleep(pause).await;
        Ok(())
    }

    /// The pause before the next try of a request that changes nothing; `None` when there is none.
    fn pause_after(&mut self, failure: &RequestError) -> Option<Duration> {
        let (most, asked) = match failure {
            RequestError::NotSent(_) => (UNREACHABLE, Duration::ZERO),
            RequestError::Busy { retry_after, .. } => (BUSY, Duration::from_secs(*retry_after)),
            RequestError::MaybeDone(_) if self.failed < FAILED => {
                self.failed += 1;
                (BUSY, Duration::ZERO)
            }
            _ => return None,
        };
        let own = (FIRST_PAUSE * (1 << self.made.min(8))).min(LONGEST_PAUSE);
        let pause = asked.max(own);
        self.made += 1;
        let end = self.until.min(self.began + most);
        // A store may ask for a pause that goes beyond all time.
        let is_in_time = |at: Instant| at <= end;
        if self.made >= MOST || !Instant::now().checked_add(pause).is_some_and(is_in_time) {
            return None;
        }
        self.counters.retries.add(1);
        Some(pause)
    }

    /// Makes a change by `send`, which sends all of it, and again where the store says that it was not made. Such an
    /// answer [`Tries::may_be_made`] doubts; where the change was perhaps made, there is no other try.
    pub async fn change<T>(
        &mut self,
        mut send: impl AsyncFnMut(&mut Self) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        loop {
            let failure = match send(self).await {
                Ok(made) => return Ok(made),
                Err(failure) => failure,
            };
            self.may_be_made |= failure.may_be_made();
            match failure {
                RequestError::NotSent(_) | RequestError::Busy { .. } => self.retry(failure).await?,
                failure => return Err(failure),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_meaning() {
        let meaning = |status, code: &str| {
            let refusal = ErrorBody {
                status,
                code: code.to_owned(),
                ..ErrorBody::default()
            };
            match refusal.meaning(None) {
                RequestError::Refused(refusal) => format!("{:?}", refusal.error()),
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
            (500, "InternalError", "MaybeDone"),
            (502, "", "MaybeDone"),
            (504, "", "MaybeDone"),
            (599, "", "MaybeDone"),
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

    #[test]
    fn what_a_store_says_is_one_line_of_bounded_length() {
        let refusal = ErrorBody {
            code: "Denied".to_owned(),
            message: format!("a\nb\u{1b}[31m{}", "x".repeat(MAX_MESSAGE)),
            ..ErrorBody::default()
        };
        let said = refusal.said();
        assert!(said.starts_with("0 Denied: a b [31mx"), "{said}");
        assert_eq!(said.len(), MAX_SAID);
    }

    #[test]
    fn a_retry_after_beyond_all_time_is_no_panic() {
        let counters = S3Counters::default();
        let until = Instant::now() + Duration::from_secs(60);
        let busy = |retry_after| RequestError::Busy {
            retry_after,
            may_be_made: false,
        };
        for retry_after in [3600, 1 << 63, u64::MAX] {
            let busy = busy(retry_after);
            assert_eq!(Tries::until(until, &counters).pause_after(&busy), None);
        }
        let pause = Tries::until(until, &counters).pause_after(&busy(1));
        assert_eq!(pause, Some(Duration::from_secs(1)));
    }
}
