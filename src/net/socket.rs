//! A connection's socket as its users see it: bytes in the clear, whether they are encrypted on the way or not.
//!
//! Without TLS this adds nothing to a [`RawSocket`]. Code that has the kernel move bytes past this process uses the raw
//! socket, after it has found no [`Socket::tls`]. With TLS, rustls has the session: a call that waits for bytes also
//! sends the messages of the handshake, tickets and alerts. Promises that a connection which was cut (`UnexpectedEof`)
//! is told from the end of its stream. A session that moves nothing holds no piece, and of the library's buffers the
//! shortest.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes};
use rustix::io::pread;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use rustls::{HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, Interest, ReadBuf};

use super::raw_socket::{RawSocket, is_again};
use super::tls::client_certificate;
use crate::http::{ClientCertificate, Connection, Exchange, Region};
use crate::metrics::{Handshake, ReactorCounters};

/// The most that is received at once, and that is encrypted before it is sent, in bytes: for a peer that takes nothing
/// so much is held. The library's own limit is the same.
const PIECE: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The socket of one connection.
#[derive(Debug)]
pub(super) struct Socket {
    /// The socket itself.
    pub(super) raw: RawSocket,
    tls: Option<Box<RefCell<TlsSession>>>,
    /// The exchange of the connection, which counts the bytes that move and has which side waits for the other.
    pub(super) exchange: Rc<Exchange>,
    /// hyper has bytes that the socket has not: written by hyper's side of HTTP/1, read by the loop of the connection.
    pub(super) has_unflushed: Cell<bool>,
    /// Bytes that hyper sent since the connection last waited for anything; no other sender counts its own.
    pub(super) burst: Cell<usize>,
}

impl Socket {
    /// Takes `socket`, which must not block, and counts its requests in `counters`.
    pub(super) fn new(
        socket: std::net::TcpStream,
        tls: Option<TlsSession>,
        counters: &Arc<ReactorCounters>,
    ) -> Self {
        Self {
            raw: RawSocket::new(socket),
            tls: tls.map(|tls| Box::new(RefCell::new(tls))),
            exchange: Rc::new(Exchange::new(&Rc::new(Connection::new(Arc::clone(
                counters,
            ))))),
            has_unflushed: Cell::new(false),
            burst: Cell::new(0),
        }
    }

    /// The TLS of the connection, if it has one.
    pub(super) fn tls(&self) -> Option<&RefCell<TlsSession>> {
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
            Some(tls) => tls.borrow_mut().poll_receive(&self.raw, cx, &mut buf),
        }
    }

    /// Ready once the client has closed its side and all that it sent has been read; an error when it reset the
    /// connection.
    pub(super) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = self.tls() {
            return tls.borrow_mut().poll_end(&self.raw, cx);
        }
        let peeked = self.raw.poll_io(cx, Interest::READABLE, |socket| {
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            Ok(recv(socket, &mut [0; 1], flags)?.1)
        });
        match ready!(peeked)? {
            0 => Poll::Ready(Ok(())),
            // The bytes that are there are left to the next read.
            _ => Poll::Pending,
        }
    }
}

impl AsyncRead for &Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.tls() {
            None => self.raw.poll_read(cx, buf),
            Some(tls) => {
                let mut session = tls.borrow_mut();
                session.poll_receive(&self.raw, cx, buf).map_ok(drop)
            }
        }
    }
}

/// The TLS of one connection.
#[derive(Debug)]
pub(super) struct TlsSession {
    connection: ServerConnection,
    received: Undecrypted,
    /// The counters of the handshake, once it begins and until it has been counted.
    pub(super) uncounted: Option<Arc<ReactorCounters>>,
}

