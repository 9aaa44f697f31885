//! The certificates that the server shows: read from files, and chosen by the name that a client asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::InconsistentKeys;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::net::client_certificate::not_after;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{file}: {why}", file = .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why not.
        why: String,
    },
    /// A certificate and a key do not belong together, or the key cannot be used.
    #[error("{certificate} and {key}: {why}", certificate = .certificate.display(), key = .key.display())]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why not.
        why: rustls::Error,
    },
    /// A key is not that of the certificate.
    #[error("the key in {key} does not belong to the certificate in {certificate}", certificate = .certificate.display(), key = .key.display())]
    OtherKey {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The library refuses.
    #[error("TLS: {0}")]
    Library(#[from] rustls::Error),
    /// A certificate cannot be made.
    #[error("--tls-self-signed: {0}")]
    SelfSigned(#[from] rcgen::Error),
}

/// The certificates in `file`, in PEM: at least one.
pub(super) fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(unusable(file, &"there is no certificate in it"))
        }
        read => read.map_err(|error| unusable(file, &error)),
    }
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| match error {
        pem::Error::NoItemsFound => unusable(file, &"there is no private key in it"),
        error => unusable(file, &error),
    })
}

fn unusable(file: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::File {
        file: file.to_owned(),
        why: why.to_string(),
    }
}

/// See the module. Never empty.
#[derive(Debug)]
pub(super) struct Certificates {
    first: Arc<CertifiedKey>,
    others: Vec<Arc<CertifiedKey>>,
}

impl Certificates {
    pub(super) fn one(certificate: CertifiedKey) -> Self {
        Self {
            first: Arc::new(certificate),
            others: Vec::new(),
        }
    }

    /// Reads the `pairs` of files, at least one: certificates, and their key.
    pub(super) fn read(
        pairs: &[(PathBuf, PathBuf)],
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let read = |(certificate, key): &(PathBuf, PathBuf)| {
            let chain = read_certificates(certificate)?;
            let made = CertifiedKey::from_der(chain, read_key(key)?, provider);
            let (certificate, key) = (certificate.clone(), key.clone());
            made.map(Arc::new).map_err(|why| match why {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    TlsError::OtherKey { certificate, key }
                }
                why => TlsError::Pair {
                    certificate,
                    key,
                    why,
                },
            })
        };
        let mut all = pairs
            .iter()
            .map(read)
            .collect::<Result<Vec<_>, _>>()?
            .into_iter();
        let first = all.next();
        Ok(Self {
            first: first.ok_or(rustls::Error::NoCertificatesPresented)?,
            others: all.collect(),
        })
    }

    /// The last second at which all of them are valid, since 1970; 0 where that cannot be read.
    pub(super) fn end(&self) -> u64 {
        let all = std::iter::once(&self.first).chain(&self.others);
        let ends = all.map(|key| key.cert.first().and_then(not_after).unwrap_or(0));
        ends.min().unwrap_or(0)
    }

    /// The first that has this name, else the first of all.
    fn of(&self, name: Option<&str>) -> &Arc<CertifiedKey> {
        let name = name.filter(|_| !self.others.is_empty());
        let Some(name) = name.and_then(|name| ServerName::try_from(name).ok()) else {
            return &self.first;
        };
        let mut all = std::iter::once(&self.first).chain(&self.others);
        all.find(|key| has_name(key, &name)).unwrap_or(&self.first)
    }
}

fn has_name(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let own = key.end_entity_cert().and_then(ParsedCertificate::try_from);
    own.is_ok_and(|own| verify_server_name(&own, name).is_ok())
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.of(hello.server_name())))
    }
}
