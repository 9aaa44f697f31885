//! Who may do what: subjects, what they prove themselves by, and their rights.
//!
//! Pure but for the file that it is read from and the pointer that a reload replaces. Knows no HTTP: what a request says of
//! its client is a claim here, and what it asks for a [`Right`] on a key.
//!
//! - `rights`: what may be done, and to which keys.
//! - `policy`: the subjects of one reading of the file.
//! - `current`: the policy that holds now.

mod current;
mod policy;
mod rights;

pub use current::Access;
pub use policy::{Policy, Rule, Subject, TokenDigest};
pub use rights::{Grant, Right, RightSet};
