//! Connections to the store: they are counted while they are open, and the socket of a plain one can be lent to the reader of a
//! long answer.
//!
//! hyper reads the head of an answer, and what came with it. From then on a borrower may move the rest past the memory of
//! this process. hyper is told nothing of those bytes, and takes the answer for one that is not at its end: such a
//! connection serves no second request. The borrower and hyper are on one thread.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tower_service::Service;

use crate::transfer::Pipe;

/// What opens such connections.
#[derive(Clone, Debug)]
pub struct Lending {
    pub connector: HttpConnector,
    /// How many there are.
    pub open: Arc<AtomicUsize>,
}

/// A connection, for hyper.
#[derive(Debug)]
pub struct Lender {
    reading: Loan,
    writing: OwnedWriteHalf,
    /// TLS reads all that comes.
    is_plain: bool,
    open: Arc<AtomicUsize>,
}

/// The reading side of a connection, for the reader of an answer.
#[derive(Clone, Debug)]
pub struct Loan(Arc<Mutex<Reading>>);

#[derive(Debug)]
struct Reading {
    half: OwnedReadHalf,
    is_lent: bool,
    /// hyper has passed on all that it has read, and waits for more.
    is_starved: bool,
    /// Waits for that.
    borrower: Option<Waker>,
}

type Opening = Pin<Box<dyn Future<Output = Result<TokioIo<Lender>, BoxError>> + Send>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for Lending {
    type Response = TokioIo<Lender>;
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
            Ok(TokioIo::new(Lender::new(socket, is_plain, open)))
        })
    }
}

impl Lender {
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
            reading: Loan(Arc::new(Mutex::new(reading))),
            writing,
            is_plain,
            open,
        }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Loan {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the bytes that hyper has not read yet from it.
    pub fn borrow(&self) {
        self.lock().is_lent = true;
    }

    /// Whether that has been done.
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

impl Connection for Lender {
    fn connected(&self) -> Connected {
        let connected = self.reading.lock().half.as_ref().connected();
        if self.is_plain {
            connected.extra(self.reading.clone())
        } else {
            connected
        }
    }
}

impl AsyncRead for Lender {
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

impl AsyncWrite for Lender {
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
