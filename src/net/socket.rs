//! A connection's socket as its users see it: bytes in the clear, whether they are encrypted on the way or not.
//!
//! Without TLS this adds nothing to a [`RawSocket`]. What asks the kernel to move bytes past this process uses that itself,
//! and looks for [`Socket::tls`] first. With TLS, handshakes and whatever else the protocol sends go by themselves, when bytes
//! are waited for. Promises that an end of the stream is told from a connection that was cut (`UnexpectedEof`), and holds no
//! memory while nothing moves.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use rustix::io::pread;
use rustix::net::{RecvFlags, SendFlags, recv};
use rustls::{CommonState, HandshakeKind, ProtocolVersion, ServerConfig};
use tokio::io::{Interest, ReadBuf};

use super::raw_socket::{RawSocket, is_again};
use super::tls::client_certificate;
use super::tls_records::Records;
use crate::http::{ClientCertificate, Piped, Region};
use crate::metrics::Handshake;

/// The most that is encrypted before it is sent, in bytes: for a peer that takes nothing so much is held.
pub(super) const PIECE: usize = 64 << 10;

thread_local! {
    /// Where what is to be encrypted is put together, on its reactor's thread: [`PIECE`] bytes.
    static PLAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The socket of one connection.
#[derive(Debug)]
pub(super) struct Socket {
    /// The socket itself.
    pub(super) raw: RawSocket,
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
            Some(tls) => tls.records().poll_receive(&self.raw, cx, &mut buf),
        }
    }

    /// Receives into memory that need not be set to anything before.
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
        tls.records().poll_receive(&self.raw, cx, buf)
    }

    /// Ready once the client has closed its side and all that it sent has been read; an error when it reset the connection.
    pub(super) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = self.tls() {
            return tls.records().poll_end(&self.raw, cx);
        }
        loop {
            ready!(self.raw.poll_read_ready(cx))?;
            let peeked = self.raw.try_io(Interest::READABLE, |socket| {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                Ok(recv(socket, &mut [0; 1], flags)?.1)
            });
            match peeked {
                Ok(0) => return Poll::Ready(Ok(())),
                // The bytes that are there are left to the next read.
                Ok(_) => return Poll::Pending,
                Err(error) if is_again(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// The TLS of one connection.
pub(super) struct TlsSession(RefCell<Records>);

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The library's connection shows nothing of itself.
        f.debug_struct("TlsSession").finish_non_exhaustive()
    }
}

impl TlsSession {
    /// The server's side of a new connection.
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self(RefCell::new(Records::new(config)?)))
    }

    fn records(&self) -> RefMut<'_, Records> {
        self.0.borrow_mut()
    }

    /// Asks the TLS library about the connection.
    fn ask<T>(&self, about: impl FnOnce(&CommonState) -> T) -> T {
        about(&self.0.borrow().connection)
    }

    /// True when both sides have agreed on this protocol (RFC 7301). Known once the handshake is over.
    pub(super) fn has_agreed_on(&self, protocol: &[u8]) -> bool {
        self.ask(|connection| connection.alpn_protocol() == Some(protocol))
    }

    /// The version that both sides have agreed on.
    pub(super) fn version(&self) -> Option<&'static str> {
        match self.ask(CommonState::protocol_version)? {
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            _ => None,
        }
    }

    /// The certificate of the client, if it showed one. Known once the handshake is over.
    pub(super) fn client_certificate(&self) -> Option<ClientCertificate> {
        self.ask(|connection| Some(client_certificate(connection.peer_certificates()?)))
    }

    /// How the handshake was done, once it is over.
    pub(super) fn handshake(&self) -> Option<Handshake> {
        self.ask(|connection| {
            if connection.is_handshaking() {
                return None;
            }
            Some(match connection.handshake_kind()? {
                HandshakeKind::Resumed => Handshake::Resumed,
                _ => Handshake::Full,
            })
        })
    }

    /// Encrypts up to [`PIECE`] bytes of `bufs`: how many.
    pub(super) fn encrypt(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut filled = bufs.iter().filter(|buf| !buf.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next()) {
            return self.records().encrypt(&only[..only.len().min(PIECE)]);
        }
        self.encrypt_read(PIECE, |plain| {
            let mut len = 0;
            for buf in bufs {
                let part = buf.len().min(plain.len() - len);
                plain[len..len + part].copy_from_slice(&buf[..part]);
                len += part;
            }
            Ok(len)
        })
    }

    /// How many bytes are encrypted that have not been sent.
    pub(super) fn encrypted(&self) -> usize {
        self.0.borrow().encrypted.len()
    }

    /// Encrypts one piece of `region`: how many bytes. Its pages are in memory: the body sees to that.
    pub(super) fn encrypt_region(&self, region: &Region) -> io::Result<usize> {
        self.encrypt_file(region.len, |plain| {
            Ok(pread(&region.file, plain, region.offset)?)
        })
    }

    /// Encrypts one piece of what is `piped`: how many bytes.
    pub(super) fn encrypt_piped(&self, piped: &Piped) -> io::Result<usize> {
        self.encrypt_file(piped.len, |plain| piped.read(plain))
    }

    /// Encrypts what `read` reads, up to `most` bytes and not none: how many.
    fn encrypt_file(
        &self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.encrypt_read(most.min(PIECE), |plain| match read(plain)? {
            0 => Err(cut_short()),
            len => Ok(len),
        })
    }

    /// Encrypts what `read` reads, up to `most` bytes: how many.
    fn encrypt_read(
        &self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        PLAIN.with_borrow_mut(|plain| {
            plain.resize(PIECE, 0);
            let len = read(&mut plain[..most])?;
            self.records().encrypt(&plain[..len])
        })
    }

    /// Sends what the socket takes of what is encrypted: how many bytes.
    pub(super) fn write_to(&self, socket: BorrowedFd<'_>, flags: SendFlags) -> io::Result<usize> {
        self.records().send(socket, flags)
    }

    /// Says that nothing follows, if there is a session to say it in.
    pub(super) fn close(&self) {
        self.records().close();
    }
}

/// The error of a file that ends too early.
pub(super) fn cut_short() -> io::Error {
    let why = "the file was cut short while it was sent";
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}
