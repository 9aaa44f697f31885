//! The orderly end of a connection.
//!
//! Many clients see a response only when they have sent their whole request. One that is refused is read, and what it sends
//! is dropped, for as long as nginx does it (`lingering_time`, `lingering_timeout`), and at a bounded rate.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::net::{Shutdown, shutdown};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection_context::ConnectionContext;
use super::idle_read;
use super::timeouts::Command;

/// How long the peer has to acknowledge the end of a connection or a stream.
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// How much of what a refused stream sends is read and dropped, in bytes.
pub(super) const MOST_DROPPED: usize = 1 << 20;

/// How long a client of HTTP/1 may go on sending a request that was refused.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// How long the server waits for such a client when it sends nothing.
const SILENCE: Duration = Duration::from_secs(5);

/// The server pauses for [`PAUSE`] after it has dropped this many bytes.
const STEP: usize = 1 << 20;

/// With [`STEP`], 20 MiB a second.
const PAUSE: Duration = Duration::from_millis(50);

/// Shuts the connection down in order. A client that has sent more than was read, or `may_send_on`, is read for `longest`:
/// closing with bytes unread would reset the connection, and the client might never see its response.
pub(super) async fn close(
    context: &ConnectionContext<'_>,
    may_send_on: bool,
    longest: Duration,
) -> io::Result<()> {
    let (writer, socket) = (&context.writer, context.socket.raw());
    if context.socket.tls().is_some() {
        let closed = poll_fn(|cx| writer.poll_close(cx));
        if let Ok(closed) = timeout(LINGER, closed).await {
            closed?;
        }
    }
    let is_read = || socket.with(|socket| Ok(ioctl_fionread(socket)? == 0));
    if !context.state.left_unread() && !may_send_on && is_read()? {
        // To close is to shut down in order here: the socket has no other owner.
        return Ok(());
    }
    socket.with(|socket| Ok(shutdown(socket, Shutdown::Write)?))?;
    let longest = if context.state.is_draining() {
        LINGER
    } else {
        longest
    };
    linger(context, longest).await
}

/// Drops what the client sends, until it ends or the time is over. During a drain, or when another client waits for its place,
/// it has [`LINGER`].
async fn linger(context: &ConnectionContext<'_>, longest: Duration) -> io::Result<()> {
    let mut end = pin!(sleep(longest));
    let mut dropped = 0;
    loop {
        let some = poll_fn(|cx| {
            if context.commands.next(cx) == Some(Command::Finish) {
                let soon = Instant::now() + LINGER;
                let sooner = soon.min(end.deadline());
                end.as_mut().reset(sooner);
            }
            if end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(0));
            }
            idle_read::poll_drop(&context.socket, &context.state, cx)
        });
        match timeout(SILENCE, some).await {
            Ok(Ok(read @ 1..)) => dropped += read,
            Ok(ended) => return ended.map(drop),
            Err(_) => return Ok(()),
        }
        if dropped >= STEP {
            dropped = 0;
            sleep_until(end.deadline().min(Instant::now() + PAUSE)).await;
        }
    }
}
