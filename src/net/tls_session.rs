//! The TLS of one connection: what its socket carries is sealed, and what its users see is not.
//!
//! Handshakes and whatever else the protocol sends go by themselves, when bytes are waited for. Promises that an end of the
//! stream is told from a connection that was cut (`UnexpectedEof`). Holds no buffer while nothing moves: the socket is read
//! into memory of the reactor's thread, and what was sealed is freed once it has been sent.

use std::cell::{Cell, RefCell, RefMut};
use std::io::{self, BufRead, IoSlice, Write};
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use rustix::io::pread;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::{HandshakeKind, ProtocolVersion, ServerConnection};
use tokio::io::Interest;
use webpki::EndEntityCert;

use super::raw_socket::{RawSocket, is_again};
use crate::http::{Piped, Region};
use crate::metrics::Handshake;

/// The most that is read from a socket at once, in bytes.
const MOST_READ: usize = 64 << 10;

/// The least: the library takes so much at once at any time.
const LEAST_READ: usize = 1 << 10;

/// The most that is sealed before it is sent, in bytes: for a peer that takes nothing so much is held.
pub(super) const PIECE: usize = 64 << 10;

thread_local! {
    /// Where sealed bytes are received, on their reactor's thread: [`MOST_READ`] of them.
    static RECEIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };

    /// Where what is in no memory yet is read to, to be sealed: [`PIECE`] bytes.
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// See the module.
#[derive(Debug)]
pub(super) struct TlsSession {
    connection: RefCell<ServerConnection>,
    /// Bytes that were sealed and have not been sent, about: what sealing adds is not counted.
    sealed: Cell<usize>,
}

impl TlsSession {
    pub(super) fn new(mut connection: ServerConnection) -> Self {
        // What is sealed is bounded by `seal`.
        connection.set_buffer_limit(None);
        Self {
            connection: RefCell::new(connection),
            sealed: Cell::new(0),
        }
    }

    /// Whether both sides have agreed on this protocol (RFC 7301). Known once the handshake is over.
    pub(super) fn has_agreed_on(&self, protocol: &[u8]) -> bool {
        self.connection().alpn_protocol() == Some(protocol)
    }

