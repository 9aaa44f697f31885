//! A certificate that proves nothing but itself, for trying TLS out: made at the start, and never stored.
//!
//! A client can compare its fingerprint, which the log has.

use std::fmt::Write as _;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};

use super::certificates::{Certificates, TlsError};

/// A certificate of `names`, with a key on the curve P-256.
pub(super) fn certificate(
    names: &[String],
    provider: &CryptoProvider,
) -> Result<Certificates, TlsError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "data-server, self-signed");
    let certificate = params.self_signed(&key)?.der().clone();
    let sha256 = fingerprint(&certificate);
    tracing::warn!(sha256, names = names.join(", "), "self-signed certificate");
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let made = CertifiedKey::from_der(vec![certificate], key, provider)?;
    Ok(Certificates::one(made))
}

/// As other programs write it: `AB:CD:...`.
fn fingerprint(certificate: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(certificate) {
        let colon = if text.is_empty() { "" } else { ":" };
        let _ = write!(text, "{colon}{byte:02X}");
    }
    text
}
