//! Takeover: the connection itself receives a long upload, whose body goes from the socket to where the store wants it,
//! and sends the response. hyper does not have the socket then, and sees neither.
//!
//! Owns the bytes that arrived with the head, and the count of those that are left: it takes no byte behind the body.
//! The client gets 100 (Continue) when the first byte is waited for, and 104 where its upload can be resumed. A
//! connection that is closed or reset before the end is a body that broke off. Counts what it moves.

use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hyper::Response;
use hyper::header::{EXPECT, HeaderMap};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{SpliceFlags, splice};
use tokio::io::{AsyncReadExt, Interest};

use super::reactor::ConnectionContext;
use super::socket::Socket;
use super::socket_writer::Follows;
use crate::http::{
    Body, BodySource, Piece, RequestBody, closes, content_length, continue_100, encode_interim,
    request,
};
use crate::metrics::Direction;

/// The most that is moved at once, in bytes.
const STEP: usize = 1 << 20;

/// The most that is decrypted and dropped at once, in bytes.
const DECRYPTED: usize = 64 << 10;

/// Receives the upload whose head `received` begins with, takes from it all that is of the upload, and sends the
/// response; true when the connection ends with it.
pub(super) async fn receive(
    context: &ConnectionContext<'_>,
    received: &mut BytesMut,
) -> io::Result<bool> {
    let service = &context.reactor.service;
    let response = match request(received) {
        Ok((request, head_len)) => {
            received.advance(head_len);
            let body = SocketBody::new(context, request.headers(), received);
            let request = request.map(|()| RequestBody::Socket(Box::new(body)));
            let response = service.call(&context.exchange, context.client, request, None);
            response.await.unwrap_or_else(|never| match never {})
        }
        Err(error) => service.reject(&context.exchange, context.client, error, received),
    };
    respond(context, response).await
}

/// Sends `response`, whose body is short and leaves together with its head; true when the connection ends with it.
pub(super) async fn respond(
    context: &ConnectionContext<'_>,
    response: Response<Body>,
) -> io::Result<bool> {
    let (head, mut body) = response.into_parts();
    let is_last = closes(&head);
    let service = &context.reactor.service;
    let mut bytes = service.encoder.encode(&head, body.known_len().unwrap_or(0));
    // For a client that is gone, no more is read.
    while !context.exchange.has_lost_client()
        && let Some(piece) = poll_fn(|cx| body.poll_piece(cx)).await
    {
        match piece.map_err(io::Error::other)? {
            Piece::Bytes(piece) => bytes.extend_from_slice(&piece),
            Piece::Region(_) => return Err(io::ErrorKind::Unsupported.into()),
        }
    }
    // The record of the request ends with its body, and counts when all has been sent.
    drop(body);
    let mut rest = &bytes[..];
    poll_fn(|cx| poll_send_all(&context.socket, cx, &mut rest)).await?;
    context.exchange.flushed();
    Ok(is_last)
}

/// Sends `rest`, and takes from it what has left.
fn poll_send_all(
    socket: &Socket,
    cx: &mut Context<'_>,
    rest: &mut impl Buf,
) -> Poll<io::Result<()>> {
    ready!(socket.poll_send_whole(cx, rest, Follows::Nothing))?;
    socket.poll_flush(cx)
}

/// The body of one upload.
#[derive(Debug)]
struct SocketBody {
    socket: Rc<Socket>,
    /// The bytes that came with the head, no more than are left.
    early: Bytes,
    remaining: u64,
    /// Some of it was asked for.
    is_begun: bool,
    /// The time since which the client is waited for, where that is measured.
    since: Option<Instant>,
    /// The interim response that is sent before more is received.
    interim: Bytes,
    /// The buffer that discarding receives into; never written to, so never backed by memory.
    nowhere: Vec<u8>,
}

impl SocketBody {
    /// The body of the request with these `headers`, whose first bytes may be `received`.
    fn new(context: &ConnectionContext<'_>, headers: &HeaderMap, received: &mut BytesMut) -> Self {
        let remaining = content_length(headers).unwrap_or(0);
        let most = usize::try_from(remaining).unwrap_or(usize::MAX);
        let early = received.split_to(received.len().min(most)).freeze();
        // RFC 9110, section 10.1.1: a client that sends already needs no invitation.
        let is_awaited = headers.contains_key(EXPECT) && early.is_empty();
        Self {
            socket: Rc::clone(&context.socket),
            early,
            remaining,
            is_begun: false,
            since: None,
            interim: if is_awaited {
                encode_interim(&continue_100()).into()
            } else {
                Bytes::new()
            },
            nowhere: Vec::new(),
        }
    }

