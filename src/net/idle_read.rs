//! Reading from a socket while hyper does not: the first bytes of a request, and what is dropped at the end.
//!
//! Reads into memory of the reactor's thread, so that a connection that waits holds no buffer.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;

use super::socket::Socket;
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

fn poll_read(
    socket: &Socket,
    connection: &ConnectionState,
    cx: &mut Context<'_>,
    mut take: impl FnMut(&[u8]),
) -> Poll<io::Result<usize>> {
    RECEIVED.with_borrow_mut(|piece| {
        piece.resize(PIECE, 0);
        let len = ready!(socket.poll_receive(cx, piece))?;
        connection.received(len);
        take(&piece[..len]);
        Poll::Ready(Ok(len))
    })
}
