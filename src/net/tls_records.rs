//! The records of one TLS session: decrypted where they were received, and encrypted to where they are sent from.
//!
//! The TLS library is driven without buffers of its own. Records are decrypted one at a time, as they are asked for. Promises that
//! what is held is bounded, whatever the peer does, and that the library's messages are encrypted in its order. An empty
//! [`Buffer`] takes a spare of its reactor's thread when written to, and gives it back with its last byte: idle sessions hold none.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use rustix::net::{SendFlags, send};
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use tokio::io::Interest;

use super::raw_socket::{RawSocket, is_again};

/// The most that is read at once, and that waits for the rest of a record or of a message of the handshake, in bytes.
const MOST_READ: usize = 64 << 10;

/// Room for an alert, in bytes.
const ALERT: usize = 1 << 10;

/// The length of a spare, in bytes: a piece that is received or encrypted, and a record (RFC 8446, section 5.2) beside it.
const SPARE: usize = 96 << 10;

/// How many spares wait for the next session.
const MOST_SPARES: usize = 4;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The records of one session.
pub(super) struct Records {
    /// The library's view of the session.
    pub(super) connection: UnbufferedServerConnection,
    /// Received, and not decrypted.
    received: Buffer,
    /// Decrypted, and not taken.
    decrypted: Buffer,
    /// Encrypted, and not sent.
    pub(super) encrypted: Buffer,
    end: End,
}

/// The end of the peer's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// The peer has announced it (RFC 8446, section 6.1).
    Announced,
    Cut,
    /// The peer has broken the protocol. The library is asked nothing more.
    Broken,
}

impl Records {
    /// The records of a new connection.
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            received: Buffer::default(),
            decrypted: Buffer::default(),
            encrypted: Buffer::default(),
            end: End::Open,
        })
    }

    /// Receives into `dest`: how many bytes, 0 at the end of the stream, or where something is decrypted and `dest` has no room.
    pub(super) fn poll_receive(
        &mut self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
        dest: &mut impl BufMut,
    ) -> Poll<io::Result<usize>> {
        loop {
            let taken = self.poll_take(socket, cx, dest)?;
            if taken > 0 || self.decrypted.len() > 0 {
                return Poll::Ready(Ok(taken));
            }
            if self.end != End::Open {
                return Poll::Ready(self.ended().map(|()| 0));
            }
            ready!(self.poll_read(socket, cx))?;
        }
    }

    /// Ready at the end of the stream, and an error when it was cut; pending when there is something to receive.
    pub(super) fn poll_end(
        &mut self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match ready!(self.poll_receive(socket, cx, &mut nowhere())) {
            Ok(_) if self.decrypted.len() > 0 => Poll::Pending,
            ended => Poll::Ready(ended.map(drop)),
        }
    }

    /// Takes into `dest` what has been received already, and sends the protocol's answer to it: how many bytes.
    fn poll_take(
        &mut self,
        socket: &RawSocket,
        cx: &mut Context<'_>,
        dest: &mut impl BufMut,
    ) -> io::Result<usize> {
        let len = self.decrypted.len().min(dest.remaining_mut());
        if len > 0 {
            dest.put_slice(&self.decrypted.bytes()[..len]);
            self.decrypted.consume(len);
        }
        let taken = if self.received.len() == 0 || self.decrypted.len() > 0 {
            Ok(len)
        } else {
            self.process(dest, Say::Nothing).map(|more| len + more)
        };
        // Tickets, or an alert. To be woken when it can be sent is enough: a reply of the peer may not depend on it.
        if let Poll::Ready(Err(_)) = self.poll_send(socket, cx) {
            // The peer has gone, and gets none of it. What it had sent before is performed.
            self.encrypted = Buffer::default();
        }
        taken
    }

    /// Reads once from the socket.
    fn poll_read(&mut self, socket: &RawSocket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.received.len() > MOST_READ {
            let why = "a message of the handshake is too long";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let room = &mut self.received.room(MOST_READ)[..MOST_READ];
        let polled = socket.poll_receive(cx, room);
        match &polled {
            Poll::Ready(Ok(0)) => self.end = End::Cut,
            Poll::Ready(Ok(len)) => self.received.end += *len,
            _ => self.received.shrink(),
        }
        polled.map_ok(drop)
    }

    /// An error where the end of the stream was not announced.
    fn ended(&self) -> io::Result<()> {
        match self.end {
            End::Cut | End::Broken => Err(io::ErrorKind::UnexpectedEof.into()),
            End::Open | End::Announced => Ok(()),
        }
    }

    /// Announces the end of the stream, if there is a session.
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
        while self.encrypted.len() > 0 {
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

    /// Has the library go through what was received, until `dest` is full, more must be received, or what there is to `say` can
    /// be said: how many bytes were taken into `dest`. Its answers are encrypted.
    fn process(&mut self, dest: &mut impl BufMut, say: Say<'_>) -> io::Result<usize> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
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
                    self.encrypted.encode(data)?;
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
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let needed = |error: &EncryptError| match error {
                        EncryptError::InsufficientSize(needed) => Some(needed.required_size),
                        EncryptError::EncryptExhausted => None,
                    };
                    let out = &mut self.encrypted;
                    match say {
                        Say::Nothing => {}
                        Say::Bytes(plain) => out.append(|to| traffic.encrypt(plain, to), needed)?,
                        Say::End => out.append(|to| traffic.queue_close_notify(to), needed)?,
                    }
                    false
                }
                // Nothing is left to do before more is received.
                Ok(_) => false,
                Err(error) => {
                    self.break_off()?;
                    // The bytes before the error are taken first.
                    return (taken > 0).then_some(taken).ok_or_else(|| invalid(error));
                }
            };
            self.received.consume(used);
            if !goes_on {
                break;
            }
        }
        Ok(taken)
    }

    /// Encrypts the library's alert for a peer that broke the protocol. Asked for more, it would read that record again.
    fn break_off(&mut self) -> io::Result<()> {
        self.end = End::Broken;
        self.received = Buffer::default();
        while self.connection.wants_write()
            && let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut [])
            && let Ok(ConnectionState::EncodeTlsData(data)) = state
        {
            self.encrypted.encode(data)?;
        }
        Ok(())
    }
}

