//! Which part of a value answers a read, and whether any does: preconditions first, then ranges (RFC 9110, section 13.2.2).
//!
//! Pure, but for the time of day, which is given.

use std::ops::Range;
use std::time::SystemTime;

use hyper::header::HeaderMap;

use crate::http::values::conditional::{
    Current, PreconditionFailed, Preconditions, Verdict, if_range,
};
use crate::http::values::range::{Ranges, ranges};

/// The part of a value that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    Whole,
    Part(Range<u64>),
    Parts(Vec<Range<u64>>),
    /// Nothing: the client has it, under this entity tag.
    NotModified(String),
}

/// Why nothing of the value is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSelection {
    Precondition,
    /// No range lies within its `len` bytes.
    Unsatisfiable {
        len: u64,
    },
}

impl From<PreconditionFailed> for NoSelection {
    fn from(_: PreconditionFailed) -> Self {
        Self::Precondition
    }
}

/// What of the value that is `current`, `len` bytes long, answers a request with these preconditions and with Range and
/// If-Range as they are `wanted`, or why nothing does.
pub fn select(
    preconditions: Option<&Preconditions>,
    wanted: &HeaderMap,
    current: Current<'_>,
    len: u64,
    now: SystemTime,
) -> Result<Selection, NoSelection> {
    let verdict = preconditions.map_or(Verdict::Proceed, |p| p.for_read(Some(current)));
    match verdict {
        Verdict::Failed => return Err(PreconditionFailed.into()),
        Verdict::NotModified(etag) => return Ok(Selection::NotModified(etag.to_owned())),
        Verdict::Proceed => {}
    }
    if wanted.is_empty() || !if_range(wanted, current, now) {
        return Ok(Selection::Whole);
    }
    match ranges(wanted, len) {
        Ranges::Whole => Ok(Selection::Whole),
        Ranges::Single(range) => Ok(Selection::Part(range)),
        Ranges::Multi(ranges) => Ok(Selection::Parts(ranges)),
        Ranges::Unsatisfiable => Err(NoSelection::Unsatisfiable { len }),
    }
}
