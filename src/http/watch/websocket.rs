//! Changes over a WebSocket (RFC 6455): the server sends messages, and the client answers pings.
//!
//! At most one batch waits for a client that does not read. A client that answers no ping for two intervals is
//! disconnected; one that violates the protocol or sends messages gets a close frame that says so.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{FutureExt, Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Interval;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use crate::http::exchange::RequestGuard;
use crate::http::watch::feed::{BATCH, Subscription, WatchEvent, heartbeat};

/// The longest message of a client, which sends control frames alone.
const MAX_MESSAGE: usize = 4 << 10;

/// The most pings that a client leaves unanswered.
const MAX_UNANSWERED: u8 = 2;

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The client closed and was answered, or is gone.
    Gone,
    /// The server ends it, for this reason.
    Close(CloseCode, &'static str),
}

/// A subscription over a WebSocket whose handshake has been answered.
pub struct Session {
    subscription: Subscription,
    guard: RequestGuard,
    /// Pings since the client last sent anything.
    unanswered: u8,
    heartbeat: Interval,
}

impl Session {
    /// Must be made on a reactor: it has a timer.
    pub fn new(subscription: Subscription, guard: RequestGuard) -> Self {
        Self {
            subscription,
            guard,
            unanswered: 0,
            heartbeat: heartbeat(),
        }
    }

    /// Runs over `socket` until one side ends it. A client that sent too early, before its handshake was answered, is
    /// disconnected at once (RFC 6455, section 4.1).
    pub async fn run(mut self, socket: impl AsyncRead + AsyncWrite + Unpin, is_early: bool) {
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = MAX_MESSAGE;
        config.max_message_size = Some(MAX_MESSAGE);
        config.max_frame_size = Some(MAX_MESSAGE);
        // More than a batch, which is flushed as one.
        config.write_buffer_size = 2 * BATCH;
        config.max_write_buffer_size = 4 * BATCH;
        let mut socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await;
        let ending = if is_early {
            Ending::Close(CloseCode::Protocol, "the handshake had not been answered")
        } else {
            std::future::poll_fn(|cx| self.poll_turn(&mut socket, cx)).await
        };
        if let Ending::Close(code, reason) = ending {
            let reason = reason.into();
            // Sent only if the client takes it now.
            let _ = socket
                .close(Some(CloseFrame { code, reason }))
                .now_or_never();
            // Unread messages of the client must not turn the close into a reset.
            self.subscription.exchange.leave_unread();
        }
    }

    fn poll_turn(
        &mut self,
        socket: &mut WebSocketStream<impl AsyncRead + AsyncWrite + Unpin>,
        cx: &mut Context<'_>,
    ) -> Poll<Ending> {
        if self.subscription.has_ended() {
            return Poll::Ready(Ending::Close(CloseCode::Away, "the server is going away"));
        }
        if self.subscription.is_revoked() {
            let reason = "the right to watch has been revoked";
            return Poll::Ready(Ending::Close(CloseCode::Policy, reason));
        }
        if let Poll::Ready(ending) = self.poll_receive(socket, cx) {
            return Poll::Ready(ending);
        }
        let mut is_ping_due = false;
        while self.heartbeat.poll_tick(cx).is_ready() {
            if self.unanswered == MAX_UNANSWERED {
                return Poll::Ready(Ending::Gone);
            }
            self.unanswered += 1;
            is_ping_due = true;
        }
        match self.poll_send(socket, is_ping_due, cx) {
            Err(error) => Poll::Ready(ending(&error)),
            Ok(()) => Poll::Pending,
        }
    }

    /// Receives all messages that have arrived, and answers pings.
    fn poll_receive(
        &mut self,
        socket: &mut WebSocketStream<impl AsyncRead + AsyncWrite + Unpin>,
        cx: &mut Context<'_>,
    ) -> Poll<Ending> {
        loop {
            match Pin::new(&mut *socket).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ending::Gone),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(ending(&error)),
                Poll::Ready(Some(Ok(Message::Text(_) | Message::Binary(_)))) => {
                    let reason = "nothing is taken here but control frames";
                    return Poll::Ready(Ending::Close(CloseCode::Unsupported, reason));
                }
                Poll::Ready(Some(Ok(_control))) => self.unanswered = 0,
            }
        }
    }

    /// Sends pings and events while the client takes them; a batch begins when the last one has been sent.
    fn poll_send(
        &mut self,
        socket: &mut WebSocketStream<impl AsyncRead + AsyncWrite + Unpin>,
        mut is_ping_due: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let mut socket = Pin::new(socket);
        while let Poll::Ready(flushed) = socket.as_mut().poll_flush(cx) {
            flushed?;
            if std::mem::take(&mut is_ping_due) {
                socket.as_mut().start_send(Message::Ping(Bytes::new()))?;
                continue;
            }
            let Poll::Ready(events) = self.subscription.poll_events(cx) else {
                break;
            };
            for WatchEvent { json, .. } in events {
                self.guard.exchange.handed(json.len());
                socket.as_mut().start_send(Message::text(json))?;
            }
        }
        Ok(())
    }
}