/// A buffer that takes nothing.
fn nowhere() -> &'static mut [u8] {
    <&mut [u8]>::default()
}

/// The data to encrypt; `End` announces that nothing follows.
#[derive(Clone, Copy)]
enum Say<'a> {
    Nothing,
    Bytes(&'a [u8]),
    End,
}

/// A buffer of one session.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The bytes that it holds.
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.end]
    }

    /// Room behind its bytes, for `least` bytes or more. Bytes written there are held once `end` is behind them.
    fn room(&mut self, least: usize) -> &mut [u8] {
        let len = self.len();
        if self.memory.len() - self.end < least {
            if self.memory.len() < len + least {
                let mut memory = SPARES.with_borrow_mut(Vec::pop).unwrap_or_default();
                memory.resize((len + least).max(SPARE), 0);
                memory[..len].copy_from_slice(self.bytes());
                give_back(std::mem::replace(&mut self.memory, memory));
            } else {
                self.memory.copy_within(self.start..self.end, 0);
            }
            (self.start, self.end) = (0, len);
        }
        &mut self.memory[self.end..]
    }

    /// Holds a copy of `bytes` too.
    fn extend(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Holds what `write` writes too, which is called again with the room that it has `needed`.
    fn append<E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
        needed: impl Fn(&E) -> Option<usize>,
    ) -> io::Result<()> {
        let mut room = ALERT;
        loop {
            match write(self.room(room)) {
                Ok(len) => {
                    self.end += len;
                    return Ok(());
                }
                Err(error) => room = needed(&error).ok_or_else(|| io::Error::other(error))?,
            }
        }
    }

    /// Holds a message of the library too.
    fn encode(&mut self, mut data: EncodeTlsData<'_, impl Sized>) -> io::Result<()> {
        let needed = |error: &EncodeError| match error {
            EncodeError::InsufficientSize(needed) => Some(needed.required_size),
            EncodeError::AlreadyEncoded => None,
        };
        self.append(|room| data.encode(room), needed)
    }

    /// Lets its first `len` bytes go.
    fn consume(&mut self, len: usize) {
        self.start += len;
        if self.len() == 0 {
            self.clear();
        }
    }

    /// Keeps no more memory than it needs: for a peer that may let it wait.
    fn shrink(&mut self) {
        if self.len() < self.memory.len() {
            let held = self.bytes().to_vec();
            self.clear();
            self.end = held.len();
            self.memory = held;
        }
    }

    fn clear(&mut self) {
        give_back(std::mem::take(&mut self.memory));
        (self.start, self.end) = (0, 0);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Keeps `memory` for the next, if it is worth that.
fn give_back(memory: Vec<u8>) {
    if memory.len() == SPARE {
        // The thread may be ending.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            if spares.len() < MOST_SPARES {
                spares.push(memory);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::iter;

    use proptest::prelude::*;

    use super::*;

    fn spares() -> usize {
        SPARES.with_borrow(Vec::len)
    }

    proptest! {
        /// Whatever is written, taken and shrunk, and when: the bytes come out in order, and an empty buffer has no memory.
        #[test]
        fn bytes_come_out_as_they_went_in(
            steps in prop::collection::vec((0_usize..40_000, 0_usize..60_000, any::<bool>()), 0..20),
        ) {
            let mut buffer = Buffer::default();
            let mut expected = VecDeque::new();
            let mut next = 0_u8;
            for (write, take, shrinks) in steps {
                let bytes = iter::repeat_with(|| { next = next.wrapping_mul(5).wrapping_add(1); next });
                let bytes: Vec<u8> = bytes.take(write).collect();
                buffer.extend(&bytes);
                expected.extend(bytes);
                if shrinks {
                    buffer.shrink();
                    prop_assert_eq!(buffer.memory.len(), buffer.len());
                }
                let take = take.min(buffer.len());
                let right: Vec<u8> = expected.drain(..take).collect();
                prop_assert!(buffer.bytes()[..take] == right);
                buffer.consume(take);
                prop_assert_eq!(buffer.len(), expected.len());
                prop_assert!(buffer.len() > 0 || buffer.memory.is_empty());
            }
        }
    }

    #[test]
    fn sessions_that_are_done_share_their_memory() {
        let mut first = Buffer::default();
        first.extend(b"record");
        assert_eq!(spares(), 0);
        first.consume(6);
        assert_eq!(spares(), 1);
        let mut second = Buffer::default();
        second.extend(&[0; 10]);
        assert_eq!(spares(), 0);
        drop(second);
        assert_eq!(spares(), 1);
    }

    #[test]
    fn few_spares_are_kept_and_only_those_of_their_length() {
        let mut many: Vec<Buffer> = (0..10).map(|_| Buffer::default()).collect();
        for buffer in &mut many {
            buffer.extend(&[1; 100]);
        }
        many[0].extend(&vec![1; SPARE]);
        drop(many);
        assert_eq!(spares(), MOST_SPARES);
        assert!(SPARES.with_borrow(|spares| spares.iter().all(|spare| spare.len() == SPARE)));
    }
}
