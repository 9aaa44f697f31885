//! Changes as Server-Sent Events (WHATWG HTML, section 9.2): the body of an answer that ends when one side goes.
//!
//! Gives hyper the next events only when the socket has taken those before, so that a slow reader has one batch here and
//! everything else stays where it is kept for all.

use std::fmt::Write;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::time::Interval;

use crate::http::body::content::EndlessBody;
use crate::http::watch::feed::{Event, Subscription, heartbeat};

/// The events of one subscription, as a body without end.
#[derive(Debug)]
pub struct Events {
    subscription: Subscription,
    heartbeat: Interval,
    has_started: bool,
}

impl Events {
    /// Must be made on a reactor: it has a timer.
    pub fn new(subscription: Subscription) -> Self {
        Self {
            subscription,
            heartbeat: heartbeat(),
            has_started: false,
        }
    }

    fn poll_text(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        if !self.has_started {
            self.has_started = true;
            return Poll::Ready(position("watching", self.subscription.seen()));
        }
        if let Poll::Ready(events) = self.subscription.poll_events(cx) {
            self.heartbeat.reset();
            return Poll::Ready(events.iter().fold(String::new(), with_event));
        }
        let beat = self.heartbeat.poll_tick(cx);
        beat.map(|_| position("alive", self.subscription.seen()))
    }
}

impl EndlessBody for Events {
    /// The next bytes, or `None` when the server drains, or the client may be told of nothing any more.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.subscription.connection().is_draining() || self.subscription.is_revoked() {
            return Poll::Ready(None);
        }
        ready!(self.subscription.connection().flush().poll_taken(cx));
        self.poll_text(cx).map(|text| {
            self.subscription.connection().flush().hold_piece();
            Some(Bytes::from(text))
        })
    }
}

/// A comment, and a block that moves the Last-Event-ID of the client and is no event, as it has no data: a client that
/// comes back after a quiet time has missed nothing.
fn position(comment: &str, seen: u64) -> String {
    format!(": {comment}\nid: {seen}\n\n")
}

fn with_event(mut text: String, event: &Event) -> String {
    let Event { seq, json, .. } = event;
    let kind = if event.is_resync {
        "event: resync\n"
    } else {
        ""
    };
    // Writing to a String does not fail; JSON holds no line break.
    let _ = write!(text, "id: {seq}\n{kind}data: {json}\n\n");
    text
}

/// Says in `headers` that events follow.
pub fn announce_events(headers: &mut HeaderMap) {
    let media_type = HeaderValue::from_static("text/event-stream");
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Else nginx keeps events back until it has many.
    let name = HeaderName::from_static("x-accel-buffering");
    headers.insert(name, HeaderValue::from_static("no"));
}

#[cfg(test)]
mod tests {
    use crate::http::watch::events::*;
    use crate::http::watch::feed::HEARTBEAT;
    use crate::http::watch::testing::subscribed;
    use std::future::poll_fn;
    use tokio::time::Instant;

    #[test]
    fn a_quiet_stream_says_where_it_is_once_an_interval_and_nothing_while_it_is_not_read() {
        subscribed(async |subscription, connection| {
            let seen = subscription.seen();
            let mut events = Events::new(subscription);
            let start = Instant::now();
            let first = poll_fn(|cx| events.poll_piece(cx)).await;
            assert_eq!(first.unwrap(), format!(": watching\nid: {seen}\n\n"));
            for nth in 1..=5_u32 {
                connection.flushed();
                let piece = poll_fn(|cx| events.poll_piece(cx)).await;
                assert_eq!(piece.unwrap(), format!(": alive\nid: {seen}\n\n"));
                assert_eq!(start.elapsed(), nth * HEARTBEAT);
            }
            let unread = tokio::time::timeout(10 * HEARTBEAT, poll_fn(|cx| events.poll_piece(cx)));
            assert!(unread.await.is_err(), "not read, and yet there is more");
            connection.drain();
            assert_eq!(poll_fn(|cx| events.poll_piece(cx)).await, None);
        });
    }
}
