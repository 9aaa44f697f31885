//! The orderly end of a connection.

use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::net::{Shutdown, shutdown};

use super::resting;
use super::socket_writer::SocketWriter;
use crate::http::ConnectionState;

/// How long a client that is still sending has to read a response that came early.
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// How much of what such a client sends is read and dropped, in bytes.
pub(super) const MOST_DROPPED: usize = 1 << 20;

/// Shuts the connection down in order. A client that has sent more than was read, or `may_send_on`, is read for a while:
/// closing with bytes unread would reset the connection, and the client might never see its response.
pub(super) async fn close(
    writer: &SocketWriter,
    state: &ConnectionState,
    may_send_on: bool,
) -> io::Result<()> {
    let socket = writer.socket();
    if socket.tls().is_some() {
        let closed = poll_fn(|cx| writer.poll_close(cx));
        if let Ok(closed) = tokio::time::timeout(LINGER, closed).await {
            closed?;
        }
    }
    let is_read = || socket.raw().with(|socket| Ok(ioctl_fionread(socket)? == 0));
    if !state.left_unread() && !may_send_on && is_read()? {
        // To close is to shut down in order here: the socket has no other owner.
        return Ok(());
    }
    socket
        .raw()
        .with(|socket| Ok(shutdown(socket, Shutdown::Write)?))?;
    let mut dropped = 0;
    let lingering = poll_fn(|cx| {
        while dropped < MOST_DROPPED {
            match ready!(resting::poll_drop(socket, state, cx))? {
                0 => return Poll::Ready(io::Result::Ok(())),
                read => dropped += read,
            }
        }
        // A client that goes on and on has the rest of the time to see its response.
        Poll::Pending
    });
    if let Ok(lingered) = tokio::time::timeout(LINGER, lingering).await {
        lingered?;
    }
    Ok(())
}
