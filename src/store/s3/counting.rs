//! Counts the connections that are open: each from its opening until it is dropped, by hyper or its pool. With the answers
//! of a plain one comes what its reader can borrow.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::lending::Lender;

/// What makes connections with `C`, and counts them.
#[derive(Clone, Debug)]
pub(super) struct Counting<C> {
    connector: C,
    open: Arc<AtomicUsize>,
}

/// A connection that is counted.
#[derive(Debug)]
pub(super) struct Counted<T> {
    connection: T,
    open: Arc<AtomicUsize>,
}

/// A connection that is being opened.
#[derive(Debug)]
pub(super) struct Opening<F> {
    opening: F,
    open: Arc<AtomicUsize>,
}

impl<C> Counting<C> {
    pub(super) fn new(connector: C, open: &Arc<AtomicUsize>) -> Self {
        let open = Arc::clone(open);
        Self { connector, open }
    }
}

impl<C: Service<Uri, Future: Unpin>> Service<Uri> for Counting<C> {
    type Response = Counted<C::Response>;
    type Error = C::Error;
    type Future = Opening<C::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Opening {
            opening: self.connector.call(uri),
            open: Arc::clone(&self.open),
        }
    }
}

impl<T, E, F: Future<Output = Result<T, E>> + Unpin> Future for Opening<F> {
    type Output = Result<Counted<T>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let connection = ready!(Pin::new(&mut self.opening).poll(cx))?;
        self.open.fetch_add(1, Ordering::Relaxed);
        let open = Arc::clone(&self.open);
        Poll::Ready(Ok(Counted { connection, open }))
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection for Counted<MaybeHttpsStream<TokioIo<Lender>>> {
    fn connected(&self) -> Connected {
        let connected = self.connection.connected();
        match &self.connection {
            MaybeHttpsStream::Http(plain) => connected.extra(plain.inner().loan()),
            MaybeHttpsStream::Https(_) => connected,
        }
    }
}

impl<T: Read + Unpin> Read for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, bufs)
    }
}
