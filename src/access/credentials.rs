//! The credentials of subjects: tokens, hashes of passwords, names of certificates, keys of S3; and signed links, which
//! need no other credentials.
//!
//! Passwords are hashed by argon2id, or by bcrypt in files that other programs made. Both take long by design; a hash
//! that would take far more than others do is refused when it is read. A link is a right to one key, or to all below a
//! folder, for a time, that is passed on as a URL: its signature is HMAC-SHA-256 over what the link allows, the key
//! last, so that no two links have one text, and is compared in constant time. No secret is in a `Debug` output, and
//! that of a link key is read from its file here. Knows no URL.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, SystemTime};

use argon2::password_hash::phc;
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::file_error::{self, unreadable};
use crate::sigv4::{Scope, SigningKey};

/// The most memory that a check may take, in KiB.
const MOST_MEMORY: u32 = 256 << 10;

/// The most passes of argon2id over it.
const MOST_PASSES: u32 = 16;

/// The highest cost of bcrypt: each step doubles the time, and this one takes about two seconds.
const HIGHEST_COST: u32 = 15;

/// The longest password that bcrypt hashes whole, in bytes.
const MOST_OF_BCRYPT: usize = 72;

/// The shortest secret of signed links, in bytes.
const SHORTEST_SECRET: usize = 32;

/// The block of SHA-256, in bytes.
const BLOCK: usize = 64;

/// The prefixes of hashes of bcrypt; the three say which program made it, and mean the same.
const BCRYPT: [&str; 3] = ["$2a$", "$2b$", "$2y$"];

/// The hash of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Box<str>);

/// Why a text is no hash that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHash {
    /// The text is of no known kind.
    #[error(
        "no hash of a password: `data-server hash-password` makes one; $argon2id$, $2a$, $2b$ and $2y$ are known"
    )]
    Kind,
    /// The hash is of a known kind, and malformed.
    #[error("a malformed hash of a password")]
    Malformed,
    /// Checking the hash takes too much.
    #[error(
        "a hash that takes too much to check: at most 256 MiB and 16 passes of argon2id, and cost 15 of bcrypt"
    )]
    Expensive,
}

impl PasswordHash {
    /// The hash that `text` is.
    pub fn new(text: &str) -> Result<Self, BadHash> {
        if BCRYPT.iter().any(|start| text.starts_with(start)) {
            let parts: bcrypt::HashParts = text.parse().map_err(|_| BadHash::Malformed)?;
            if parts.get_cost() > HIGHEST_COST {
                return Err(BadHash::Expensive);
            }
        } else if text.starts_with("$argon2id$") {
            let hash = phc::PasswordHash::new(text).map_err(|_| BadHash::Malformed)?;
            let params = Params::try_from(&hash).map_err(|_| BadHash::Malformed)?;
            if hash.salt.is_none() || hash.hash.is_none() {
                return Err(BadHash::Malformed);
            }
            if params.m_cost() > MOST_MEMORY || params.t_cost() > MOST_PASSES {
                return Err(BadHash::Expensive);
            }
        } else {
            return Err(BadHash::Kind);
        }
        Ok(Self(text.into()))
    }

    /// A hash of `password`: argon2id with 19 MiB, two passes and one lane (OWASP's least), and a salt of its own.
    /// `None` where the system has no random bytes.
    pub fn make(password: &[u8]) -> Option<Self> {
        let made = Argon2::default().hash_password(password).ok()?;
        Some(Self(made.to_string().into()))
    }

    /// True where it is the hash of `password`. Takes tens of milliseconds or more of a processor.
    pub fn verify(&self, password: &[u8]) -> bool {
        if self.0.starts_with("$argon2id$") {
            let argon2id = Argon2::default();
            return argon2id.verify_password(password, &*self.0).is_ok();
        }
        // bcrypt reads 72 bytes: longer passwords that begin alike would be one.
        password.len() <= MOST_OF_BCRYPT && bcrypt::verify(password, &self.0).unwrap_or(false)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash").finish_non_exhaustive()
    }
}

/// The longest that a link lasts which the server signs, where its key says nothing: a day.
const LASTS: Duration = Duration::from_secs(24 * 60 * 60);

/// SHA-256 of a token: what is kept of it.
pub type TokenDigest = [u8; 32];

/// The credentials of a subject, and how long each counts.
#[derive(Debug, Default)]
pub struct SubjectCredentials {
    /// Digests of its tokens.
    pub tokens: Vec<TokenDigest>,
    /// The hash of its password.
    pub password: Option<PasswordHash>,
    /// DNS names of its client certificates.
    pub certificates: Vec<String>,
    /// The key that its requests of S3 are signed with.
    pub s3_key: Option<S3Key>,
    /// When it ends.
    pub not_after: Option<SystemTime>,
}

