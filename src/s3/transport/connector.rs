//! Connections to the store: TCP, and TLS where the endpoint is `https`. Those that are open are counted.

use std::error::Error;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::client;

/// The connector of plain and encrypted connections.
pub type Connector = HttpsConnector<CountingConnector>;

/// A connector that gives each connection this time to be opened, and a reference to `open`, which counts those that
/// are.
pub fn connector(tls: &Arc<ClientConfig>, open_within: Duration, open: &Arc<()>) -> Connector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(open_within));
    let counting = CountingConnector {
        connector: http,
        open: Arc::downgrade(open),
    };
    HttpsConnector::from((counting, Arc::clone(tls)))
}

/// TLS with the CA certificates of the system and of the file `ca`; else the reason why not.
pub fn tls(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let client = client::tls_client(client::system_roots(), ca);
    let config = client.map_err(|why| match ca {
        Some(_) => format!("--s3-ca {why}"),
        None => why,
    })?;
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Advice against a certificate that proves nothing, to stand behind the reason.
pub fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // Two issuers of one name are told apart by their signatures.
        if let Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer
            | CertificateError::BadSignature
            // Of an authority, and used as that of a server.
            | CertificateError::Other(_),
        )) = error.downcast_ref()
        {
            return Some("; --s3-ca FILE names the certificates that it may be issued by");
        }
        // The error inside an I/O error is not its `source`.
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

/// A connector of TCP that counts the connections that are open.
#[derive(Clone, Debug)]
pub struct CountingConnector {
    connector: HttpConnector,
    open: Weak<()>,
}

/// A connection that is counted while it is open.
#[derive(Debug)]
pub struct CountedStream {
    stream: TokioIo<TcpStream>,
    _open: Option<Arc<()>>,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Service<Uri> for CountingConnector {
    type Response = CountedStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<CountedStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (opening, open) = (self.connector.call(uri), self.open.clone());
        Box::pin(async move {
            let stream = opening.await?;
            Ok(CountedStream {
                stream,
                _open: open.upgrade(),
            })
        })
    }
}

impl Connection for CountedStream {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl Read for CountedStream {
    /// Reads also what the driver has not reported yet. hyper reads before it sends: so no request goes out on a
    /// connection that the store has closed, after which it would be unknown whether a change was made.
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stream.inner().poll_read_ready(cx)?.is_ready() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let mut piece = [0; 512];
        let most = buf.remaining().min(piece.len());
        let received = recv(self.stream.inner(), &mut piece[..most], RecvFlags::DONTWAIT);
        match received {
            Err(Errno::AGAIN) => Poll::Pending,
            received => {
                buf.put_slice(&piece[..received?.1]);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl Write for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
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
