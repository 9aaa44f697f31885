//! A panic while a request is answered, caught where it can still be answered.
//!
//! What a panic left behind is dropped and never looked at again, so nothing half-done is seen by others: what requests
//! share (the store's cache and publisher, counters) is changed in steps that a panic does not divide. The cause is in
//! the log already: the hook of `log` writes it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use hyper::Method;
use hyper::http::request::Parts;

use crate::http::client::Peer;
use crate::http::exchange::connection_state::ConnectionState;

/// It panicked.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

/// The result of `work`, unless it panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

/// The output of `work`, unless it panics. It stays where it is: moved in here, it would take its room twice.
pub async fn caught_in<F: Future>(mut work: Pin<&mut F>) -> Result<F::Output, Panicked> {
    poll_fn(|cx| match caught(|| work.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// Who asked for what. Holds on to nothing of the head, which would keep all of the buffer that it came in.
pub struct RequestInfo {
    peer: Peer,
    method: Method,
    path: Box<str>,
}

impl RequestInfo {
    pub fn new(head: &Parts, peer: Peer) -> Self {
        Self {
            peer,
            method: head.method.clone(),
            path: head.uri.path().into(),
        }
    }

    pub fn peer(&self) -> Peer {
        self.peer
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the answer is a head alone.
    pub fn wants_head_alone(&self) -> bool {
        self.method == Method::HEAD
    }

    /// The end of this request: the connection goes with it, as nothing is known of what was read of it.
    pub fn panicked(&self, _: Panicked, request_id: &str, connection: &ConnectionState) {
        let Self { peer, method, path } = self;
        tracing::error!(request_id, %peer, %method, key = &**path, "a request panicked");
        connection.metrics().counters().panics.add(1);
        connection.leave_unread();
    }
}

#[cfg(test)]
mod tests {
    use crate::http::exchange::panics::*;
    use std::pin::pin;

    #[tokio::test]
    async fn a_panic_is_caught_at_once_and_after_waiting() {
        assert!(matches!(caught(|| 1), Ok(1)));
        assert!(caught(|| panic!("by order")).is_err());
        let waits = |panics: bool| async move {
            tokio::task::yield_now().await;
            assert!(!panics, "by order");
            2
        };
        assert!(matches!(caught_in(pin!(waits(false))).await, Ok(2)));
        assert!(caught_in(pin!(waits(true))).await.is_err());
    }
}