/// The end of a session that failed with `error` (RFC 6455, section 7.4.1).
fn ending(error: &Error) -> Ending {
    match error {
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Ending::Gone,
        Error::Protocol(_) => Ending::Close(CloseCode::Protocol, "the protocol was broken"),
        Error::Utf8(_) => Ending::Close(CloseCode::Invalid, "text is UTF-8"),
        Error::Capacity(_) => Ending::Close(CloseCode::Size, "nothing that long is taken here"),
        _ => Ending::Gone,
    }
}

#[cfg(test)]
mod tests {
    use crate::http::watch::feed::HEARTBEAT;
    use crate::http::watch::testing::subscribed;
    use crate::http::watch::websocket::*;
    use crate::http::{Ends, Exchange};
    use futures_util::StreamExt;
    use hyper::Method;
    use std::rc::Rc;
    use std::time::Duration;
    use tokio::io::duplex;
    use tokio::time::Instant;

    fn session(subscription: Subscription, exchange: &Rc<Exchange>) -> Session {
        Session::new(subscription, RequestGuard::new(exchange, &Method::GET))
    }

    #[test]
    fn a_client_that_answers_pings_stays_however_quiet_it_is() {
        subscribed(async |subscription, exchange| {
            let session = session(subscription, &exchange);
            let (ours, theirs) = duplex(1024);
            let running = tokio::task::spawn_local(session.run(ours, false));
            let mut client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
            let start = Instant::now();
            for nth in 1..=20_u32 {
                let message = client.next().await.unwrap().unwrap();
                assert!(message.is_ping(), "{message}");
                let found = start.elapsed().as_secs();
                assert_eq!(found, u64::from(nth) * HEARTBEAT.as_secs());
            }
            assert!(!running.is_finished());
            exchange.connection().end(Ends::Last);
            exchange.wake();
            let _ = client.next().await;
            running.await.unwrap();
        });
    }

    #[test]
    fn a_client_that_answers_no_ping_for_two_intervals_is_let_go() {
        subscribed(async |subscription, exchange| {
            let session = session(subscription, &exchange);
            let (ours, _theirs) = duplex(1024);
            let start = Instant::now();
            session.run(ours, false).await;
            assert_eq!(start.elapsed(), 3 * HEARTBEAT);
        });
    }

    /// It was asked once for each interval that the machine had slept through, and let go before it could answer.
    #[test]
    fn a_pause_of_the_machine_lets_no_client_go() {
        subscribed(async |subscription, exchange| {
            let session = session(subscription, &exchange);
            let (ours, theirs) = duplex(1024);
            let running = tokio::task::spawn_local(session.run(ours, false));
            let mut client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
            tokio::task::yield_now().await;
            tokio::time::advance(10 * HEARTBEAT).await;
            for _ in 0..3 {
                let message = client.next().await.unwrap().unwrap();
                assert!(message.is_ping(), "{message}");
            }
            assert!(!running.is_finished());
        });
    }

    #[test]
    fn a_client_that_speaks_once_is_let_go_two_intervals_later() {
        subscribed(async |subscription, exchange| {
            let session = session(subscription, &exchange);
            let (ours, mut theirs) = duplex(1024);
            let start = Instant::now();
            let running = tokio::task::spawn_local(session.run(ours, false));
            tokio::time::sleep(Duration::from_secs(30)).await;
            // An unsolicited pong (RFC 6455, section 5.5.3), masked with zeros.
            let pong = [0x8a, 0x80, 0, 0, 0, 0];
            tokio::io::AsyncWriteExt::write_all(&mut theirs, &pong)
                .await
                .unwrap();
            running.await.unwrap();
            assert_eq!(start.elapsed(), 4 * HEARTBEAT);
        });
    }
}
