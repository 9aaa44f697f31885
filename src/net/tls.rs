//! TLS: with which certificates and which clients, and how both change while the server runs.
//!
//! Owns the certificates that the server shows, read from files and chosen by the name that a client asks for, or made
//! at the start, and says what a verified chain proves of a client. All that a handshake needs is behind one pointer:
//! [`Tls::reload`] reads the files anew and replaces it whole, or leaves it as it is when something is wrong with a
//! file. All reactors share one key for tickets, so a session that one of them began is resumed by any. Encrypts
//! nothing: sockets do that, for there is no TLS in the kernel.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, Der, PrivateKeyDer, ServerName, TrustAnchor};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ProducesTickets, ResolvesServerCert,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use webpki::EndEntityCert;

use crate::certificates::{
    ClientTrust, add_authorities, is_authority, read_certificates, read_key, validity,
};
use crate::http::ClientCertificate;
use crate::metrics::CERTIFICATE_END;

/// An authority that has issued nothing: the library wants one.
const NO_AUTHORITY: TrustAnchor<'static> = TrustAnchor {
    subject: Der::from_slice(b""),
    subject_public_key_info: Der::from_slice(b""),
    name_constraints: None,
};

/// The name of HTTP/2 in a handshake (RFC 9113, section 3.2).
pub(super) const HTTP2: &[u8] = b"h2";

/// The certificates that the server proves itself by.
#[derive(Clone, Debug)]
pub enum ServerCertificates {
    /// Pairs of files: a chain of certificates, and its key. The first is shown where none has the name that is asked
    /// for.
    Files(Vec<(PathBuf, PathBuf)>),
    /// A certificate of these names, made at the start.
    SelfSigned(Vec<String>),
}

/// The CA certificates that client certificates must chain to. A client certificate in the file itself is accepted too.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    /// The file.
    pub file: PathBuf,
    /// A client without a certificate is refused.
    pub is_required: bool,
}

/// The options of TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The certificates that the server proves itself by.
    pub identity: ServerCertificates,
    /// The authority of clients, if they prove themselves.
    pub clients: Option<ClientAuthority>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used, or a key does not belong to a certificate: which, and why.
    #[error("{0}")]
    File(String),
    /// The library refuses.
    #[error("TLS: {0}")]
    Library(#[from] rustls::Error),
    /// A certificate cannot be made.
    #[error("--tls-self-signed: {0}")]
    SelfSigned(#[from] rcgen::Error),
}

/// The TLS of a server.
#[derive(Debug)]
pub struct Tls {
    options: TlsOptions,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads what `options` name.
    pub fn new(options: TlsOptions) -> Result<Self, TlsError> {
        let current = configure(&options, aws_lc_rs::Ticketer::new()?)?;
        Ok(Self {
            options,
            current: RwLock::new(Arc::new(current)),
        })
    }

    /// Reads the files anew; connections that begin from now on use them. Sessions are resumed still.
    pub fn reload(&self) -> Result<(), TlsError> {
        if let ServerCertificates::SelfSigned(_) = self.options.identity {
            return Ok(());
        }
        let ticketer = Arc::clone(&self.current().ticketer);
        let next = Arc::new(configure(&self.options, ticketer)?);
        *self.current.write() = next;
        Ok(())
    }

    /// The configuration of the connections that begin now.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read())
    }
}

