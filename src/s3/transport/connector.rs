//! Connections to the store: TCP, and TLS where the endpoint is `https`.
//!
//! The reader of a long answer may splice the rest of its body from the socket of a plain connection, once hyper has passed on what it
//! has read: hyper then waits as if nothing came.

use std::error::Error;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::{CertificateError, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tower_service::Service;

use crate::client;
use crate::transfer::Pipe;

/// The connector of plain and encrypted connections.
pub type Connector = HttpsConnector<SpliceConnector>;

/// A connector that gives each connection this time to be opened, and counts those that are open.
pub fn connector(
    tls: &Arc<ClientConfig>,
    open_within: Duration,
    open: &Arc<AtomicUsize>,
) -> Connector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(open_within));
    let lending = SpliceConnector {
        connector: http,
        open: Arc::clone(open),
    };
    HttpsConnector::from((lending, Arc::clone(tls)))
}

/// TLS with the certificates of the system and those of the file `ca`; the reason, where there is none.
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

/// The connector of connections whose sockets can be borrowed.
#[derive(Clone, Debug)]
pub struct SpliceConnector {
    pub connector: HttpConnector,
    /// Connections that are open.
    pub open: Arc<AtomicUsize>,
}

/// A connection, for hyper.
#[derive(Debug)]
pub struct SpliceConnection {
    reading: SpliceHandle,
    writing: OwnedWriteHalf,
    /// TLS reads all that comes.
    is_plain: bool,
    open: Arc<AtomicUsize>,
}

/// The reading side of a connection, for the reader of an answer.
#[derive(Clone, Debug)]
pub struct SpliceHandle(Arc<Mutex<Reading>>);

#[derive(Debug)]
struct Reading {
    half: OwnedReadHalf,
    is_lent: bool,
    /// hyper has passed on all that it has read, and waits for more.
    is_starved: bool,
    /// The borrower, which waits for `is_starved`.
    borrower: Option<Waker>,
}

type Opening = Pin<Box<dyn Future<Output = Result<TokioIo<SpliceConnection>, BoxError>> + Send>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for SpliceConnector {
    type Response = TokioIo<SpliceConnection>;
    type Error = BoxError;
    type Future = Opening;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Opening {
        let is_plain = uri.scheme() == Some(&Scheme::HTTP);
        let open = Arc::clone(&self.open);
        let opening = self.connector.call(uri);
        Box::pin(async move {
            let socket = opening.await?.into_inner();
            Ok(TokioIo::new(SpliceConnection::new(socket, is_plain, open)))
        })
    }
}

impl SpliceConnection {
    fn new(socket: tokio::net::TcpStream, is_plain: bool, open: Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        let (half, writing) = socket.into_split();
        let reading = Reading {
            half,
            is_lent: false,
            is_starved: false,
            borrower: None,
        };
        Self {
            reading: SpliceHandle(Arc::new(Mutex::new(reading))),
            writing,
            is_plain,
            open,
        }
    }
}

impl Drop for SpliceConnection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SpliceHandle {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the bytes that hyper has not read yet from it.
    pub fn borrow(&self) {
        self.lock().is_lent = true;
    }

    /// True once the connection is borrowed.
    pub fn is_lent(&self) -> bool {
        self.lock().is_lent
    }

    /// Moves up to `most` bytes into `pipe`, which must be empty, once hyper has passed on what it has read: how many, 0 at the
    /// end of the stream.
    pub fn poll_splice(
        &self,
        cx: &mut Context<'_>,
        pipe: &Pipe,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let mut reading = self.lock();
        if !(reading.is_lent && reading.is_starved) {
            reading.borrower = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let socket = reading.half.as_ref();
        loop {
            ready!(socket.poll_read_ready(cx))?;
            match socket.try_io(Interest::READABLE, || pipe.take_from(socket, most)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                moved => return Poll::Ready(moved),
            }
        }
    }
}

impl Connection for SpliceConnection {
    fn connected(&self) -> Connected {
        let connected = self.reading.lock().half.as_ref().connected();
        if self.is_plain {
            connected.extra(self.reading.clone())
        } else {
            connected
        }
    }
}

impl AsyncRead for SpliceConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut reading = self.reading.lock();
        let polled = if reading.is_lent {
            Poll::Pending
        } else {
            Pin::new(&mut reading.half).poll_read(cx, buf)
        };
        reading.is_starved = polled.is_pending();
        if reading.is_starved
            && let Some(borrower) = reading.borrower.take()
        {
            borrower.wake();
        }
        polled
    }
}

impl AsyncWrite for SpliceConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writing).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writing).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writing).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.writing.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writing).poll_write_vectored(cx, bufs)
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
