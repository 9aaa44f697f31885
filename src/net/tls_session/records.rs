//! The records of one session: decrypted where they were received, and encrypted to where they are sent from.
//!
//! The TLS library is driven without buffers of its own. Records are decrypted one at a time, as they are asked for. Promises that
//! what is held is bounded, whatever the peer does, and that what the library has to say is encrypted in its order.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use rustix::net::{SendFlags, send};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{CommonState, ServerConfig};
use tokio::io::Interest;

use super::buffer::Buffer;
use super::output::{Say, encode, encrypt};
use crate::net::raw_socket::{RawSocket, is_again};

/// The most that is read from a socket at once, in bytes.
const MOST_READ: usize = 64 << 10;

/// The most that waits to be decrypted until the rest has come, in bytes. A record is less, and so is a message of a handshake
/// that anybody means.
const MOST_INCOMPLETE: usize = 64 << 10;

/// The records of one session.
pub(super) struct Records {
    connection: UnbufferedServerConnection,
    /// Received, and not decrypted.
    received: Buffer,
    /// Opened, and not taken.
    decrypted: Buffer,
    /// Sealed, and not sent.
    encrypted: Buffer,
    end: End,
}

/// Whether more is to come from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// It has said that nothing follows.
    Announced,
    Cut,
    /// It has sent what the protocol does not allow. The library is asked nothing more.
    Broken,
}