/// The configuration of connections that `options` name. It counts from now on.
fn configure(
    options: &TlsOptions,
    ticketer: Arc<dyn ProducesTickets>,
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let certificates = match &options.identity {
        ServerCertificates::Files(pairs) => Certificates::read(pairs, &provider)?,
        ServerCertificates::SelfSigned(names) => self_signed(names, &provider)?,
    };
    let end = certificates.end();
    let clients = match &options.clients {
        Some(authority) => verifier(authority, &provider)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions()?;
    let config = config.with_client_cert_verifier(clients);
    let mut config = config.with_cert_resolver(Arc::new(certificates));
    // A session would be resumed without a look at the certificate of its client, which may have ended, or be of an
    // issuer that counts no more.
    if options.clients.is_none() {
        config.ticketer = ticketer;
    }
    // Tickets hold sessions; a table of them would be one lock for all reactors.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    CERTIFICATE_END.store(end, Ordering::Relaxed);
    Ok(config)
}

fn verifier(
    authority: &ClientAuthority,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let listed = add_authorities(&authority.file, &mut roots).map_err(TlsError::File)?;
    let subjects = roots.subjects();
    // A client whose own certificate is in the file would otherwise issue others, of any name.
    let mut certificates = listed.iter();
    roots
        .roots
        .retain(|_| certificates.next().is_some_and(is_authority));
    if roots.is_empty() {
        roots.roots.push(NO_AUTHORITY);
    }
    let algorithms = provider.signature_verification_algorithms;
    let provider = Arc::clone(provider);
    let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .clear_root_hint_subjects()
        .add_root_hint_subjects(subjects);
    if !authority.is_required {
        verifier = verifier.allow_unauthenticated();
    }
    let others = verifier.build().map_err(|error| {
        let file = authority.file.display();
        TlsError::File(format!("{file}: {error}"))
    })?;
    Ok(Arc::new(ClientTrust {
        certificates: listed,
        others,
        algorithms,
    }))
}

/// The certificates that the server shows: at least one.
#[derive(Debug)]
struct Certificates(Vec<Arc<CertifiedKey>>);

impl Certificates {
    /// Reads the `pairs` of files, at least one: certificates, and their key.
    fn read(pairs: &[(PathBuf, PathBuf)], provider: &CryptoProvider) -> Result<Self, TlsError> {
        let read = |(certificate, key): &(PathBuf, PathBuf)| {
            let chain = read_certificates(certificate).map_err(TlsError::File)?;
            let own = read_key(key).map_err(TlsError::File)?;
            let made = CertifiedKey::from_der(chain, own, provider);
            let (certificate, key) = (certificate.display(), key.display());
            made.map(Arc::new).map_err(|why| {
                TlsError::File(match why {
                    rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
                        "the key in {key} does not belong to the certificate in {certificate}"
                    ),
                    why => format!("{certificate} and {key}: {why}"),
                })
            })
        };
        pairs.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The last second at which all of them are valid, since 1970; 0 where that cannot be read.
    fn end(&self) -> u64 {
        let all = self.0.iter();
        let ends = all.map(|key| key.cert.first().and_then(not_after).unwrap_or(0));
        ends.min().unwrap_or(0)
    }
}

fn has_name(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let own = key.end_entity_cert().and_then(ParsedCertificate::try_from);
    own.is_ok_and(|own| verify_server_name(&own, name).is_ok())
}

impl ResolvesServerCert for Certificates {
    /// The first that has the name which the client asks for, else the first of all.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().filter(|_| self.0.len() > 1);
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let named = name.and_then(|name| self.0.iter().find(|key| has_name(key, &name)));
        named.or(self.0.first()).cloned()
    }
}

/// A certificate of `names`, with a key on the curve P-256.
fn self_signed(names: &[String], provider: &CryptoProvider) -> Result<Certificates, TlsError> {
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
    Ok(Certificates(vec![Arc::new(made)]))
}

/// As other programs write it: `AB:CD:...`.
fn fingerprint(certificate: &[u8]) -> String {
    let digest = Sha256::digest(certificate);
    let bytes: Vec<_> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

/// The client of the verified `chain`: its own certificate, and the issuers' certificates that it sent.
pub(super) fn client_certificate(chain: &[CertificateDer<'_>]) -> ClientCertificate {
    let own = chain.first();
    let own = own.and_then(|own| EndEntityCert::try_from(own).ok());
    let names = own.iter().flat_map(|own| own.valid_dns_names());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    ClientCertificate {
        names: names.map(str::to_owned).collect(),
        end: end(chain, now.unwrap_or_default().as_secs()),
    }
}

/// The last second at which all of `chain` is valid. One of an issuer that has ended before `now` was not needed to
/// verify the chain.
fn end(chain: &[CertificateDer<'_>], now: u64) -> u64 {
    // A certificate that cannot be read has ended: it proves nothing.
    let own = chain.first().and_then(not_after).unwrap_or(0);
    let issuers = chain.iter().skip(1).filter_map(not_after);
    issuers.filter(|&end| end >= now).fold(own, u64::min)
}

/// The last second of this certificate (RFC 5280, section 4.1.2.5), since the epoch.
fn not_after(certificate: &CertificateDer<'_>) -> Option<u64> {
    Some(*validity(certificate)?.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn until(year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        made.der().clone()
    }

    #[test]
    fn a_chain_ends_with_the_first_of_its_certificates_that_has_not_ended_yet() {
        let [past, soon, late] = [2020, 2030, 2100].map(until);
        let second = |year| u64::try_from(date_time_ymd(year, 1, 1).unix_timestamp()).unwrap();
        let now = second(2025);
        let end = |chain: &[&CertificateDer<'static>]| {
            let chain: Vec<_> = chain.iter().map(|&one| one.clone()).collect();
            super::end(&chain, now)
        };
        assert_eq!(end(&[&late]), second(2100));
        assert_eq!(end(&[&soon, &late]), second(2030));
        assert_eq!(end(&[&late, &soon]), second(2030));
        assert_eq!(end(&[&late, &past]), second(2100), "not needed");
        assert_eq!(end(&[&CertificateDer::from(vec![1, 2])]), 0, "unreadable");
        assert_eq!(*client_certificate(&[late]).names, ["a.example"]);
    }
}
