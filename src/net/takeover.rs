//! Takeover: the connection itself receives the long body of an upload, from the socket to where the store wants it, and sends
//! the response. hyper does not have the socket then, and sees neither.
//!
//! Owns what arrived with the head, and the count of what is left: not a byte behind the body is taken. A client that waits
//! to be told to send the body is told when the first byte is wanted, and so is one that is to know where an upload can be
//! resumed. A peer that closes or resets the connection before the end is a body that broke off. Counts what it moves.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hyper::Response;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;

use super::raw_socket::{RawSocket, is_again};
use super::reactor::ConnectionContext;
use super::socket::{Socket, TlsSession};
use super::socket_writer::{Follows, SocketWriter};
use crate::http::{Body, BodySource, CONTINUE, ConnectionState, Upload, closes};

/// The most that is moved at once, in bytes.
const STEP: usize = 1 << 20;

/// The most that is decrypted at once, in bytes.
const DECRYPTED: usize = 64 << 10;

/// Receives the body of `upload`, takes from `received` what is of it, and sends the response; true when the connection ends
/// with it.
pub(super) async fn receive(
    context: &ConnectionContext<'_>,
    mut upload: Box<Upload>,
    received: &mut BytesMut,
) -> io::Result<bool> {
    let length = upload.body_len();
    // The bytes that hyper had passed on come before those that it had not.
    let mut early = upload.take_early();
    let remaining = usize::try_from(length).unwrap_or(usize::MAX);
    let remaining = remaining.saturating_sub(early.len());
    early.unsplit(received.split_to(received.len().min(remaining)));
    // RFC 9110, section 10.1.1: a client that sends already needs no invitation.
    let is_awaited = upload.expects_continue && early.is_empty();
    let body = SocketBody {
        socket: Rc::clone(&context.socket),
        writer: Rc::clone(&context.writer),
        state: Rc::clone(&context.state),
        early: early.freeze(),
        remaining: length,
        since: None,
        interim: Bytes::from_static(if is_awaited { CONTINUE } else { b"" }),
        decrypted: BytesMut::new(),
        nowhere: Vec::new(),
    };
    let response = upload.perform(Box::new(body)).await;
    respond(context, response).await
}

/// Sends `response`; true when the connection ends with it.
pub(super) async fn respond(
    context: &ConnectionContext<'_>,
    response: Response<Body>,
) -> io::Result<bool> {
    let (head, body) = response.into_parts();
    let is_last = closes(&head);
    let service = &context.reactor.service;
    let head = service.encoder.encode(&head, body.known_len().unwrap_or(0));
    send(head, body, &context.writer).await?;
    context.state.flushed();
    Ok(is_last)
}

/// Sends `head` and `body`, which is short; what is small leaves together with what follows it.
async fn send(head: Vec<u8>, mut body: Body, writer: &SocketWriter) -> io::Result<()> {
    let mut bytes = head;
    // For a client that is gone, no more is read.
    while !writer.has_lost_client()
        && let Some(piece) = poll_fn(|cx| body.poll_bytes(cx)).await
    {
        bytes.extend_from_slice(&piece.map_err(io::Error::other)?);
    }
    // The record of the request ends with its body, and counts when all has been sent.
    drop(body);
    let mut rest = &bytes[..];
    poll_fn(|cx| poll_send_all(writer, cx, &mut rest)).await
}

/// Sends `rest`, and takes from it what has left.
fn poll_send_all(
    writer: &SocketWriter,
    cx: &mut Context<'_>,
    rest: &mut impl Buf,
) -> Poll<io::Result<()>> {
    while rest.has_remaining() {
        let bufs = [IoSlice::new(rest.chunk())];
        let sent = ready!(writer.poll_send(cx, &bufs, Follows::Nothing))?;
        rest.advance(sent);
    }
    writer.poll_flush(cx)
}

/// The body of one upload.
#[derive(Debug)]
struct SocketBody {
    socket: Rc<Socket>,
    writer: Rc<SocketWriter>,
    state: Rc<ConnectionState>,
    /// The bytes that came with the head, no more than are left.
    early: Bytes,
    remaining: u64,
    /// The time since which the client is waited for, where that is measured.
    since: Option<Instant>,
    /// The interim response that is sent before more is received.
    interim: Bytes,
    /// Decrypted, and not moved into a pipe yet; without TLS nothing.
    decrypted: BytesMut,
    /// The buffer that discarding receives into; never written to, so never backed by memory.
    nowhere: Vec<u8>,
}

