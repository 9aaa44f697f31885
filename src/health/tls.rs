//! The client's side of TLS of a health check, with more or less trust in the server's certificate.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::trust;

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

/// Has `host` prove itself on `stream`.
pub(super) async fn connect(
    stream: TcpStream,
    host: &str,
    trust: &Trust,
) -> Result<TlsStream<TcpStream>, Box<dyn Error>> {
    let name = ServerName::try_from(host.to_owned())?;
    let connector = TlsConnector::from(Arc::new(config(trust)?));
    connector.connect(name, stream).await.map_err(explained)
}

fn config(trust: &Trust) -> Result<ClientConfig, Box<dyn Error>> {
    let client = trust::client()?;
    let client = match trust {
        Trust::System => client.with_root_certificates(trust::of_system()),
        Trust::File(file) => {
            let mut roots = RootCertStore::empty();
            trust::add_file(&mut roots, file).map_err(|why| format!("--ca {why}"))?;
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

/// Says what helps against a certificate that proves nothing.
fn explained(error: io::Error) -> Box<dyn Error> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(rustls::Error::InvalidCertificate(_)) = inner {
        let help = "--ca FILE names what it may be issued by, and --insecure takes any";
        return format!("{error}; {help}").into();
    }
    error.into()
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
