//! Who asks, by what proof, and whether that one may.

pub mod asker;
pub mod authorize;
pub mod credentials;
pub mod guard;
pub mod proven;
pub mod signed_link;
