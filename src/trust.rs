//! What this process trusts where it is itself a client of TLS: the certificates of the system, or those of a file.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

/// A client that is to be told yet what it trusts.
pub(crate) fn client() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

/// The certificates of the system. One that cannot be read is left out: it is seen when it is needed.
pub(crate) fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Adds those of `file`, in PEM: at least one. Fails with the reason.
pub(crate) fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    let unusable = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| unusable(&e))? {
        let certificate = certificate.map_err(|e| unusable(&e))?;
        roots.add(certificate).map_err(|e| unusable(&e))?;
    }
    if roots.len() == before {
        return Err(unusable(&"there is no certificate in it"));
    }
    Ok(())
}
