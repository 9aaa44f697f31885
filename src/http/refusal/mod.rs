//! Refusals: the reasons, what is answered for each, and what is told of them.

pub mod log;
pub mod not_allowlisted;
pub mod rejection;
pub mod table;
