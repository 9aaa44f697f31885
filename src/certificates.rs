//! Certificates and keys in PEM files, and trust in a certificate that such a file lists itself.
//!
//! Promises that an error says what is wrong with the file and what helps. A listed certificate is trusted also where
//! it is that of an authority, as `openssl req -x509` makes it: while its dates hold, and as a server's for the names
//! in it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use x509_cert::certificate::{CertificateInner, Raw, Version};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::BasicConstraints;

use crate::file_error::{self, unreadable};

type CertificateChain = Vec<CertificateDer<'static>>;

/// The certificates in `file`: at least one. Fails with the reason.
pub fn read_certificates(file: &Path) -> Result<CertificateChain, String> {
    let read: Result<CertificateChain, _> = CertificateDer::pem_slice_iter(&read(file)?).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(unusable(file, "there is no certificate in it"))
        }
        read => read.map_err(|error| unusable(file, error)),
    }
}

/// The certificates in `file`, which are added to `roots`: they issue others. Fails with the reason.
pub fn add_authorities(file: &Path, roots: &mut RootCertStore) -> Result<CertificateChain, String> {
    let certificates = read_certificates(file)?;
    for certificate in &certificates {
        let added = roots.add(certificate.clone());
        added.map_err(|error| unusable(file, error))?;
    }
    Ok(certificates)
}

/// The first private key in `file`. Fails with the reason.
pub fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        _ if memchr::memmem::find(&text, b"ENCRYPTED").is_some() => {
            let name = file.display();
            let help = format!("`openssl pkey -in {name} -out NEW` decrypts it");
            unusable(file, format!("the key is encrypted; {help}"))
        }
        pem::Error::NoItemsFound => unusable(file, "there is no private key in it"),
        error => unusable(file, error),
    })
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    file_error::read(file).map_err(|error| unusable(file, unreadable(file, &error)))
}

fn unusable(file: &Path, why: impl Display) -> String {
    format!("{}: {why}", file.display())
}

/// The seconds since 1970 at which `certificate` is valid; `None` where it cannot be read.
pub fn validity(certificate: &CertificateDer<'_>) -> Option<RangeInclusive<u64>> {
    let read = CertificateInner::<Raw>::from_der(certificate).ok()?;
    let validity = read.tbs_certificate().validity();
    let [from, until] = [validity.not_before, validity.not_after];
    Some(from.to_unix_duration().as_secs()..=until.to_unix_duration().as_secs())
}

/// True where `certificate` may issue others (RFC 5280, section 4.2.1.9). One of version 1 cannot say so.
pub fn is_authority(certificate: &CertificateDer<'_>) -> bool {
    CertificateInner::<Raw>::from_der(certificate).is_ok_and(|read| {
        let own = read.tbs_certificate();
        let said = own.get_extension::<BasicConstraints>();
        own.version() == Version::V1 || matches!(said, Ok(Some((_, said))) if said.ca)
    })
}

/// The trust in servers: in the `certificates` themselves, and of all others in those that `others` trusts.
#[derive(Debug)]
pub struct ServerTrust {
    /// The certificates that are trusted whatever they may be used for.
    pub certificates: CertificateChain,
    /// The verifier of all others; without one, each is trusted.
    pub others: Option<Arc<WebPkiServerVerifier>>,
    /// The algorithms by which a server signs that it has the key.
    pub algorithms: WebPkiSupportedAlgorithms,
}

/// The trust in clients: in the `certificates` themselves, and of all others in those that `others` trusts.
#[derive(Debug)]
pub struct ClientTrust {
    /// The certificates that are trusted whatever they may be used for.
    pub certificates: CertificateChain,
    /// The verifier of all others.
    pub others: Arc<dyn ClientCertVerifier>,
    /// The algorithms by which a client signs that it has the key.
    pub algorithms: WebPkiSupportedAlgorithms,
}

fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let valid = validity(certificate).ok_or(CertificateError::BadEncoding)?;
    match now.as_secs() {
        now if now < *valid.start() => Err(CertificateError::NotValidYet.into()),
        now if now > *valid.end() => Err(CertificateError::Expired.into()),
        _ => Ok(()),
    }
}

/// The proof that the other side has the key of the certificate that it shows: the same for servers and clients.
macro_rules! verify_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            shown: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, shown, signature, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            shown: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, shown, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for ServerTrust {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.contains(shown) {
            check_dates(shown, now)?;
            verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        } else if let Some(others) = &self.others {
            return others.verify_server_cert(shown, intermediates, name, ocsp, now);
        }
        Ok(ServerCertVerified::assertion())
    }

    verify_signatures!();
}

impl ClientCertVerifier for ClientTrust {
    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if !self.certificates.contains(shown) {
            return self.others.verify_client_cert(shown, intermediates, now);
        }
        check_dates(shown, now)?;
        Ok(ClientCertVerified::assertion())
    }

    verify_signatures!();

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.others.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.others.client_auth_mandatory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    use rustls::crypto::aws_lc_rs;
    use rustls::server::WebPkiClientVerifier;

    #[test]
    fn a_listed_authority_is_trusted_while_its_dates_hold() {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 1);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let shown = made.der();
        let mut roots = RootCertStore::empty();
        roots.add(shown.clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let others = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let others: Arc<dyn ClientCertVerifier> = others.build().unwrap();
        let verify = |listed: &[CertificateDer<'static>], year| {
            let verifier = ClientTrust {
                certificates: listed.to_vec(),
                others: Arc::clone(&others),
                algorithms: aws_lc_rs::default_provider().signature_verification_algorithms,
            };
            let second = date_time_ymd(year, 6, 1).unix_timestamp().unsigned_abs();
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(second));
            let outcome = verifier.verify_client_cert(shown, &[], now);
            outcome.map(drop).map_err(|error| error.to_string())
        };
        let listed = std::slice::from_ref(shown);
        assert_eq!(verify(listed, 2025), Ok(()));
        for (listed, year, why) in [
            (listed, 2030, "Expired"),
            (listed, 2019, "NotValidYet"),
            (&[], 2025, "CaUsedAsEndEntity"),
        ] {
            let error = verify(listed, year).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
