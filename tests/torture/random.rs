//! Numbers from a seed: what a test draws, so that a run that failed can be drawn again.

use std::env;
use std::time::UNIX_EPOCH;

use crate::support::prelude::*;

/// The variable that gives a run its seed.
pub(crate) const SEED: &str = "DATA_SERVER_TORTURE_SEED";

/// Splitmix64: seeds that differ by one give unlike rows.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of its own for a part of this run.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.draw())
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    pub(crate) fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("a place")
    }

    pub(crate) fn one_of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.place(these.len())]
    }
}

/// The seed of this run, said on standard error: the one that was asked for, or a new one.
pub(crate) fn seed(test: &str) -> u64 {
    let seed = env::var(SEED).map_or_else(
        |_| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            Random::new(now.expect("a clock").subsec_nanos().into()).draw() >> 32
        },
        |text| text.parse().expect("DATA_SERVER_TORTURE_SEED is a number"),
    );
    eprintln!("{test}: {SEED}={seed}");
    seed
}
