//! Connections to the store: TCP, whose sockets can be lent, and TLS where the endpoint is `https`.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};

use super::lending::Lending;

/// What makes connections.
pub(super) type Connector = HttpsConnector<Lending>;

/// What makes connections, giving each this time to be opened.
pub(super) fn connector(tls: &Arc<ClientConfig>, open_within: Duration) -> Connector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(open_within));
    HttpsConnector::from((Lending(http), Arc::clone(tls)))
}

/// TLS with the certificates of the system and those of the file `ca`; the reason, where there is none.
pub(super) fn tls(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is left out: it is seen when it is needed.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(ca) = ca {
        let unreadable =
            |error: &dyn std::fmt::Display| format!("--s3-ca {}: {error}", ca.display());
        let certificates = CertificateDer::pem_file_iter(ca).map_err(|e| unreadable(&e))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|e| unreadable(&e))?;
            roots.add(certificate).map_err(|e| unreadable(&e))?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}

/// What helps against a certificate that proves nothing, to stand behind the reason.
pub(super) fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // Two issuers of one name are told apart by their signatures.
        if let Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) = error.downcast_ref()
        {
            return Some("; --s3-ca FILE names the certificates that it may be issued by");
        }
        // What an I/O error holds is not what it comes from.
        cause = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(held) => Some(held),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused_and_named() {
        let missing = tls(Some(Path::new("/nonexistent/ca.pem"))).unwrap_err();
        assert!(missing.contains("/nonexistent/ca.pem"), "{missing}");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(
            &file,
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        .unwrap();
        assert!(tls(Some(&file)).is_err());
        assert!(tls(None).is_ok());
    }
}