impl Records {
    /// Those of a new connection.
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            received: Buffer::default(),
            decrypted: Buffer::default(),
            encrypted: Buffer::default(),
            end: End::Open,
        })
    }

    /// The library's view of the connection.
    pub(super) fn state(&self) -> &CommonState {
        &self.connection
    }

    /// How many bytes are encrypted that have not been sent.
    pub(super) fn encrypted(&self) -> usize {
        self.encrypted.len()
    }

    /// See [`TlsSession::poll_receive`](super::TlsSession::poll_receive).
    pub(super) fn poll_receive(
        &mut self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
        dest: &mut impl BufMut,
    ) -> Poll<io::Result<usize>> {
        loop {
            let taken = self.poll_take(socket, cx, dest)?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
            if self.end != End::Open {
                return Poll::Ready(self.ended().map(|()| 0));
            }
            ready!(self.poll_read(socket, cx))?;
        }
    }

    /// See [`TlsSession::poll_end`](super::TlsSession::poll_end).
    pub(super) fn poll_end(
        &mut self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            self.poll_take(socket, cx, &mut nowhere())?;
            if !self.decrypted.is_empty() {
                return Poll::Pending;
            }
            if self.end != End::Open {
                return Poll::Ready(self.ended());
            }
            ready!(self.poll_read(socket, cx))?;
        }
    }

    /// Takes into `dest` what has been received already, and sends what the protocol has to say about it: how many bytes.
    fn poll_take(
        &mut self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
        dest: &mut impl BufMut,
    ) -> io::Result<usize> {
        let taken = self.take(dest);
        // Tickets, or why the connection ends. To be woken when it can be sent is enough: a reply of the peer may not depend
        // on it.
        if let Poll::Ready(Err(_)) = self.poll_send(socket, cx) {
            // The peer has gone, and gets none of it. What it had sent before is performed.
            self.encrypted = Buffer::default();
        }
        taken
    }

    fn take(&mut self, dest: &mut impl BufMut) -> io::Result<usize> {
        let len = self.decrypted.len().min(dest.remaining_mut());
        if len > 0 {
            dest.put_slice(&self.decrypted.bytes()[..len]);
            self.decrypted.consume(len);
        }
        if self.received.is_empty() || !self.decrypted.is_empty() {
            return Ok(len);
        }
        Ok(len + self.process(dest, Say::Nothing)?)
    }

    /// Reads once from the socket.
    fn poll_read(&mut self, socket: &RawSocket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.received.len() > MOST_INCOMPLETE {
            let why = "a message of the handshake is too long";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let room = &mut self.received.room(MOST_READ)[..MOST_READ];
        let polled = socket.poll_receive(cx, room);
        match &polled {
            Poll::Ready(Ok(0)) => self.end = End::Cut,
            Poll::Ready(Ok(len)) => self.received.grow(*len),
            _ => self.received.shrink(),
        }
        polled.map_ok(drop)
    }

    /// Whether the end of the stream was announced (RFC 8446, section 6.1).
    fn ended(&self) -> io::Result<()> {
        match self.end {
            End::Cut | End::Broken => Err(io::ErrorKind::UnexpectedEof.into()),
            End::Open | End::Announced => Ok(()),
        }
    }

    /// Says that nothing follows, if there is a session to say it in.
    pub(super) fn close(&mut self) {
        // A session that is broken has ended.
        let _ = self.process(&mut nowhere(), Say::End);
    }

    /// Encrypts `plain`, which is not empty: how many bytes.
    pub(super) fn encrypt(&mut self, plain: &[u8]) -> io::Result<usize> {
        let before = self.encrypted.len();
        self.process(&mut nowhere(), Say::Bytes(plain))?;
        if self.encrypted.len() == before {
            // The session has ended, on both sides.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(plain.len())
    }

    /// Sends what is encrypted already.
    fn poll_send(&mut self, socket: &RawSocket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.encrypted.is_empty() {
            ready!(socket.poll_write_ready(cx))?;
            let sent = socket.try_io(Interest::WRITABLE, |socket| {
                self.send(socket, SendFlags::empty())
            });
            match sent {
                Err(error) if is_again(&error) => {}
                sent => drop(sent?),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what the socket takes of what is encrypted: how many bytes.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, flags: SendFlags) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | flags;
        let sent = send(socket, self.encrypted.bytes(), flags)?;
        self.encrypted.consume(sent);
        Ok(sent)
    }

    /// Has the library go through what was received, until `dest` is full or more must be received, or until what there is to
    /// `say` can be said: how many bytes were taken into `dest`. What it answers is encrypted.
    fn process(&mut self, dest: &mut impl BufMut, say: Say<'_>) -> io::Result<usize> {
        let mut taken = 0;
        while self.end != End::Broken {
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(self.received.bytes());
            let mut used = discard;
            let goes_on = match state {
                Ok(ConnectionState::ReadTraffic(mut records)) => {
                    while let Some(record) = records.next_record() {
                        let record = record.map_err(invalid)?;
                        let now = record.payload.len().min(dest.remaining_mut());
                        let (now, later) = record.payload.split_at(now);
                        dest.put_slice(now);
                        self.decrypted.extend(later);
                        taken += now.len();
                        used += record.discard;
                    }
                    dest.has_remaining_mut() || !matches!(say, Say::Nothing)
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, &mut self.encrypted)?;
                    true
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    true
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.end = End::Announced;
                    true
                }
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    encrypt(traffic, say, &mut self.encrypted)?;
                    false
                }
                // Nothing is left to do before more is received.
                Ok(_) => false,
                Err(error) => {
                    self.break_off()?;
                    // What came before is taken first.
                    return if taken > 0 {
                        Ok(taken)
                    } else {
                        Err(invalid(error))
                    };
                }
            };
            self.received.consume(used);
            if !goes_on {
                break;
            }
        }
        Ok(taken)
    }

    /// Encrypts the alert that the library has for a peer that broke the protocol. It would go through the same record again if it
    /// were asked for more.
    fn break_off(&mut self) -> io::Result<()> {
        self.end = End::Broken;
        self.received = Buffer::default();
        while self.connection.wants_write() {
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            let Ok(ConnectionState::EncodeTlsData(data)) = state else {
                break;
            };
            encode(data, &mut self.encrypted)?;
        }
        Ok(())
    }
}

/// A buffer that takes nothing.
fn nowhere() -> &'static mut [u8] {
    <&mut [u8]>::default()
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
