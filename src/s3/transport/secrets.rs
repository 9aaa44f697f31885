//! What requests are signed with. It never shows its contents.

use std::fmt;
use std::time::SystemTime;

/// What requests are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    /// The name of the key, which is no secret.
    pub id: String,
    /// The key.
    pub secret: String,
    /// What goes with a key that is valid for some hours only.
    pub token: Option<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// What a place gives: secrets, and when they end.
pub struct Renewed {
    pub secrets: Secrets,
    pub expires: Option<SystemTime>,
}