    /// Has `take` take bytes of the socket, once there are some: at most as many as it is given. `None` when the peer
    /// has ended, or the body is given up. Counts what was moved, and the time that the client takes.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&Socket, &mut Context<'_>, usize) -> Poll<io::Result<usize>>,
    ) -> Poll<Option<usize>> {
        let most = usize::try_from(self.remaining).unwrap_or(STEP).min(STEP);
        let mut polled = match poll_send_all(&self.socket, cx, &mut self.interim) {
            Poll::Ready(Ok(())) => take(&self.socket, cx, most).map(Result::ok),
            sent => sent.map(|_| None),
        };
        let progress = &self.socket.exchange.progress;
        if polled.is_pending() && progress.given_up.get() {
            polled = Poll::Ready(None);
        }
        progress.reading.set(polled.is_pending());
        match polled {
            Poll::Pending if self.since.is_none() => {
                self.since = self.socket.exchange.record.start_waiting();
            }
            Poll::Pending => {}
            Poll::Ready(moved) => {
                self.socket.exchange.record.stop_waiting(self.since.take());
                self.taken(moved.unwrap_or(0) as u64);
            }
        }
        polled
    }
}

/// `taken` bytes, which are none at the end of the stream.
fn some(taken: usize) -> io::Result<usize> {
    match taken {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        taken => Ok(taken),
    }
}

impl BodySource for SocketBody {
    fn remaining(&self) -> u64 {
        self.remaining
    }

    fn take_early(&mut self) -> Bytes {
        if !std::mem::replace(&mut self.is_begun, true) {
            let counters = self.socket.exchange.counters();
            counters.takeovers[Direction::Receive as usize].add(1);
        }
        self.remaining -= self.early.len() as u64;
        self.socket
            .exchange
            .progress
            .count_received(self.early.len());
        std::mem::take(&mut self.early)
    }

    fn poll_announce(&mut self, cx: &mut Context<'_>, head: &mut Bytes) -> Poll<()> {
        poll_send_all(&self.socket, cx, head).map(drop)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<Option<usize>> {
        let room = buf.capacity() - buf.len();
        self.poll_take(cx, |mut socket, cx, most| {
            let mut buf = buf.limit(most.min(room));
            let received = pin!(socket.read_buf(&mut buf)).poll(cx);
            received.map(|received| some(received?))
        })
    }

    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        is_empty: bool,
    ) -> Poll<Option<usize>> {
        self.poll_take(cx, |socket, cx, most| {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            socket.raw.poll_io(cx, Interest::READABLE, |socket| {
                match splice(socket, None, pipe, None, most, flags) {
                    // Either has none left, the socket of bytes or the pipe of room.
                    Err(Errno::AGAIN) if !is_empty && has_some(socket) => Ok(0),
                    spliced => some(spliced?),
                }
            })
        })
    }

    fn can_splice(&self) -> bool {
        self.socket.tls().is_none()
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        if self.socket.tls().is_some() {
            return self.poll_read(cx, &mut BytesMut::with_capacity(DECRYPTED));
        }
        let mut nowhere = std::mem::take(&mut self.nowhere);
        nowhere.resize(STEP, 0);
        let polled = self.poll_take(cx, |socket, cx, most| {
            // TCP drops what it would have copied (tcp(7), MSG_TRUNC).
            let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
            socket.raw.poll_io(cx, Interest::READABLE, |socket| {
                some(recv(socket, &mut nowhere[..most], flags)?.1)
            })
        });
        self.nowhere = nowhere;
        polled
    }

    fn source(&self) -> Option<OwnedFd> {
        let clone = |socket: BorrowedFd<'_>| socket.try_clone_to_owned();
        self.socket.raw.with(clone).ok()
    }

    fn taken(&mut self, len: u64) {
        self.remaining -= len;
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        self.socket.exchange.received(bytes);
        self.socket.exchange.progress.count_received(bytes);
    }
}

/// True when something has arrived, or when that is not known.
fn has_some(socket: BorrowedFd<'_>) -> bool {
    ioctl_fionread(socket).unwrap_or(1) > 0
}
