//! The options of the stores that tests open.

use std::time::Duration;

use super::open::{JournalOptions, Options};
use crate::store::write_context::Durability;
use crate::transfer::StagingBounds;

impl Options {
    /// For a small store of a test.
    pub fn small() -> Self {
        Self {
            cache: 0,
            cached_files: 1,
            listing_index: 0,
            compute_threads: 1,
            cpus: None,
            durability: Durability::Os,
            journal: JournalOptions::default(),
            staging: StagingBounds::default(),
            min_free: 0,
            upload_expiry: Duration::ZERO,
            is_text: |_, _| false,
            bounds: Vec::new(),
            evict_existing: false,
        }
    }
}
