//! Signed links: a right to one key, for a time, that is passed on as a URL.
//!
//! A signature is HMAC-SHA-256 over what the link allows, the key last, so that no two links have one text. It is compared in
//! constant time. Knows no URL.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The request that a link lets its bearer make, by the method that stands in the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Read the value (GET, HEAD).
    Read,
    /// Store a value where there is none (PUT): so it is of use once.
    Create,
}

/// The terms of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTerms<'a> {
    /// The request that may be made.
    pub kind: LinkKind,
    /// With which key.
    pub key: &'a str,
    /// Until when, in seconds since 1970.
    pub expires: u64,
    /// The most of a value that is stored, in bytes.
    pub max: Option<u64>,
}

/// A key of signed links, for keys that begin with a prefix.
pub struct LinkKey {
    /// The secret that signatures are made with.
    pub secret: Box<[u8]>,
    /// The beginning of the keys.
    pub prefix: Box<str>,
    /// The subject whose right it takes, if it is one's.
    pub subject: Option<Box<str>>,
}

impl LinkKey {
    /// Of this secret.
    pub fn new(secret: &[u8], prefix: &str, subject: Option<&str>) -> Self {
        Self {
            secret: secret.into(),
            prefix: prefix.into(),
            subject: subject.map(Box::from),
        }
    }

    /// The signature of a link with these terms, in base64url; `None` where they are not those of a link of this key.
    pub fn sign(&self, terms: &LinkTerms<'_>) -> Option<String> {
        let signature = self.mac(terms)?.finalize().into_bytes();
        Some(URL_SAFE_NO_PAD.encode(signature))
    }

    /// Whether `signature` is that of a link with these terms.
    pub fn verify(&self, terms: &LinkTerms<'_>, signature: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(signature).ok();
        let verified = signature.zip(self.mac(terms));
        verified.is_some_and(|(signature, mac)| mac.verify_slice(&signature).is_ok())
    }

    fn mac(&self, terms: &LinkTerms<'_>) -> Option<Hmac<Sha256>> {
        let LinkTerms {
            kind,
            key,
            expires,
            max,
        } = terms;
        if !key.starts_with(&*self.prefix) {
            return None;
        }
        let method = match kind {
            LinkKind::Read => "GET",
            LinkKind::Create => "PUT",
        };
        let max = max.map_or_else(String::new, |max| max.to_string());
        let text = format!("data-server-link-1\n{method}\n{expires}\n{max}\n{key}");
        let mac = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        Some(mac.chain_update(text))
    }
}

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
