//! Which part of a value answers a read, and whether any does: preconditions first, then ranges (RFC 9110, section 13.2.2).
//!
//! Pure, but for the time of day, which is given.

use std::ops::Range;
use std::time::SystemTime;

use super::conditional::{Current, Verdict, if_range};
use super::operation::Wishes;
use super::range::{Ranges, ranges};
use super::refusal::Refusal;

/// What of the value is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    Whole,
    Part(Range<u64>),
    Parts(Vec<Range<u64>>),
    /// Nothing: the client has it, under this entity tag.
    NotModified(String),
}

/// What of the value that is `current`, `len` bytes long, answers `wishes`, or why nothing does.
pub(super) fn select(
    wishes: &Wishes,
    current: Current<'_>,
    len: u64,
    now: SystemTime,
) -> Result<Selection, Refusal> {
    let verdict = wishes
        .preconditions
        .as_ref()
        .map_or(Verdict::Proceed, |p| p.for_read(Some(current)));
    match verdict {
        Verdict::Failed => return Err(Refusal::Precondition),
        Verdict::NotModified(etag) => return Ok(Selection::NotModified(etag.to_owned())),
        Verdict::Proceed => {}
    }
    if wishes.ranges.is_empty() || !if_range(&wishes.ranges, current, now) {
        return Ok(Selection::Whole);
    }
    match ranges(&wishes.ranges, len) {
        Ranges::Whole => Ok(Selection::Whole),
        Ranges::Single(range) => Ok(Selection::Part(range)),
        Ranges::Multi(ranges) => Ok(Selection::Parts(ranges)),
        Ranges::Unsatisfiable => Err(Refusal::Unsatisfiable { len }),
    }
}
