//! Who may do what: subjects, what they prove themselves by, and their rights.
//!
//! Pure but for the files that it is read from and the pointer that a reload replaces. Knows no HTTP: what a request says of
//! its client is a claim here, and what it asks for a [`Right`] on a key.
//!
//! - `rights`: what may be done, and to which keys.
//! - `file`: the file, in TOML, with an htpasswd file beside it.
//! - `policy`: the subjects of one reading of the file.
//! - `link`: signed links.
//! - `passwords`, `failures`: what proving who one is may cost, and how often it may fail.
//! - `current`: the policy that holds now.

mod current;
mod failures;
mod file;
mod link;
mod password_hash;
mod passwords;
mod policy;

pub use current::Access;
pub use failures::{Failures, Source};
pub use file::{BadAccess, SHORTEST_SECRET, parse};
pub use link::{LinkKey, LinkKind, LinkTerms};
pub use password_hash::{BadHash, Credentials, Evidence, PasswordHash, Taken, TokenDigest};
pub use passwords::{Passwords, Unchecked};
pub use policy::{Grant, Policy, Right, RightSet, Rule, Subject};
