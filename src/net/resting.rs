//! Reading from a socket while hyper does not: the first bytes of a request, what is dropped at the end, and whether a
//! client that only listens is still there.
//!
//! Reads into memory of the reactor's thread, so that a connection that waits holds no buffer.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;

use super::socket::{Socket, is_again};
use crate::http::ConnectionState;

/// The most that is read at a time, in bytes.
const PIECE: usize = 8 << 10;

thread_local! {
    /// Where bytes are read to, on their reactor's thread: [`PIECE`] of them.
    static RECEIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Receives the first bytes of a request; false at the end of the stream.
pub(super) fn poll_receive(
    socket: &Socket,
    connection: &ConnectionState,
    cx: &mut Context<'_>,
    received: &mut BytesMut,
) -> Poll<io::Result<bool>> {
    poll_read(socket, connection, cx, |piece| {
        received.extend_from_slice(piece);
        connection.begin_head();
    })
    .map_ok(|read| read > 0)
}

/// Drops what has arrived: how many bytes, 0 at the end of the stream.
pub(super) fn poll_drop(
    socket: &Socket,
    connection: &ConnectionState,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    poll_read(socket, connection, cx, |_| {})
}

/// Ready once the client has closed its side and all that it sent has been read; an error when it reset the connection.
pub(super) fn poll_end(socket: &Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        ready!(socket.poll_read_ready(cx))?;
        let peeked = socket.try_io(Interest::READABLE, |socket| {
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

fn poll_read(
    socket: &Socket,
    connection: &ConnectionState,
    cx: &mut Context<'_>,
    mut take: impl FnMut(&[u8]),
) -> Poll<io::Result<usize>> {
    RECEIVED.with_borrow_mut(|piece| {
        piece.resize(PIECE, 0);
        loop {
            ready!(socket.poll_read_ready(cx))?;
            let mut received = None;
            let is_driven = socket.is_driven();
            let tried = socket.try_io(Interest::READABLE, |socket| {
                let (_, len) = recv(socket, &mut piece[..], RecvFlags::DONTWAIT)?;
                received = Some(len);
                // Less than there was room for is all there is: to ask once more would be a system call for nothing.
                if is_driven && 0 < len && len < PIECE {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            match (received, tried) {
                (Some(len), _) => {
                    connection.received(len);
                    take(&piece[..len]);
                    return Poll::Ready(Ok(len));
                }
                (None, Err(error)) if !is_again(&error) => return Poll::Ready(Err(error)),
                (None, _) => {}
            }
        }
    })
}
