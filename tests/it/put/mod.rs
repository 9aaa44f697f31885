//! Writing values: how uploads arrive, when they are published, and what is left of one that fails.

mod aborted_uploads;
mod atomicity;
mod digests;
mod disk_errors;
mod durability;
mod large_uploads;
mod publishing;
mod uploads;