    /// The version that both sides have agreed on.
    pub(super) fn version(&self) -> Option<&'static str> {
        match self.connection().protocol_version()? {
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            _ => None,
        }
    }

    /// The DNS names in the certificate of the client, if it showed one. Known once the handshake is over.
    pub(super) fn client_names(&self) -> Vec<String> {
        let connection = self.connection();
        let shown = connection
            .peer_certificates()
            .and_then(|shown| shown.first());
        let shown = shown.and_then(|shown| EndEntityCert::try_from(shown).ok());
        let names = shown.iter().flat_map(|shown| shown.valid_dns_names());
        names.map(str::to_owned).collect()
    }

    /// How the handshake was done, once it is over.
    pub(super) fn handshake(&self) -> Option<Handshake> {
        let connection = self.connection();
        if connection.is_handshaking() {
            return None;
        }
        Some(match connection.handshake_kind()? {
            HandshakeKind::Resumed => Handshake::Resumed,
            _ => Handshake::Full,
        })
    }

    fn connection(&self) -> RefMut<'_, ServerConnection> {
        self.connection.borrow_mut()
    }

    /// Receives into `dest`, which has room: how many bytes, 0 at the end of the stream.
    pub(super) fn poll_receive(
        &self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
        dest: &mut impl BufMut,
    ) -> Poll<io::Result<usize>> {
        loop {
            match take(&mut self.connection(), dest) {
                Err(error) if is_again(&error) => {}
                taken => return Poll::Ready(taken),
            }
            let taken = ready!(self.poll_more(socket, cx, dest))?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
        }
    }

    /// Ready at the end of the stream, and an error when it was cut; pending when there is something to receive.
    pub(super) fn poll_end(
        &self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.connection().reader().fill_buf() {
                Ok([]) => return Poll::Ready(Ok(())),
                Ok(_) => return Poll::Pending,
                Err(error) if is_again(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            let mut nowhere: &mut [u8] = &mut [];
            ready!(self.poll_more(socket, cx, &mut nowhere))?;
        }
    }

    /// Reads once from the socket, sends what the protocol has to say, and receives what came into `dest`: how many bytes.
    fn poll_more(
        &self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
        dest: &mut impl BufMut,
    ) -> Poll<io::Result<usize>> {
        // To be woken for both is enough: a reply of the peer may not depend on it.
        let _ = self.poll_sent(socket, cx)?;
        RECEIVED.with_borrow_mut(|received| {
            received.resize(MOST_READ, 0);
            let room = dest.remaining_mut().clamp(LEAST_READ, MOST_READ);
            let len = ready!(socket.poll_receive(cx, &mut received[..room]))?;
            let taken = feed(&mut self.connection(), &received[..len], dest);
            // Tickets, or why the connection ends.
            let sent = self.poll_sent(socket, cx);
            let taken = taken?;
            let _ = sent?;
            Poll::Ready(Ok(taken))
        })
    }

    /// Sends what is sealed already.
    fn poll_sent(&self, socket: &RawSocket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.wants_write() {
            ready!(socket.poll_write_ready(cx))?;
            let write = |socket: BorrowedFd<'_>| self.write_to(socket, SendFlags::empty());
            match socket.try_io(Interest::WRITABLE, write) {
                Err(error) if is_again(&error) => {}
                sent => drop(sent?),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Seals up to [`PIECE`] bytes of `bufs`: how many.
    pub(super) fn seal(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut connection = self.connection();
        let mut writer = connection.writer();
        let all: usize = bufs.iter().map(|buf| buf.len()).sum();
        let first = bufs.iter().find(|buf| !buf.is_empty());
        let sealed = match first {
            Some(first) if all > PIECE => writer.write(&first[..first.len().min(PIECE)])?,
            _ => writer.write_vectored(bufs)?,
        };
        self.sealed.set(self.sealed.get() + sealed);
        Ok(sealed)
    }

    /// How many bytes are sealed that have not been sent.
    pub(super) fn sealed(&self) -> usize {
        self.sealed.get()
    }

    /// Seals one piece of `region`: how many bytes. Its pages are in memory: the body sees to that.
    pub(super) fn seal_region(&self, region: &Region) -> io::Result<usize> {
        self.seal_read(region.len, |buf| {
            Ok(pread(&region.file, buf, region.offset)?)
        })
    }

    /// Seals one piece of what is `piped`: how many bytes.
    pub(super) fn seal_piped(&self, piped: &Piped) -> io::Result<usize> {
        self.seal_read(piped.len, |buf| piped.read(buf))
    }

    /// Seals what `read` reads, up to `most` bytes: how many.
    fn seal_read(
        &self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        READ.with_borrow_mut(|buf| {
            buf.resize(PIECE, 0);
            match read(&mut buf[..most.min(PIECE)])? {
                0 => Err(cut_short()),
                len => self.seal(&[IoSlice::new(&buf[..len])]),
            }
        })
    }

    /// Whether something is sealed that has not been sent.
    pub(super) fn wants_write(&self) -> bool {
        self.connection().wants_write()
    }

    /// Sends of that what the socket takes: how many bytes.
    pub(super) fn write_to(&self, socket: BorrowedFd<'_>, flags: SendFlags) -> io::Result<usize> {
        let sent = self.connection().write_tls(&mut Sender(socket, flags))?;
        self.sealed.set(self.sealed.get().saturating_sub(sent));
        Ok(sent)
    }

    /// Says that nothing follows.
    pub(super) fn close(&self) {
        self.connection().send_close_notify();
    }
}

/// Takes what has been opened already.
fn take(connection: &mut ServerConnection, dest: &mut impl BufMut) -> io::Result<usize> {
    let mut reader = connection.reader();
    let mut taken = 0;
    while dest.has_remaining_mut() {
        let piece = match reader.fill_buf() {
            Ok(piece) => piece,
            Err(_) if taken > 0 => break,
            Err(error) => return Err(error),
        };
        let len = piece.len().min(dest.remaining_mut());
        if len == 0 {
            break;
        }
        dest.put_slice(&piece[..len]);
        reader.consume(len);
        taken += len;
    }
    Ok(taken)
}

/// Has `connection` open what was `received`, nothing at the end of the stream, and takes that: how many bytes.
fn feed(
    connection: &mut ServerConnection,
    mut received: &[u8],
    dest: &mut impl BufMut,
) -> io::Result<usize> {
    let mut taken = 0;
    loop {
        let is_read = connection.read_tls(&mut received)? > 0;
        let opened = connection.process_new_packets();
        opened.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if dest.has_remaining_mut() {
            // The end is told to who asks for more.
            taken += take(connection, dest).unwrap_or(0);
        }
        if !is_read || received.is_empty() {
            return Ok(taken);
        }
    }
}

/// What sends without waiting.
struct Sender<'a>(BorrowedFd<'a>, SendFlags);

impl Write for Sender<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | self.1;
        let mut nothing = SendAncillaryBuffer::default();
        Ok(sendmsg(self.0, bufs, &mut nothing, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What ends too early: a file, as a rule.
pub(super) fn cut_short() -> io::Error {
    let why = "the file was cut short while it was sent";
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}
