//! Faults that were found in use. A test replays each one, and failed before the fix. One file for each area.

mod administrators;
mod caching;
mod charset;
mod closing;
mod containers;
mod descriptors;
mod directory;
pub(crate) mod file_systems;
mod listings;
mod logs;
mod options;
mod other_stores;
mod refusals;
mod requests;
mod restores;
mod slow_clients;
mod unseen_changes;
mod versions;
