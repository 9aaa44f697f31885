//! Watching: subscribers get changes as they are acknowledged, over a WebSocket or as Server-Sent Events (WHATWG HTML,
//! section 9.2), the body of a response that ends when one side leaves.
//!
//! hyper gets the next events only when the socket has taken those before, so that a slow reader has one batch here and
//! everything else stays where it is kept for all.

pub mod feed;
pub mod request;
pub mod websocket;

use std::fmt::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use hyper::{Response, StatusCode};
use tokio::time::Interval;

use crate::http::body::Content;
use crate::http::body::response::Body;
use crate::http::exchange::RequestGuard;
use crate::http::piece::Piece;
use crate::http::request::{ResponseContext, Service, attach};
use crate::http::response::{Reply, empty, plain};
use crate::http::watch::feed::{Permission, Subscription, WatchEvent, heartbeat};
use crate::http::watch::request::{
    WatchRequest, WatchTransport, accept_websocket, announce_events,
};

use crate::store::Error;
pub use feed::Subscribers;
pub use websocket::Session;

/// The response to a client that watches, and the session that follows a WebSocket handshake. The subscription begins
/// before the response, so that a client which acts on the response misses nothing.
pub fn subscribe(
    service: &Service,
    subscribers: &Rc<Subscribers>,
    request: WatchRequest,
    context: &ResponseContext,
    guard: RequestGuard,
) -> (Response<Body>, Option<Box<Session>>) {
    let (prefix, since) = (request.prefix, request.since);
    let exchange = &guard.exchange;
    let permission = context.principal.as_ref().map(Permission::new);
    let subscription = Subscription::new(subscribers, exchange, prefix, since, permission);
    exchange.begin_watching();
    match request.transport {
        WatchTransport::Events => {
            // The send buffer of a subscriber is small, too small for the responses to other requests.
            exchange.close_after_response();
            let events = Content::Made(Box::pin(EventStream::new(subscription)));
            let reply = Reply::from(plain(StatusCode::OK, Body::of(events))).with(announce_events);
            let mut response = service.render(Ok(reply), context);
            attach(&mut response, guard);
            (response, None)
        }
        WatchTransport::WebSocket(accept) => {
            let reply = Reply::from(empty(StatusCode::SWITCHING_PROTOCOLS));
            let reply = reply.with(|headers| accept_websocket(headers, accept));
            let mut response = service.render(Ok(reply), context);
            let status = response.status().as_u16();
            exchange.record.answered(status, response.headers_mut());
            let session = Session::new(subscription, guard);
            (response, Some(Box::new(session)))
        }
    }
}

/// The events of one subscription, as a body without end.
pub struct EventStream {
    subscription: Subscription,
    heartbeat: Interval,
    has_started: bool,
}

impl EventStream {
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
            return Poll::Ready(position("watching", self.subscription.seen));
        }
        if let Poll::Ready(events) = self.subscription.poll_events(cx) {
            self.heartbeat.reset();
            return Poll::Ready(events.iter().fold(String::new(), with_event));
        }
        let beat = self.heartbeat.poll_tick(cx);
        beat.map(|_| position("alive", self.subscription.seen))
    }
}

impl Stream for EventStream {
    type Item = Result<Piece, Error>;

    /// The next bytes, or `None` when the server drains or the client's right has ended.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.subscription.has_ended() || self.subscription.is_revoked() {
            return Poll::Ready(None);
        }
        ready!(self.subscription.exchange.flush.poll_taken(cx));
        self.poll_text(cx).map(|text| {
            self.subscription.exchange.flush.hold_piece();
            Some(Ok(Piece::Bytes(text.into())))
        })
    }
}

/// A comment, and a block without data, which is no event but moves the Last-Event-ID of the client: one that comes
/// back after a quiet time has missed nothing.
fn position(comment: &str, seen: u64) -> String {
    format!(": {comment}\nid: {seen}\n\n")
}

fn with_event(mut text: String, event: &WatchEvent) -> String {
    let WatchEvent { seq, json, .. } = event;
    // Writing to a String does not fail; JSON holds no line break.
    let _ = writeln!(text, "id: {seq}");
    if event.is_resync {
        text.push_str("event: resync\n");
    }
    let _ = write!(text, "data: {json}\n\n");
    text
}

#[cfg(test)]
mod tests {
    use crate::http::exchange::connection::Ends;
    use crate::http::watch::feed::HEARTBEAT;
    use crate::http::watch::testing::subscribed;
    use crate::http::watch::*;
    use futures_util::StreamExt;
    use tokio::time::Instant;

    async fn text(events: &mut EventStream) -> Option<String> {
        match events.next().await?.unwrap() {
            Piece::Bytes(bytes) => Some(String::from_utf8(bytes.into()).unwrap()),
            Piece::Region(_) => panic!("a region"),
        }
    }

    #[test]
    fn a_quiet_stream_says_where_it_is_once_an_interval_and_nothing_while_it_is_not_read() {
        subscribed(async |subscription, exchange| {
            let seen = subscription.seen;
            let mut events = EventStream::new(subscription);
            let start = Instant::now();
            let first = text(&mut events).await;
            assert_eq!(first.unwrap(), format!(": watching\nid: {seen}\n\n"));
            for nth in 1..=5_u32 {
                exchange.flushed();
                let piece = text(&mut events).await;
                assert_eq!(piece.unwrap(), format!(": alive\nid: {seen}\n\n"));
                assert_eq!(start.elapsed(), nth * HEARTBEAT);
            }
            let unread = tokio::time::timeout(10 * HEARTBEAT, text(&mut events));
            assert!(unread.await.is_err(), "not read, and yet there is more");
            exchange.connection().end(Ends::Last);
            assert_eq!(text(&mut events).await, None);
        });
    }
}

/// Subscriptions for unit tests.
#[cfg(test)]
mod testing {
    use crate::access::Access;
    use crate::http::exchange::Exchange;
    use crate::http::watch::feed::{Subscribers, Subscription};
    use crate::store::{Directory, Options, Store};
    use std::rc::Rc;
    use std::sync::Arc;
    use tokio::runtime::{Builder, LocalOptions};

    /// To the changes of a store in which nothing happens, with the rules of `access`.
    pub fn subscribers(access: Option<Arc<Access>>) -> Rc<Subscribers> {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default();
        let store = Directory::open(dir.path(), &options).unwrap();
        let store = Store::Directory(Box::new(store));
        Rc::new(Subscribers::new(
            Arc::clone(store.changes().unwrap()),
            access,
        ))
    }

    /// Runs `test` on a reactor, in a time that only timers move on.
    pub fn on_reactor<T>(test: impl Future<Output = T>) -> T {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true);
        let runtime = runtime.build_local(LocalOptions::default()).unwrap();
        runtime.block_on(test)
    }

    /// Runs `test` with a subscription to a store in which nothing happens.
    pub fn subscribed(test: impl AsyncFnOnce(Subscription, Rc<Exchange>)) {
        let subscribers = subscribers(None);
        let exchange = Exchange::of_new_connection();
        on_reactor(async {
            let subscription = Subscription::new(&subscribers, &exchange, "".into(), None, None);
            test(subscription, exchange).await;
        });
    }
}
