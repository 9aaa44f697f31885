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
mod evidence;
mod failures;
mod file;
mod htpasswd;
mod link;
mod password_hash;
mod passwords;
mod policy;
mod rights;
mod source;

pub use current::Access;
pub use evidence::{Credentials, Evidence, Taken, TokenDigest};
pub use failures::Failures;
pub use file::{BadAccess, SHORTEST_SECRET, parse};
pub use link::{LinkKey, LinkKind, LinkTerms};
pub use password_hash::{BadHash, PasswordHash};
pub use passwords::{Passwords, Unchecked};
pub use policy::{Policy, Rule, Subject};
pub use rights::{Grant, Right, RightSet};
pub use source::Source;
