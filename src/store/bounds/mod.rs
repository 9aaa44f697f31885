//! Bounds of what the directory keeps: how many bytes, how many values, and for how long.
//!
//! Owns the rules ([`Bound`]), the [`Account`] of the values that they name, and who goes to make room for others.
//! A bound that evicts removes the values that were used longest ago; one that refuses is a quota. What no bound names
//! is counted by none and never evicted. The publisher has each change admitted before it makes it, so that no bound is
//! exceeded. Removes nothing by itself: the publisher makes room for a change, and the keeper of the directory evicts
//! ahead of need and by age.

mod account;
mod admission;
mod count;
mod eviction;
mod ledger;
mod names;
mod order;
mod room;
mod rule;
mod staging;
mod together;
pub mod uses;
mod value;
mod victim;

pub use account::{Account, Figures, size_of};
pub use admission::{Ask, RoomReservation};
pub use order::STEP;
pub use room::Choice;
pub use rule::{AgeOf, Bound, Full, MIN_AGE, Prefix, Total, millis, named};
pub use staging::Staging;
pub use together::Together;
pub use uses::Uses;
pub use value::{Known, Value};
pub use victim::Victim;

#[cfg(test)]
mod tests;
