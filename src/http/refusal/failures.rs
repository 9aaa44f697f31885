//! The one way from an error of the store to a refusal.

use hyper::StatusCode;
use hyper::header::RETRY_AFTER;

use crate::http::refusal::Refusal;
use crate::http::refusal::common::{BAD_KEY, CUT_OFF, NO_SUCH_FOLDER, PRECONDITION};
use crate::http::refusal::kind::{Flag, Kind};
use crate::store::Error;

const NO_SPACE: &Kind = &Kind::new(StatusCode::INSUFFICIENT_STORAGE, "no-space");
const READ_ONLY: &Kind = &Kind::new(StatusCode::INSUFFICIENT_STORAGE, "file-system-read-only");
const EXHAUSTED: &Kind = &Kind::new(StatusCode::SERVICE_UNAVAILABLE, "exhausted");
const DISPLACED: &Kind = &Kind::new(StatusCode::SERVICE_UNAVAILABLE, "directory-displaced");
const UNREACHABLE: &Kind = &Kind::new(StatusCode::SERVICE_UNAVAILABLE, "store-unreachable");
const BUSY: &Kind = &Kind::new(StatusCode::SERVICE_UNAVAILABLE, "store-busy");
pub const NAME_TAKEN: &Kind = &Kind::new(StatusCode::METHOD_NOT_ALLOWED, "name-taken");
const NO_PARENT: &Kind = &Kind::new(StatusCode::CONFLICT, "no-parent");
const OCCUPIED: &Kind = &Kind::new(StatusCode::CONFLICT, "occupied");
const HALF_MOVED: &Kind =
    &Kind::new(StatusCode::CONFLICT, "half-moved").flags(&[Flag::OfUnknownResult]);
const FORBIDDEN: &Kind = &Kind::new(StatusCode::FORBIDDEN, "forbidden")
    .compat(&Kind::new(StatusCode::INTERNAL_SERVER_ERROR, "forbidden"));
const FAILED: &Kind = &Kind::new(StatusCode::INTERNAL_SERVER_ERROR, "store-failed");
const REFUSED: &Kind = &Kind::new(StatusCode::INTERNAL_SERVER_ERROR, "store-refused");
const TIMED_OUT: &Kind = &Kind::new(StatusCode::GATEWAY_TIMEOUT, "store-timeout");
const LATE_OUTCOME: &Kind =
    &Kind::new(StatusCode::GATEWAY_TIMEOUT, "outcome-unknown").flags(&[Flag::OfUnknownResult]);
const UNKNOWN_OUTCOME: &Kind =
    &Kind::new(StatusCode::BAD_GATEWAY, "outcome-unknown").flags(&[Flag::OfUnknownResult]);
const BAD_GATEWAY: &Kind = &Kind::new(StatusCode::BAD_GATEWAY, "store-failed");
/// The error has the name.
const NOT_SUPPORTED: &Kind = &Kind::new(StatusCode::NOT_IMPLEMENTED, "");

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Incomplete => CUT_OFF,
            Error::Precondition => PRECONDITION,
            Error::NoFolder => NO_SUCH_FOLDER,
            error => of_failure(error),
        }
    }
}

#[cold]
fn of_failure(error: Error) -> Refusal {
    let kind = kind_of(&error);
    let mut refusal = kind.because(error.to_string());
    if kind.status == BUSY.status {
        refusal = refusal.with(RETRY_AFTER, error.retry_after().into());
    }
    refusal.more().cause = Some(error);
    refusal
}

fn kind_of(error: &Error) -> &'static Kind {
    match error {
        Error::NoSpace { .. } | Error::TooLarge => NO_SPACE,
        Error::ReadOnly => READ_ONLY,
        Error::Exhausted { .. } | Error::Counting { .. } => EXHAUSTED,
        Error::Displaced { .. } => DISPLACED,
        Error::Unreachable { .. } => UNREACHABLE,
        Error::Busy { .. } => BUSY,
        Error::Precondition => PRECONDITION.kind,
        Error::NameTaken(_) | Error::FolderKept => NAME_TAKEN,
        Error::NoParent(_) => NO_PARENT,
        Error::NoFolder => NO_SUCH_FOLDER.kind,
        Error::Occupied(_) => OCCUPIED,
        Error::HalfMoved(..) => HALF_MOVED,
        Error::Unsynced(why) => kind_of(why),
        Error::Incomplete => CUT_OFF.kind,
        Error::Forbidden { .. } => FORBIDDEN,
        Error::Truncated | Error::Failed { .. } => FAILED,
        Error::Refused { .. } => REFUSED,
        Error::TimedOut => TIMED_OUT,
        Error::OutcomeUnknown { is_late: true } => LATE_OUTCOME,
        Error::OutcomeUnknown { is_late: false } => UNKNOWN_OUTCOME,
        Error::BadGateway { .. } => BAD_GATEWAY,
        Error::NotSupported { .. } => NOT_SUPPORTED,
        Error::BadKey(_) => BAD_KEY,
    }
}
