//! The end of a connection, whatever protocol it spoke: all is sent, the sending side is shut down, and what the client
//! still sends is read and dropped until it ends its side or falls silent.
//!
//! Promises that a response is not lost that the kernel has and the client has not: a socket that is dropped while its
//! client sends answers by a reset, and with that goes what was not sent. Until all is sent, the client is waited for
//! as in any body, within the same limits; then it has the times below.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};

use super::connections::LINGER;
use super::reactor::{ConnectionContext, ConnectionError};
use super::socket::Socket;
use super::socket_writer::BURST;

/// How long a client may go on sending after the end (nginx: `lingering_time`).
const LONGEST: Duration = Duration::from_secs(30);

/// The most that is dropped of what it sends, in bytes: 30 s at half a gigabit a second.
const MOST_DROPPED: usize = 2 << 30;

/// So little is left to the kernel, which keeps it for minutes for a client that takes nothing, in bytes.
const LITTLE: u64 = 64 << 10;

/// How long the server waits for a client that sends nothing of what it began (nginx: `lingering_timeout`).
const SILENCE: Duration = Duration::from_secs(5);

/// What the client of a connection that ends may be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerActivity {
    /// It has sent all that was asked of it, as far as is known.
    IsAnswered,
    /// It has sent more than was read, and may see its response only when it has sent its whole request.
    SendsOn,
    /// It speaks HTTP/2, and sends frames for as long as it reads.
    SendsFrames,
    /// It watches changes, and can resume where it was when it reconnects.
    Subscribes,
}

/// Ends the connection in order.
pub(super) async fn end(
    context: &ConnectionContext<'_>,
    peer: PeerActivity,
) -> Result<(), ConnectionError> {
    let socket = &context.socket;
    let mut rest = Rest::default();
    if socket.tls().is_some() {
        context.follow(|cx| socket.poll_close(cx)).await?;
    }
    let is_answered = peer == PeerActivity::IsAnswered && !context.exchange.left_unread();
    // Then dropping the socket sends FIN: no byte is unread, so no RST, and the kernel sends what it has.
    let is_little = context.exchange.progress.moved.get() <= LITTLE;
    if is_answered && is_little && !socket.raw.has_unread() {
        return Ok(());
    }
    socket.raw.push();
    let sent = context.follow(|cx| {
        let polled = poll_sent(socket, cx);
        if polled.is_pending() {
            rest.poll_drop(context, cx)?;
        }
        polled
    });
    if peer != PeerActivity::Subscribes {
        sent.await?;
    } else if let Ok(sent) = timeout(LINGER, sent).await {
        sent?;
    } else {
        return Ok(());
    }
    if is_answered && rest.dropped == 0 && !socket.raw.has_unread() {
        return Ok(());
    }
    (socket.raw).with(|socket| Ok(shutdown(socket, Shutdown::Write)?))?;
    Ok(rest.linger(context, peer).await?)
}

/// Waits until the kernel has sent all that it was given. The client is waited for meanwhile: what it takes counts as
/// it does in a body.
pub(super) fn poll_sent(socket: &Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    ready!(socket.poll_flush(cx))?;
    if socket.exchange.has_lost_client() {
        return Poll::Ready(Ok(()));
    }
    let progress = &socket.exchange.progress;
    let polled = socket.raw.poll_sent(cx, |sent| progress.count(sent));
    progress.writing.set(polled.is_pending());
    polled
}

/// What the client sends after the end, which is dropped.
#[derive(Debug, Default)]
struct Rest {
    dropped: usize,
    has_ended: bool,
}

impl Rest {
    /// Drops what has arrived, no more than a burst in a turn.
    fn poll_drop(
        &mut self,
        context: &ConnectionContext<'_>,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        let before = self.dropped;
        while !self.has_ended && self.dropped < MOST_DROPPED {
            if self.dropped - before >= BURST {
                cx.waker().wake_by_ref();
                break;
            }
            match context.poll_read(cx, |_| {})? {
                Poll::Ready(read) => {
                    self.dropped += read;
                    self.has_ended = read == 0;
                }
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Drops what the client sends until it ends, has had its time, or has sent [`MOST_DROPPED`]. It is read at full
    /// speed, for a client may look for the response only when it has sent all. Others have their turn after each
    /// [`BURST`]. During a drain, or when another client waits for its place, one that goes on with a request has
    /// [`LINGER`]; one that reads the last frames has it after each that it sends.
    async fn linger(
        mut self,
        context: &ConnectionContext<'_>,
        peer: PeerActivity,
    ) -> io::Result<()> {
        let reads_frames = peer == PeerActivity::SendsFrames;
        let is_hurried = Cell::new(context.exchange.progress.given_up.get() && !reads_frames);
        let first = if is_hurried.get() { LINGER } else { LONGEST };
        let end = Cell::new(Instant::now() + first);
        let silence = if reads_frames { LINGER } else { SILENCE };
        while !self.has_ended && self.dropped < MOST_DROPPED {
            let before = self.dropped;
            let some = poll_fn(|cx| {
                context.exchange.register(cx);
                if !reads_frames && context.is_finishing() && !is_hurried.replace(true) {
                    end.set(end.get().min(Instant::now() + LINGER));
                    return Poll::Ready(io::Result::Ok(()));
                }
                self.poll_drop(context, cx)?;
                if self.has_ended || self.dropped > before {
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending
            });
            let until = end.get().min(Instant::now() + silence);
            match timeout_at(until, some).await {
                Ok(some) => some?,
                Err(_) => return Ok(()),
            }
            yield_now().await;
        }
        Ok(())
    }
}
