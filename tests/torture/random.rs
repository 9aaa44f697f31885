//! Numbers from a seed: what a test draws, so that a run that failed can be drawn again.

use std::env;

pub(crate) use fastrand::Rng as Random;

/// The variable that gives a run its seed.
pub(crate) const SEED: &str = "DATA_SERVER_TORTURE_SEED";

pub(crate) fn one_of<T: Copy>(random: &mut Random, these: &[T]) -> T {
    these[random.usize(..these.len())]
}

/// The numbers of the `n`th input of a run.
pub(crate) fn nth(seed: u64, n: u64) -> Random {
    Random::with_seed(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The seed of this run, said on standard error: the one that was asked for, or a new one.
pub(crate) fn seed(test: &str) -> u64 {
    let asked = env::var(SEED).ok();
    let asked = asked.map(|text| text.parse().expect("DATA_SERVER_TORTURE_SEED is a number"));
    let seed = asked.unwrap_or_else(|| fastrand::u32(..).into());
    eprintln!("{test}: {SEED}={seed}");
    seed
}
