//! Bounds of what the directory keeps: how many bytes, how many values, and for how long.
//!
//! Owns the rules ([`Bound`]) and the [`Account`] of the values that they name. A bound that evicts removes the values that were used
//! longest ago; one that refuses is a quota. What no bound names is counted by none and never evicted. The publisher asks the account
//! before it decides a change, so that no bound is exceeded by more than what is under way. Removes nothing by itself: the publisher makes
//! room for a change, and the keeper of the directory evicts ahead of need and by age.

mod account;
mod count;
mod names;
mod rule;
pub mod uses;
mod victims;

pub use account::{Account, size_of};
pub use names::Value;
pub use rule::{AgeOf, Bound, Full, MIN_AGE, Prefix, Total, named};
pub use uses::Uses;
pub use victims::{FRUITLESS, STEP, Victim};

#[cfg(test)]
mod tests;
