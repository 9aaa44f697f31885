//! Connections to the store: TCP, whose sockets can be lent, and TLS where the endpoint is `https`.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{CertificateError, ClientConfig};

use super::lending::Lending;
use crate::trust;

/// What makes connections.
pub type Connector = HttpsConnector<Lending>;

/// What makes connections, giving each this time to be opened, and counts those that are open.
pub fn connector(
    tls: &Arc<ClientConfig>,
    open_within: Duration,
    open: &Arc<AtomicUsize>,
) -> Connector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(open_within));
    let lending = Lending {
        connector: http,
        open: Arc::clone(open),
    };
    HttpsConnector::from((lending, Arc::clone(tls)))
}

/// TLS with the certificates of the system and those of the file `ca`; the reason, where there is none.
pub fn tls(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = trust::of_system();
    if let Some(ca) = ca {
        trust::add_file(&mut roots, ca).map_err(|why| format!("--s3-ca {why}"))?;
    }
    let config = trust::client().map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}

/// What helps against a certificate that proves nothing, to stand behind the reason.
pub fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
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
        std::fs::write(&file, "no certificate").unwrap();
        assert!(tls(Some(&file)).unwrap_err().contains("no certificate in"));
        assert!(tls(None).is_ok());
    }
}
