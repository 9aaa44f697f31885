//! Numbers from a seed: what a test draws, so that a run that failed can be drawn again.

use std::env;

pub(crate) use fastrand::Rng as Random;

/// The variable that gives a run its seed.
pub(crate) const SEED: &str = "DATA_SERVER_TORTURE_SEED";

pub(crate) fn one_of<T: Copy>(random: &mut Random, these: &[T]) -> T {
    these[random.usize(..these.len())]
}

/// The seed of this run, said on standard error: the one that was asked for, or a new one.
pub(crate) fn seed(test: &str) -> u64 {
    let seed = env::var(SEED).map_or_else(
        |_| fastrand::u32(..).into(),
        |text| text.parse().expect("DATA_SERVER_TORTURE_SEED is a number"),
    );
    eprintln!("{test}: {SEED}={seed}");
    seed
}
