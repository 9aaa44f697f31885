//! TLS: with which certificates and which clients, and how both change while the server runs.
//!
//! All that a handshake needs is behind one pointer. [`Tls::reload`] reads the files anew and replaces it whole, or leaves it
//! as it is when something is wrong with a file. All reactors share one key for tickets, so a session that one of them began
//! is resumed by any. There is no TLS in the kernel: a connection encrypts what it sends (`tls_session`).

pub(super) mod certificates;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::tls_session::TlsSession;
pub use certificates::TlsError;
use certificates::{Certificates, read_certificates, self_signed};

use crate::metrics::CERTIFICATE_END;

/// The name of HTTP/2 in a handshake (RFC 9113, section 3.2).
pub(super) const HTTP2: &[u8] = b"h2";

/// The certificates that the server proves itself by.
#[derive(Clone, Debug)]
pub enum Identity {
    /// Pairs of files: a chain of certificates, and its key. The first is shown where none has the name that is asked for.
    Files(Vec<(PathBuf, PathBuf)>),
    /// A certificate of these names, made at the start.
    SelfSigned(Vec<String>),
}

/// The authority of the certificates that clients prove themselves by: they are issued by those of this file.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    /// The file.
    pub file: PathBuf,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

/// The options of TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The certificates that the server proves itself by.
    pub identity: Identity,
    /// The authority of clients, if they prove themselves.
    pub clients: Option<ClientAuthority>,
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
        let current = configure(&options, aws_lc_rs::Ticketer::new()?)?.install();
        Ok(Self {
            options,
            current: RwLock::new(Arc::new(current)),
        })
    }

    /// Reads the files anew; connections that begin from now on use them. Sessions are resumed still.
    pub fn reload(&self) -> Result<(), TlsError> {
        if let Identity::SelfSigned(_) = self.options.identity {
            return Ok(());
        }
        let ticketer = Arc::clone(&self.current().ticketer);
        let next = Arc::new(configure(&self.options, ticketer)?.install());
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    fn current(&self) -> Arc<ServerConfig> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// The server's side of a new connection.
    pub(super) fn accept(&self) -> Result<TlsSession, rustls::Error> {
        TlsSession::new(self.current())
    }
}

/// A configuration that [`configure`] made, before it counts.
struct Configured {
    config: ServerConfig,
    /// The first end of a certificate, in seconds since 1970.
    end: u64,
}

impl Configured {
    fn install(self) -> ServerConfig {
        CERTIFICATE_END.store(self.end, Ordering::Relaxed);
        self.config
    }
}

fn configure(
    options: &TlsOptions,
    ticketer: Arc<dyn ProducesTickets>,
) -> Result<Configured, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let certificates = match &options.identity {
        Identity::Files(pairs) => Certificates::read(pairs, &provider)?,
        Identity::SelfSigned(names) => self_signed(names, &provider)?,
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
    // A session would be resumed without a look at the certificate of its client, which may have ended, or be of an issuer
    // that counts no more.
    if options.clients.is_none() {
        config.ticketer = ticketer;
    }
    // Tickets hold sessions; a table of them would be one lock for all reactors.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Ok(Configured { config, end })
}

fn verifier(
    authority: &ClientAuthority,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let unusable = |why: &dyn std::fmt::Display| TlsError::File {
        file: authority.file.clone(),
        why: why.to_string(),
    };
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(&authority.file)? {
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    let provider = Arc::clone(provider);
    let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    if !authority.is_required {
        verifier = verifier.allow_unauthenticated();
    }
    verifier.build().map_err(|error| unusable(&error))
}
