//! What is counted, and where.
//!
//! One set of counters per reactor, written by its thread alone and read by anybody: nothing is shared on the way of a
//! request, and whoever wants a sum makes it when it is wanted. Knows no format: [`crate::http`] shows the counts.

mod counter;
mod histogram;
pub mod process;
mod reactor;
mod store;

pub use counter::{Counter, Tally};
pub use histogram::{Histogram, Scale};
pub use reactor::{Accepting, Method, ReactorCounters, STATUSES};
pub use store::{Jobs, StoreCounters};
