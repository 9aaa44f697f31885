//! How much the check tries.

/// How often each thing is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth {
    /// Races of creations, and as many of swaps.
    pub(super) races: u32,
    /// Races of removals against swaps.
    pub(super) removals: u32,
    /// Uploads that are cut off.
    pub(super) cuts: u32,
    /// Keys in a listing, beside those of which the order is the question.
    pub(super) listed: u32,
    /// Writes through each endpoint that are read through the others, and races through all of them.
    pub(super) across: u32,
    /// Whether conditions are of interest at all.
    pub(super) conditions: bool,
}

/// For the start of a server: about a second.
pub(super) const SHORT: Depth = Depth {
    races: 16,
    removals: 64,
    cuts: 2,
    listed: 0,
    across: 0,
    conditions: true,
};

/// For `check-store`: some seconds.
pub(super) const LONG: Depth = Depth {
    races: 300,
    removals: 300,
    cuts: 15,
    // More than a store lists at once.
    listed: 1100,
    across: 100,
    conditions: true,
};
