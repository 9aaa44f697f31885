//! A connection's socket as its users see it: bytes in the clear, whether they are encrypted on the way or not.
//!
//! Without TLS this adds nothing to a [`RawSocket`]. What asks the kernel to move bytes past this process uses that itself,
//! and looks for [`Socket::tls`] first.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use rustix::net::{RecvFlags, recv};
use tokio::io::{Interest, ReadBuf};

use super::raw_socket::{RawSocket, is_again};
use super::tls_session::TlsSession;

/// The socket of one connection.
#[derive(Debug)]
pub(super) struct Socket {
    raw: RawSocket,
    tls: Option<Box<TlsSession>>,
}

impl Socket {
    /// Takes `socket`, which must not block.
    pub(super) fn new(socket: std::net::TcpStream, tls: Option<TlsSession>) -> Self {
        Self {
            raw: RawSocket::new(socket),
            tls: tls.map(Box::new),
        }
    }

    /// The socket itself.
    pub(super) fn raw(&self) -> &RawSocket {
        &self.raw
    }

    /// The TLS of the connection, if it has one.
    pub(super) fn tls(&self) -> Option<&TlsSession> {
        self.tls.as_deref()
    }

    /// Receives into `buf`: how many bytes, 0 at the end of the stream.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        mut buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.tls() {
            None => self.raw.poll_receive(cx, buf),
            Some(tls) => tls.poll_receive(&self.raw, cx, &mut buf),
        }
    }

    /// The same, into memory that need not be set to anything before.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.tls() {
            None => self.raw.poll_read(cx, buf),
            Some(tls) => self.poll_decrypt(tls, cx, buf).map_ok(drop),
        }
    }

    /// Receives what `tls` decrypts.
    pub(super) fn poll_decrypt(
        &self,
        tls: &TlsSession,
        cx: &mut Context<'_>,
        buf: &mut impl BufMut,
    ) -> Poll<io::Result<usize>> {
        tls.poll_receive(&self.raw, cx, buf)
    }

    /// Ready once the client has closed its side and all that it sent has been read; an error when it reset the connection.
    pub(super) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = self.tls() {
            return tls.poll_end(&self.raw, cx);
        }
        loop {
            ready!(self.raw.poll_read_ready(cx))?;
            let peeked = self.raw.try_io(Interest::READABLE, |socket| {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                Ok(recv(socket, &mut [0; 1], flags)?.1)
            });
            match peeked {
                Ok(0) => return Poll::Ready(Ok(())),
                // What is there is left to the next to read.
                Ok(_) => return Poll::Pending,
                Err(error) if is_again(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
