//! Who asks, by what proof, and whether that one may.

pub mod authorize;
pub mod credentials;
pub mod guard;
