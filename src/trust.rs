//! Trust of this process where it is itself a client of TLS: in the certificates of the system, in those of a file, or in any.
//!
//! Promises that a server has the key of the certificate that it shows, whatever is trusted. Opens no connection.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
};

/// Which certificate a server over TLS may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// One of its name, issued by those of the system.
    System,
    /// One of its name, issued by those of this file, or one that is in it.
    File(PathBuf),
    /// Any.
    Any,
}

impl Trust {
    /// The configuration of a client of HTTP/1.1 with this trust.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, Box<dyn Error>> {
        let client = client()?;
        let client = match self {
            Trust::System => client.with_root_certificates(of_system()),
            Trust::File(file) => {
                let mut roots = RootCertStore::empty();
                add_file(&mut roots, file).map_err(|why| format!("--ca {why}"))?;
                client.with_root_certificates(roots)
            }
            Trust::Any => {
                let algorithms = client.crypto_provider().signature_verification_algorithms;
                let verifier = Arc::new(AnyCertificate(algorithms));
                client
                    .dangerous()
                    .with_custom_certificate_verifier(verifier)
            }
        };
        let mut config = client.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

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

/// Takes any certificate whose key the server has.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
