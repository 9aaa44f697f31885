//! How much the check tries.

/// How often each thing is tried.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Races of creations, and as many of swaps.
    pub races: u32,
    /// Races of removals against swaps.
    pub removals: u32,
    /// Uploads that are cut off.
    pub cuts: u32,
    /// Looks at what they left.
    pub looks: u32,
    /// Keys in a listing, beside those of which the order is the question.
    pub listed: u32,
    /// Writes through each endpoint that are read through the others, and races through all of them.
    pub across: u32,
    /// Whether conditions are of interest at all.
    pub conditions: bool,
}

/// For the start of a server: about a second.
pub fn at_start() -> Depth {
    let (races, cuts, looks) = (1, 1, 1);
    told().map_or(SHORT, |removals| Depth {
        races,
        removals,
        cuts,
        looks,
        ..SHORT
    })
}

/// For `check-store`: some seconds.
pub fn at_length() -> Depth {
    let (races, cuts, across) = (20, 3, 10);
    told().map_or(LONG, |removals| Depth {
        races,
        removals,
        cuts,
        across,
        ..LONG
    })
}

/// In a debug build, how many races of removals there are where `DATA_SERVER_TRIAL` says so: then little else is tried. The tests
/// try a store some hundred times, and in full where they ask for that.
fn told() -> Option<u32> {
    let told = std::env::var("DATA_SERVER_TRIAL").ok();
    told.filter(|_| cfg!(debug_assertions))?.parse().ok()
}

const SHORT: Depth = Depth {
    races: 16,
    removals: 64,
    cuts: 2,
    looks: 3,
    listed: 0,
    across: 0,
    conditions: true,
};

const LONG: Depth = Depth {
    races: 300,
    removals: 300,
    cuts: 15,
    looks: 3,
    // More than a store lists at once.
    listed: 1100,
    across: 100,
    conditions: true,
};
