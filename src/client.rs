//! This process as a client: which certificates it trusts over TLS, and the health check of a server.
//!
//! Promises that a server has the key of the certificate that it shows, whatever is trusted. `data-server health` asks
//! a server for one page, for containers and monitors: one GET over TCP, TLS or a unix socket, whose status decides,
//! within a bounded wait. The engine of S3 trusts by the same roots and opens its connections itself.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::{ServerTrust, add_authorities};

/// The path that is requested when the URL has none.
const PATH: &str = "/-/healthz";

/// Fails with the reason unless `url` is answered 200 within `timeout`; over TLS the server's certificate must satisfy
/// `trust`.
pub fn check_health(url: &str, trust: &Trust, timeout: Duration) -> Result<(), String> {
    answer(url, trust, timeout).map_err(|why| format!("{url}: {}", with_causes(&*why)))
}

/// An error with its causes.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let causes: Vec<_> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

fn answer(url: &str, trust: &Trust, timeout: Duration) -> Result<(), Box<dyn Error>> {
    let target = CheckTarget::new(url)
        .ok_or("give a URL such as http://127.0.0.1:8080/-/healthz, or unix:PATH")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer =
        runtime.block_on(async { tokio::time::timeout(timeout, target.status(trust)).await });
    // A name that is still looked up is left to its thread.
    runtime.shutdown_background();
    let nothing = |_| format!("no answer within {}", humantime::format_duration(timeout));
    match answer.map_err(nothing)?? {
        status if status == "200 OK" => Ok(()),
        status => Err(format!("it answers {status}").into()),
    }
}

/// The URL to check.
#[derive(Debug, PartialEq, Eq)]
enum CheckTarget {
    /// A page over TCP or TLS.
    Tcp(Uri),
    /// The page of health on the unix socket of this path.
    Unix(PathBuf),
}

impl CheckTarget {
    /// The target that `url` names, if it is of use.
    fn new(url: &str) -> Option<Self> {
        if let Some(path) = url.strip_prefix("unix:") {
            return (!path.is_empty()).then(|| Self::Unix(path.into()));
        }
        let uri: Uri = url.parse().ok()?;
        let scheme = uri
            .scheme_str()
            .filter(|it| ["http", "https"].contains(it))?;
        uri.host().filter(|host| !host.is_empty())?;
        if uri.path() != "/" || uri.query().is_some() {
            return Some(Self::Tcp(uri));
        }
        let uri = format!("{scheme}://{}{PATH}", uri.authority()?);
        uri.parse().ok().map(Self::Tcp)
    }

    /// The status of the answer, with its reason.
    async fn status(self, trust: &Trust) -> Result<String, Box<dyn Error>> {
        match self {
            Self::Unix(path) => status(UnixStream::connect(path).await?, "localhost", PATH).await,
            Self::Tcp(uri) => {
                let authority = uri.authority().ok_or("no host")?;
                let host = authority.host().trim_matches(['[', ']']);
                let by_tls = uri.scheme_str() == Some("https");
                let port = authority
                    .port_u16()
                    .unwrap_or(if by_tls { 443 } else { 80 });
                let path = uri.path_and_query().map_or(PATH, |path| path.as_str());
                let stream = TcpStream::connect((host, port)).await?;
                if by_tls {
                    let stream = connect(stream, host, trust).await?;
                    return status(stream, authority.as_str(), path).await;
                }
                status(stream, authority.as_str(), path).await
            }
        }
    }
}

/// The status of the answer to a GET of `path` over `stream`.
async fn status<S>(stream: S, host: &str, path: &str) -> Result<String, Box<dyn Error>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header(HOST, host);
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?);
    Ok(answer.await?.status().to_string())
}

/// Opens a TLS session on `stream` with `host`.
async fn connect(
    stream: TcpStream,
    host: &str,
    trust: &Trust,
) -> Result<TlsStream<TcpStream>, Box<dyn Error>> {
    let name = ServerName::try_from(host.to_owned())?;
    let connector = TlsConnector::from(Arc::new(trust.client_config()?));
    connector.connect(name, stream).await.map_err(explained)
}

/// Adds the options that help against an untrusted certificate.
fn explained(error: io::Error) -> Box<dyn Error> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(rustls::Error::InvalidCertificate(_)) = inner {
        let help =
            "--ca FILE names CA certificates to trust, and --insecure accepts any certificate";
        return format!("{error}; {help}").into();
    }
    error.into()
}

/// Which certificate a server over TLS may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A certificate for the server's name, issued by an authority of the system.
    System,
    /// A certificate for the server's name, issued by an authority in this file or listed in it.
    File(PathBuf),
    /// Any certificate.
    Any,
}

impl Trust {
    /// The configuration of a client of HTTP/1.1 with this trust.
    fn client_config(&self) -> Result<ClientConfig, Box<dyn Error>> {
        let client = match self {
            Trust::System => tls_client(system_roots(), None)?,
            Trust::File(file) => {
                let trusting = tls_client(RootCertStore::empty(), Some(file));
                trusting.map_err(|why| format!("--ca {why}"))?
            }
            Trust::Any => trusting(untrusting_client()?, Vec::new(), None),
        };
        let mut config = client.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// A client that trusts `roots`, the certificates that `file` lists, and those that they issued. Fails with the reason.
pub fn tls_client(
    mut roots: RootCertStore,
    file: Option<&Path>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let client = untrusting_client().map_err(|error| error.to_string())?;
    let Some(file) = file else {
        return Ok(client.with_root_certificates(roots));
    };
    let certificates = add_authorities(file, &mut roots)?;
    let provider = Arc::clone(client.crypto_provider());
    let others = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let others = others.map_err(|error| error.to_string())?;
    Ok(trusting(client, certificates, Some(others)))
}

/// `client`, which trusts these certificates themselves, and others as [`ServerTrust`] does.
fn trusting(
    client: ConfigBuilder<ClientConfig, WantsVerifier>,
    certificates: Vec<CertificateDer<'static>>,
    others: Option<Arc<WebPkiServerVerifier>>,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let trust = ServerTrust {
        certificates,
        others,
        algorithms: client.crypto_provider().signature_verification_algorithms,
    };
    client
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust))
}

/// A client whose trust is still to be configured.
fn untrusting_client() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

/// The certificates of the system, without those that cannot be read: a missing one shows when it is needed.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_is_of_the_page_of_health() {
        let asked = |url| match CheckTarget::new(url)? {
            CheckTarget::Tcp(uri) => Some(uri.to_string()),
            CheckTarget::Unix(path) => Some(format!("the page on {}", path.display())),
        };
        for (url, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/-/healthz"),
            ("http://a/", "http://a/-/healthz"),
            ("http://[::1]:80/-/ready", "http://[::1]:80/-/ready"),
            ("http://a/?prefix=b", "http://a/?prefix=b"),
            ("https://a:8443", "https://a:8443/-/healthz"),
            ("unix:/run/a", "the page on /run/a"),
        ] {
            assert_eq!(asked(url).as_deref(), Some(expected), "{url}");
        }
        for bad in "|a|127.0.0.1:8080|ftp://a|https://|/-/healthz|http://|http://:80".split('|') {
            assert_eq!(asked(bad), None, "{bad}");
        }
    }
}
