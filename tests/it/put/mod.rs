//! Writing values: how uploads arrive, when they are published, and that a failed one leaves nothing.

mod atomicity;
mod content_names;
mod digests;
mod disk_errors;
mod durability;
pub(crate) mod file_systems;
mod folders;
mod form_upload;
mod format;
mod inherited;
mod journal;
mod journal_faults;
mod large_uploads;
mod other_stores;
mod publishing;
mod repositories;
mod uploads;
