//! Faults that were found in use, each replayed by a test that failed before it was mended. One file for each area.

mod caching;
mod charset;
mod closing;
mod default_directory;
mod descriptors;
mod directory;
mod file_systems;
mod listings;
mod logs;
mod options;
mod refusals;
mod restores;
mod signals;
mod system_calls;
