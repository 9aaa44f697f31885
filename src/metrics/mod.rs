//! The counters, and where they are.
//!
//! One set of counters per reactor, written by its thread alone and read by anybody: nothing is shared on the way of a
//! request, and a sum is made when a reader asks for it. Knows no format: [`crate::http`] shows the counts.

mod access;
mod counter;
pub mod process;
mod reactor;
mod store;

use std::sync::atomic::{AtomicBool, AtomicU64};

pub use access::{AccessCounters, AuthResult};
pub use counter::{Counter, Histogram, Scale, SharedCounter};
pub use reactor::{Direction, Handshake, Method, ReactorCounters, STATUSES, TimeLimit};
pub use store::{Jobs, Listings, S3Counters, StoreCounters, StoreOperation};

/// Whether the last rereading of files failed, so that what was there before still counts.
pub static LAST_RELOAD_FAILED: AtomicBool = AtomicBool::new(false);

/// The end of the server's certificate that ends first, in seconds since 1970; 0 where there is none.
pub static CERTIFICATE_END: AtomicU64 = AtomicU64::new(0);

/// Lines of the log that were lost: there was no room for them, or standard error refused them.
pub static LOG_LINES_LOST: SharedCounter = SharedCounter::new();