/// The evidence of a client's authentication, without its secrets. It can be checked against other rules later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing was claimed.
    Nothing,
    /// A token.
    Token(TokenDigest),
    /// A password, which was right by this hash.
    Password {
        /// The name of the subject.
        name: Box<str>,
        /// The hash.
        hash: PasswordHash,
    },
    /// A client certificate of this name, in lower case.
    Certificate(Box<str>),
    /// A signature by the key of S3 with this id, and a secret of this digest.
    S3Key {
        /// The id.
        id: Box<str>,
        /// The digest.
        secret: TokenDigest,
    },
    /// The word of a trusted proxy, for the subject of this name.
    Proxy(Box<str>),
}

impl Evidence {
    /// A token. The digest of an attacker's token reveals nothing about the digests of valid ones, so the lookup needs
    /// no constant time.
    pub fn token(token: &[u8]) -> Self {
        Self::Token(Sha256::digest(token).into())
    }
}

/// A key of S3: an id, which requests have in the clear, and the secret that signs them. Both sides derive a key of the
/// day from it, so that it cannot be kept as a digest.
#[derive(Clone)]
pub struct S3Key {
    /// The id.
    pub id: Box<str>,
    secret: Box<str>,
    /// The digest of the secret.
    pub digest: TokenDigest,
}

impl S3Key {
    /// The lengths of ids and of secrets.
    const LENGTHS: [RangeInclusive<usize>; 2] = [3..=128, 16..=128];

    /// The key of this id and this secret, or why they cannot be one.
    pub fn new(id: &str, secret: &str) -> Result<Self, &'static str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let [of_id, of_secret] = Self::LENGTHS;
        if !of_id.contains(&id.len()) || !id.bytes().all(is_plain) {
            return Err("an s3-key has 3 to 128 letters and digits of ASCII, and -_.");
        }
        if !of_secret.contains(&secret.len()) || !secret.bytes().all(|it| it.is_ascii_graphic()) {
            return Err(
                "an s3-secret has 16 to 128 printable characters of ASCII: `data-server new-s3-key` makes one",
            );
        }
        Ok(Self {
            id: id.into(),
            secret: secret.into(),
            digest: Sha256::digest(secret).into(),
        })
    }

    /// The key that signs in `scope`.
    pub fn signing_key(&self, scope: Scope<'_>) -> SigningKey {
        SigningKey::new(&self.secret, scope)
    }

    /// The evidence that a signature by it is.
    pub fn evidence(&self) -> Evidence {
        Evidence::S3Key {
            id: self.id.clone(),
            secret: self.digest,
        }
    }
}

impl fmt::Debug for S3Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Key").finish_non_exhaustive()
    }
}

/// The request that a link allows, by the method in its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Read the value (GET, HEAD); of a folder, also list it.
    Read,
    /// Store a value where there is none (PUT): so it is of use once, for each key.
    Create,
}

impl LinkKind {
    /// Both, with the methods in their signatures.
    pub const METHODS: [(Self, &'static str); 2] = [(Self::Read, "GET"), (Self::Create, "PUT")];
}

/// The terms of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTerms<'a> {
    /// The request that may be made.
    pub kind: LinkKind,
    /// The key that it is about; or the folder, whose name ends with `/`, or is empty for the root.
    pub key: &'a str,
    /// The end of the link, in seconds since 1970.
    pub expires: u64,
    /// The most of a value that is stored, in bytes.
    pub max: Option<u64>,
}

/// The secret of signed links in the file at `path`, without white space around it, or why there is none.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, String> {
    let bad = |why: &dyn Display| format!("{}: {why}", path.display());
    let secret = file_error::read(path).map_err(|error| bad(&unreadable(path, &error)))?;
    let secret = secret.trim_ascii();
    if secret.len() < SHORTEST_SECRET {
        let why = format!("a secret has {SHORTEST_SECRET} bytes or more");
        return Err(bad(&why));
    }
    Ok(secret.to_vec())
}

/// A key of signed links, for keys that begin with a prefix. It has no `Debug` output, for its secret.
pub struct LinkKey {
    /// The secret that signatures are made with, as HMAC takes it.
    pub secret: Box<[u8]>,
    /// The beginning of the keys.
    pub prefix: Box<str>,
    /// The subject whose rights the links have, if there is one.
    pub subject: Option<Box<str>>,
    /// The longest that a link lasts which the server signs for a client.
    pub lasts: Duration,
}

impl LinkTerms<'_> {
    /// True for a link to all that is below a folder.
    pub fn is_of_folder(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }
}

