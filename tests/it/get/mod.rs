//! Reading values: which bytes are answered, where they come from, and what that costs.

mod cache;
mod cache_control;
mod cached_values;
mod charset;
pub(crate) mod compression;
mod disk_reads;
mod folders;
mod media;
mod ranges;
mod sendfile;
mod snapshots;
mod stored_fields;
mod syscalls;
mod unseen_changes;
mod versions;
