//! What connects an upload with the body of its request: a short queue of bytes, with a task at each end.
//!
//! It holds at most [`FULL`] bytes and one push more, so the client sends no faster than the store takes. A body whose feed
//! is dropped before its end is cut off: the connection closes, and the store sees that the body is not whole.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// How many bytes wait at most before the sender of them waits, too.
const FULL: usize = 64 << 10;

/// The end of an upload that gives bytes.
#[derive(Debug, Default)]
pub struct Feed(Arc<Shared>);

/// The end that takes them.
#[derive(Clone, Debug)]
pub struct Fed(Arc<Shared>);

/// A body that was given up before its end.
#[derive(Debug, thiserror::Error)]
#[error("the upload was given up")]
pub struct Cut;

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    len: usize,
    is_taken: bool,
    end: End,
    giver: Option<Waker>,
    taker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Whole,
    Cut,
}

impl Feed {
    /// The other end.
    pub fn fed(&self) -> Fed {
        Fed(Arc::clone(&self.0))
    }

    /// Ready, when there is room for more bytes.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.state();
        if state.len < FULL {
            return Poll::Ready(());
        }
        state.giver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives these bytes.
    pub fn push(&self, data: Bytes) {
        let mut state = self.0.state();
        state.len += data.len();
        state.queue.push_back(data);
        state.wake_taker();
    }

    /// There are no more.
    pub fn end(&self) {
        self.0.end(End::Whole);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.end(End::Cut);
    }
}

impl Fed {
    /// The next bytes; `None` at the end.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let mut state = self.0.state();
        if state.end == End::Cut {
            return Poll::Ready(Some(Err(Cut)));
        }
        if let Some(data) = state.queue.pop_front() {
            state.len -= data.len();
            state.is_taken = true;
            if let Some(giver) = state.giver.take() {
                giver.wake();
            }
            return Poll::Ready(Some(Ok(data)));
        }
        if state.end == End::Whole {
            return Poll::Ready(None);
        }
        state.taker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether some bytes have been taken: another body would lack them.
    pub fn is_taken(&self) -> bool {
        self.0.state().is_taken
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first end that is told counts.
    fn end(&self, end: End) {
        let mut state = self.state();
        if state.end == End::Open {
            state.end = end;
            state.wake_taker();
        }
    }
}

impl State {
    fn wake_taker(&mut self) {
        if let Some(taker) = self.taker.take() {
            taker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::poll_fn;

    #[tokio::test]
    async fn bytes_come_in_order_and_the_giver_waits_when_it_is_full() {
        let feed = Feed::default();
        let taker = feed.fed();
        feed.push(Bytes::from(vec![1; FULL]));
        let mut full = Box::pin(poll_fn(|cx| feed.poll_room(cx)));
        assert!((&mut full).now_or_never().is_none());
        assert!(!taker.is_taken());
        let first = poll_fn(|cx| taker.poll_next(cx)).await;
        assert_eq!(first.unwrap().unwrap().len(), FULL);
        full.await;
        feed.push(Bytes::from_static(b"2"));
        feed.end();
        drop(feed);
        let second = poll_fn(|cx| taker.poll_next(cx)).await;
        assert_eq!(second.unwrap().unwrap(), "2");
        assert!(poll_fn(|cx| taker.poll_next(cx)).await.is_none());
    }

    #[tokio::test]
    async fn a_feed_that_is_dropped_cuts_the_body_off() {
        let feed = Feed::default();
        let taker = feed.fed();
        feed.push(Bytes::from_static(b"1"));
        drop(feed);
        assert!(poll_fn(|cx| taker.poll_next(cx)).await.unwrap().is_err());
    }
}