impl LinkKey {
    /// A key of this secret. Secrets that HMAC takes for one have one text here: it pads a short one with NULs, and has
    /// the digest stand for a long one (RFC 2104, section 2).
    pub fn new(secret: &[u8], prefix: &str, subject: Option<&str>) -> Self {
        let is_long = secret.len() > BLOCK;
        let digest = is_long.then(|| Sha256::digest(secret));
        let mut key = digest.as_ref().map_or(secret, |digest| digest.as_slice());
        while let Some(padded) = key.strip_suffix(&[0]) {
            key = padded;
        }
        Self {
            secret: key.into(),
            prefix: prefix.into(),
            subject: subject.map(Box::from),
            lasts: LASTS,
        }
    }

    /// The signature of a link with these terms, in base64url; `None` if this key signs no links to the key of the
    /// terms.
    pub fn sign(&self, terms: &LinkTerms<'_>) -> Option<String> {
        let signature = self.mac(terms)?.finalize().into_bytes();
        Some(URL_SAFE_NO_PAD.encode(signature))
    }

    /// True where `signature` is the one of a link with these terms.
    pub fn verify(&self, terms: &LinkTerms<'_>, signature: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(signature).ok();
        let verified = signature.zip(self.mac(terms));
        verified.is_some_and(|(signature, mac)| mac.verify_slice(&signature).is_ok())
    }

    fn mac(&self, terms: &LinkTerms<'_>) -> Option<Hmac<Sha256>> {
        let LinkTerms { key, expires, .. } = terms;
        if !key.starts_with(&*self.prefix) {
            return None;
        }
        let (_, method) = LinkKind::METHODS[terms.kind as usize];
        let max = terms.max.map_or_else(String::new, |max| max.to_string());
        let text = format!("data-server-link-1\n{method}\n{expires}\n{max}\n{key}");
        let mac = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        Some(mac.chain_update(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_its_password_alone() {
        let made = PasswordHash::make(b"secret").unwrap();
        let is_right = made.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$");
        assert!(is_right, "{}", made.as_str());
        let bcrypt = bcrypt::hash(b"secret", 4).unwrap();
        for text in [made.as_str(), &bcrypt, &bcrypt.replacen("$2b$", "$2y$", 1)] {
            let hash = PasswordHash::new(text).unwrap();
            assert!(hash.verify(b"secret"), "{text}");
            assert!(!hash.verify(b"Secret"), "{text}");
            assert!(!format!("{hash:?}").contains('$'));
        }
        assert_ne!(PasswordHash::make(b"secret"), Some(made));
    }

    #[test]
    fn a_password_longer_than_bcrypt_reads_is_wrong() {
        let bcrypt = bcrypt::hash([b'x'; 72], 4).unwrap();
        let hash = PasswordHash::new(&bcrypt).unwrap();
        assert!(hash.verify(&[b'x'; 72]));
        assert!(!hash.verify(&[b'x'; 73]));
        assert!(!hash.verify(&[&[b'x'; 72][..], b"other"].concat()));
    }

    #[test]
    fn what_is_no_hash_or_takes_too_long_is_refused() {
        let salt = "c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for (text, why) in [
            ("secret", BadHash::Kind),
            ("$6$salt$hash", BadHash::Kind),
            (
                "$argon2i$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$AAAA",
                BadHash::Kind,
            ),
            ("$argon2id$", BadHash::Malformed),
            ("$argon2id$v=19$m=19456,t=2,p=1", BadHash::Malformed),
            ("$2y$10$short", BadHash::Malformed),
            (
                &format!("$argon2id$v=19$m=1000000,t=2,p=1${salt}"),
                BadHash::Expensive,
            ),
            (
                &format!("$argon2id$v=19$m=19456,t=100,p=1${salt}"),
                BadHash::Expensive,
            ),
            (
                &bcrypt::hash(b"x", 4).unwrap().replacen("$04$", "$20$", 1),
                BadHash::Expensive,
            ),
        ] {
            assert_eq!(PasswordHash::new(text), Err(why), "{text}");
        }
    }

    #[test]
    fn a_signature_is_of_its_terms_and_its_secret_alone() {
        let key = LinkKey::new(&[7; 32], "a/", None);
        let terms = LinkTerms {
            kind: LinkKind::Read,
            key: "a/b",
            expires: 10,
            max: None,
        };
        let signature = key.sign(&terms).unwrap();
        assert!(key.verify(&terms, &signature));
        for other in [
            LinkTerms {
                kind: LinkKind::Create,
                ..terms
            },
            LinkTerms {
                key: "a/c",
                ..terms
            },
            LinkTerms {
                expires: 100,
                ..terms
            },
            LinkTerms {
                max: Some(0),
                ..terms
            },
        ] {
            assert!(!key.verify(&other, &signature), "{other:?}");
        }
        let other = LinkKey::new(&[8; 32], "a/", None);
        assert!(!other.verify(&terms, &signature));
        assert!(!key.verify(&terms, &signature[1..]));
        assert!(!key.verify(&terms, ""));
        assert_eq!(key.sign(&LinkTerms { key: "b", ..terms }), None);
    }
}
