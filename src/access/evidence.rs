//! What proves a subject: as the file gives it, and as a client shows it.

use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::password_hash::PasswordHash;

/// SHA-256 of a token: what is kept of it.
pub type TokenDigest = [u8; 32];

/// What proves a subject, and for how long.
#[derive(Debug, Default)]
pub struct Credentials {
    /// Digests of its tokens.
    pub tokens: Vec<TokenDigest>,
    /// The hash of its password.
    pub password: Option<PasswordHash>,
    /// DNS names of its client certificates.
    pub certificates: Vec<String>,
    /// When it ends.
    pub not_after: Option<SystemTime>,
}

/// What a client proved who it is by. It can be held against other rules later, without what was secret in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing was claimed.
    Nothing,
    /// A token.
    Token(TokenDigest),
    /// A password, which was right by this hash.
    Password {
        /// Of the subject of this name.
        name: Box<str>,
        /// The hash.
        hash: PasswordHash,
    },
    /// A client certificate of this name, in lower case.
    Certificate(Box<str>),
}

impl Evidence {
    /// A token. The digest of what an attacker sends tells nothing of the one that it is looked up among, so looking it up
    /// needs no constant time.
    pub fn token(token: &[u8]) -> Self {
        Self::Token(Sha256::digest(token).into())
    }
}

/// What is another subject's already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Taken(pub(super) &'static str);