impl TlsSession {
    /// The server's side of a new connection.
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self {
            connection: ServerConnection::new(config)?,
            received: Undecrypted::default(),
            uncounted: None,
        })
    }

    /// True once the handshake is over and both sides have agreed on this protocol (RFC 7301).
    pub(super) fn has_agreed_on(&self, protocol: &[u8]) -> bool {
        !self.connection.is_handshaking() && self.connection.alpn_protocol() == Some(protocol)
    }

    /// The version that both sides have agreed on.
    pub(super) fn version(&self) -> Option<&'static str> {
        match self.connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            _ => None,
        }
    }

    /// The certificate of the client, if it showed one. Known once the handshake is over.
    pub(super) fn client_certificate(&self) -> Option<ClientCertificate> {
        Some(client_certificate(self.connection.peer_certificates()?))
    }

    /// Encrypts of `bufs`, which hold some bytes, up to [`PIECE`] bytes: how many.
    pub(super) fn encrypt(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.connection.writer().write_vectored(bufs)? {
            // The session has ended, on both sides.
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            encrypted => Ok(encrypted),
        }
    }

    /// Encrypts one piece of `region`: how many bytes. Its pages are in memory: the body sees to that.
    pub(super) fn encrypt_region(&mut self, region: &Region) -> io::Result<usize> {
        with_scratch(|scratch| {
            let most = region.len.min(PIECE);
            match pread(&region.file, &mut scratch[..most], region.offset)? {
                0 => Err(cut_short()),
                len => self.encrypt(&[IoSlice::new(&scratch[..len])]),
            }
        })
    }

    /// True while bytes are encrypted that have not been sent.
    pub(super) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Says that nothing follows, if there is a session to say it in.
    pub(super) fn close(&mut self) {
        if !self.connection.is_handshaking() {
            self.connection.send_close_notify();
        }
    }

    /// Receives into `dest`: how many bytes, 0 at the end of the stream.
    fn poll_receive(
        &mut self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
        dest: &mut impl BufMut,
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        loop {
            match self.decrypt(socket, cx) {
                Ok(plain) => {
                    let len = plain.len().min(dest.remaining_mut());
                    dest.put_slice(&plain[..len]);
                    self.connection.reader().consume(len);
                    taken += len;
                    if len == 0 {
                        return Poll::Ready(Ok(taken));
                    }
                }
                // The bytes before an error are taken first.
                Err(_) if taken > 0 => return Poll::Ready(Ok(taken)),
                Err(error) if is_again(&error) => ready!(self.received.poll_more(socket, cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Ready at the end of the stream, and an error when it was cut; pending when there is something to receive.
    fn poll_end(&mut self, socket: &RawSocket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.decrypt(socket, cx) {
                Ok([]) => return Poll::Ready(Ok(())),
                Ok(_) => return Poll::Pending,
                Err(error) if is_again(&error) => ready!(self.received.poll_more(socket, cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Decrypts received records until there are bytes to take, and returns these bytes; none at the end of the stream.
    /// Fails with `WouldBlock` when more must be received.
    fn decrypt(&mut self, socket: &RawSocket, cx: &mut Context<'_>) -> io::Result<&[u8]> {
        while self.needs_more() {
            self.connection.read_tls(&mut self.received)?;
            let processed = self.connection.process_new_packets();
            self.count_handshake();
            // Tickets, or an alert: if the socket takes none now, this task is woken when it does. A peer that has gone
            // gets none of them, and its earlier requests are performed.
            let _ = self.poll_send(socket, cx);
            if let Err(error) = processed {
                (self.received.bytes, self.received.has_ended) = (Bytes::new(), true);
                if self.needs_more() {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        self.connection.reader().into_first_chunk()
    }

    /// Counts the handshake once it is over.
    fn count_handshake(&mut self) {
        let is_over = |_: &mut _| !self.connection.is_handshaking();
        if let Some(counters) = self.uncounted.take_if(is_over) {
            let is_resumed = self.connection.handshake_kind() == Some(HandshakeKind::Resumed);
            let handshake = [Handshake::Full, Handshake::Resumed][usize::from(is_resumed)];
            counters.handshakes[handshake as usize].add(1);
        }
    }

    /// True where nothing is decrypted, and the stream has not ended.
    fn needs_more(&mut self) -> bool {
        let decrypted = self.connection.reader().into_first_chunk();
        decrypted.is_err_and(|error| is_again(&error))
    }

    /// Sends what is encrypted already.
    fn poll_send(&mut self, socket: &RawSocket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.wants_write() {
            ready!(socket.poll_io(cx, Interest::WRITABLE, |socket| {
                self.write_to(socket, SendFlags::empty())
            }))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what the socket takes of what is encrypted: how many bytes.
    pub(super) fn write_to(
        &mut self,
        socket: BorrowedFd<'_>,
        flags: SendFlags,
    ) -> io::Result<usize> {
        self.connection.write_tls(&mut RecordSink(socket, flags))
    }
}

impl Drop for TlsSession {
    fn drop(&mut self) {
        if let Some(counters) = &self.uncounted {
            counters.handshakes[Handshake::Failed as usize].add(1);
        }
    }
}

/// Received, and not decrypted: the library reads some KiB at a time, which would be a system call each.
#[derive(Debug, Default)]
struct Undecrypted {
    bytes: Bytes,
    has_ended: bool,
}

impl Undecrypted {
    /// Receives the next piece. All before it has been read.
    fn poll_more(&mut self, socket: &RawSocket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_scratch(|scratch| {
            let len = ready!(socket.poll_receive(cx, scratch))?;
            self.has_ended = len == 0;
            self.bytes = Bytes::copy_from_slice(&scratch[..len]);
            Poll::Ready(Ok(()))
        })
    }
}

impl Read for Undecrypted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && !self.has_ended {
            // The library then keeps no more memory than for its next step.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // The last piece gives the memory back.
        let piece = self.bytes.split_to(buf.len().min(self.bytes.len()));
        buf[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}

/// A socket that takes what is encrypted.
struct RecordSink<'a>(BorrowedFd<'a>, SendFlags);

impl Write for RecordSink<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | self.1;
        Ok(sendmsg(
            self.0,
            bufs,
            &mut SendAncillaryBuffer::default(),
            flags,
        )?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Has `work` use the memory of the thread for a piece that is received or encrypted: [`PIECE`] bytes.
fn with_scratch<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.resize(PIECE, 0);
        work(scratch)
    })
}

/// The error of a file that ends too early.
pub(super) fn cut_short() -> io::Error {
    let why = "the file was cut short while it was sent";
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}