impl SocketBody {
    /// Runs `take` when the socket has something, with the most that it may take, until it does or the peer ends.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&RawSocket, usize) -> io::Result<Taken>,
    ) -> Poll<Option<usize>> {
        if ready!(poll_send_all(&self.writer, cx, &mut self.interim)).is_err() {
            return Poll::Ready(None);
        }
        let most = usize::try_from(self.remaining).unwrap_or(STEP).min(STEP);
        loop {
            if ready!(self.socket.raw.poll_read_ready(cx)).is_err() {
                return Poll::Ready(None);
            }
            match take(&self.socket.raw, most) {
                Ok(Taken::NoRoom) => return Poll::Ready(Some(0)),
                Ok(Taken::Bytes(0)) => return Poll::Ready(None),
                Ok(Taken::Bytes(n)) => {
                    self.remaining -= n as u64;
                    return Poll::Ready(Some(n));
                }
                Err(error) if is_again(&error) => {}
                Err(_) => return Poll::Ready(None),
            }
        }
    }

    /// Receives what `tls` decrypts into `buf`, `most` bytes and no more than are left: how many, or `None` at the end.
    fn poll_decrypt(
        &mut self,
        tls: &TlsSession,
        cx: &mut Context<'_>,
        buf: &mut BytesMut,
        most: usize,
    ) -> Poll<Option<usize>> {
        if ready!(poll_send_all(&self.writer, cx, &mut self.interim)).is_err() {
            return Poll::Ready(None);
        }
        let most = usize::try_from(self.remaining).unwrap_or(most).min(most);
        let received = ready!(self.socket.poll_decrypt(tls, cx, &mut buf.limit(most)));
        Poll::Ready(received.ok().filter(|&received| received > 0))
    }

    /// Moves what `tls` decrypts into `pipe`.
    fn poll_decrypt_into(
        &mut self,
        tls: &TlsSession,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
    ) -> Poll<Option<usize>> {
        if self.decrypted.is_empty() {
            let mut decrypted = std::mem::take(&mut self.decrypted);
            decrypted.reserve(DECRYPTED);
            let received = self.poll_decrypt(tls, cx, &mut decrypted, DECRYPTED);
            self.decrypted = decrypted;
            if ready!(received).is_none() {
                return Poll::Ready(None);
            }
        }
        let moved = match rustix::io::write(pipe, &self.decrypted) {
            Ok(moved) => moved,
            Err(Errno::AGAIN) => 0,
            Err(_) => return Poll::Ready(None),
        };
        self.decrypted.advance(moved);
        self.remaining -= moved as u64;
        Poll::Ready(Some(moved))
    }

    fn receive(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<Option<usize>> {
        let room = buf.capacity() - buf.len();
        let socket = Rc::clone(&self.socket);
        if let Some(tls) = socket.tls() {
            let received = ready!(self.poll_decrypt(tls, cx, buf, room));
            self.remaining -= received.unwrap_or(0) as u64;
            return Poll::Ready(received);
        }
        self.poll_take(cx, |socket, most| {
            let read = socket.try_read_buf(&mut (&mut *buf).limit(most.min(room)));
            read.map(Taken::Bytes)
        })
    }

    fn splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        is_empty: bool,
    ) -> Poll<Option<usize>> {
        let socket = Rc::clone(&self.socket);
        if let Some(tls) = socket.tls() {
            return self.poll_decrypt_into(tls, cx, pipe);
        }
        self.poll_take(cx, |socket, most| {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            socket.try_io(Interest::READABLE, |socket| {
                match splice(socket, None, pipe, None, most, flags) {
                    // Either has none left, the socket of bytes or the pipe of room.
                    Err(Errno::AGAIN) if !is_empty && has_some(socket) => Ok(Taken::NoRoom),
                    spliced => Ok(Taken::Bytes(spliced?)),
                }
            })
        })
    }

    fn discard(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        if self.socket.tls().is_some() {
            return self.receive(cx, &mut BytesMut::with_capacity(DECRYPTED));
        }
        let mut nowhere = std::mem::take(&mut self.nowhere);
        nowhere.resize(STEP, 0);
        let polled = self.poll_take(cx, |socket, most| {
            // TCP drops what it would have copied (tcp(7), MSG_TRUNC).
            let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
            socket.try_io(Interest::READABLE, |socket| {
                let (_, len) = recv(socket, &mut nowhere[..most], flags)?;
                Ok(Taken::Bytes(len))
            })
        });
        self.nowhere = nowhere;
        polled
    }

    /// Counts what was moved, and the time that the client takes; a body that is given up ends here.
    fn note(&mut self, mut polled: Poll<Option<usize>>) -> Poll<Option<usize>> {
        let progress = self.state.progress();
        if polled.is_pending() && progress.is_given_up() {
            polled = Poll::Ready(None);
        }
        progress.set_reading(polled.is_pending());
        match polled {
            Poll::Pending if self.since.is_none() => {
                self.since = self.state.record().start_waiting();
            }
            Poll::Pending => {}
            Poll::Ready(moved) => {
                self.state.record().stop_waiting(self.since.take());
                self.count(moved.unwrap_or(0));
            }
        }
        polled
    }

    fn count(&self, bytes: usize) {
        self.state.received(bytes);
        self.state.progress().receive(bytes);
    }
}

/// The result of an attempt.
enum Taken {
    /// So many bytes, 0 at the end of the stream.
    Bytes(usize),
    /// There is something to take, and no room for it.
    NoRoom,
}

impl BodySource for SocketBody {
    fn remaining(&self) -> u64 {
        self.remaining
    }

    fn take_early(&mut self) -> Bytes {
        self.remaining -= self.early.len() as u64;
        self.state.progress().receive(self.early.len());
        std::mem::take(&mut self.early)
    }

    fn poll_announce(&mut self, cx: &mut Context<'_>, head: &mut Bytes) -> Poll<()> {
        poll_send_all(&self.writer, cx, head).map(drop)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<Option<usize>> {
        let polled = self.receive(cx, buf);
        self.note(polled)
    }

    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        is_empty: bool,
    ) -> Poll<Option<usize>> {
        let polled = self.splice(cx, pipe, is_empty);
        self.note(polled)
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let polled = self.discard(cx);
        self.note(polled)
    }

    fn source(&self) -> Option<OwnedFd> {
        if self.socket.tls().is_some() {
            return None;
        }
        let clone = |socket: BorrowedFd<'_>| socket.try_clone_to_owned();
        self.socket.raw.with(clone).ok()
    }

    fn taken(&mut self, len: u64) {
        self.remaining -= len;
        self.count(usize::try_from(len).unwrap_or(usize::MAX));
    }
}

/// True when something has arrived, and when in doubt.
fn has_some(socket: BorrowedFd<'_>) -> bool {
    ioctl_fionread(socket).unwrap_or(1) > 0
}
