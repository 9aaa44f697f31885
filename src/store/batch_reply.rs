//! Replies of the publisher: each waiter gets its own outcome, and each thread that waits is woken once for a batch.
//!
//! To wake a reactor from another thread costs a system call, and on one processor a switch to it and back. So all
//! waiters of a [`WakeBatch`] get their replies first. Then one waiter of each thread is woken, and it wakes the others of
//! its thread, where that costs next to nothing. Promises that every waiter is woken, also when the one that was woken
//! first has given up waiting. A woken task must poll its [`Receiver`] again, or drop it, as executors do.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

/// Sends one reply. When it is dropped, the receiver learns that there will be none.
#[derive(Debug)]
pub struct Sender<T>(Arc<Slot<T>>);

/// Resolves to the reply, or to `None` when there will be none.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Slot<T>>);

#[derive(Debug)]
struct Slot<T> {
    /// The thread that waits.
    thread: ThreadId,
    state: Mutex<ReplyState<T>>,
}

#[derive(Debug)]
enum ReplyState<T> {
    Awaited(Option<Waker>),
    Known(T, Arc<Waiters>),
    /// The reply was taken, or is not wanted, or will not come.
    Over,
}

/// Waiters of one thread that have their reply and have not been woken.
#[derive(Debug, Default)]
struct Waiters(Mutex<VecDeque<Waker>>);

/// Replies sent together; when it is dropped, all their waiters are woken.
#[derive(Debug, Default)]
pub struct WakeBatch(Vec<(ThreadId, Arc<Waiters>)>);

/// Returns a channel for one reply, which the calling thread waits for.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Slot {
        thread: thread::current().id(),
        state: Mutex::new(ReplyState::Awaited(None)),
    });
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, ReplyState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends the reply; the waiter is woken when `batch` is dropped.
    pub fn send(self, reply: T, batch: &mut WakeBatch) {
        let mut state = self.0.state();
        let ReplyState::Awaited(waker) = &mut *state else {
            return;
        };
        let waiters = batch.waiters(self.0.thread);
        // Before the reply can be seen: a waiter that sees it then finds all the wakers, its own among them.
        waiters.wakers().extend(waker.take());
        *state = ReplyState::Known(reply, waiters);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let ReplyState::Awaited(waker) = &mut *state {
            let waker = waker.take();
            *state = ReplyState::Over;
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        if let ReplyState::Awaited(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let known = std::mem::replace(&mut *state, ReplyState::Over);
        drop(state);
        Poll::Ready(known.take())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let known = std::mem::replace(&mut *self.0.state(), ReplyState::Over);
        known.take();
    }
}

impl<T> ReplyState<T> {
    /// The reply. To take it is also to wake the other waiters of the thread.
    fn take(self) -> Option<T> {
        match self {
            Self::Known(reply, waiters) => {
                waiters.wake();
                Some(reply)
            }
            Self::Awaited(_) | Self::Over => None,
        }
    }
}

impl Waiters {
    fn wakers(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let wakers = std::mem::take(&mut *self.wakers());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl WakeBatch {
    /// The waiters on `thread` that have their reply in this batch.
    fn waiters(&mut self, thread: ThreadId) -> Arc<Waiters> {
        let known = self.0.iter().find(|(of, _)| *of == thread);
        if let Some((_, waiters)) = known {
            return Arc::clone(waiters);
        }
        let new = Arc::<Waiters>::default();
        self.0.push((thread, Arc::clone(&new)));
        new
    }
}

impl Drop for WakeBatch {
    fn drop(&mut self) {
        for (_, waiters) in &self.0 {
            let one = waiters.wakers().pop_front();
            one.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    struct Waiter {
        reply: Option<Receiver<usize>>,
        woken: Arc<Woken>,
    }

    impl Waiter {
        fn poll(&mut self) -> Poll<Option<usize>> {
            let waker = Waker::from(Arc::clone(&self.woken));
            let reply = self.reply.as_mut().expect("a reply");
            Pin::new(reply).poll(&mut Context::from_waker(&waker))
        }

        fn is_woken(&self) -> bool {
            self.woken.0.load(Relaxed) > 0
        }
    }

    /// `count` waiters on this thread.
    fn waiting(count: usize) -> (Vec<Sender<usize>>, Vec<Waiter>) {
        let one = |_| {
            let (sender, reply) = channel();
            let (reply, woken) = (Some(reply), Arc::default());
            let mut waiter = Waiter { reply, woken };
            assert!(waiter.poll().is_pending());
            (sender, waiter)
        };
        (0..count).map(one).unzip()
    }

    fn answer(senders: Vec<Sender<usize>>) {
        let mut batch = WakeBatch::default();
        for (n, sender) in senders.into_iter().enumerate() {
            sender.send(n, &mut batch);
        }
    }

    #[test]
    fn a_batch_wakes_one_waiter_of_each_thread_which_wakes_the_others() {
        let (mut senders, mut here) = waiting(3);
        let (more, mut there) = thread::spawn(|| waiting(2)).join().unwrap();
        senders.extend(more);
        answer(senders);
        for waiters in [&mut here, &mut there] {
            let woken = |waiters: &[Waiter]| waiters.iter().filter(|w| w.is_woken()).count();
            assert_eq!(woken(waiters), 1);
            let first = waiters.iter_mut().find(|w| w.is_woken()).unwrap();
            assert!(first.poll().is_ready());
            assert_eq!(woken(waiters), waiters.len());
        }
        assert_eq!(here[1].poll(), Poll::Ready(Some(1)));
        assert_eq!(there[1].poll(), Poll::Ready(Some(4)));
    }

    #[test]
    fn a_waiter_that_gives_up_leaves_no_other_asleep() {
        let (senders, mut waiters) = waiting(4);
        waiters[2].reply = None; // before there is a reply
        answer(senders);
        let first = waiters.iter_mut().find(|w| w.is_woken()).unwrap();
        first.reply = None; // woken, and not asking any more
        assert!([0, 1, 3].iter().all(|&n| waiters[n].is_woken()));
        assert_eq!(waiters[3].poll(), Poll::Ready(Some(3)));
    }

    #[test]
    fn a_waiter_that_polls_before_the_batch_ends_leaves_no_other_asleep() {
        let (senders, mut waiters) = waiting(3);
        let mut batch = WakeBatch::default();
        for (n, sender) in senders.into_iter().enumerate() {
            sender.send(n, &mut batch);
            if n == 1 {
                assert_eq!(waiters[0].poll(), Poll::Ready(Some(0)));
            }
        }
        drop(batch);
        assert!(waiters.iter().all(Waiter::is_woken));
    }

    #[test]
    fn a_sender_that_is_dropped_wakes_its_receiver() {
        let (senders, mut waiters) = waiting(2);
        drop(senders);
        for waiter in &mut waiters {
            assert!(waiter.is_woken());
            assert_eq!(waiter.poll(), Poll::Ready(None));
        }
    }

    #[test]
    fn on_a_runtime_every_reply_arrives_whichever_task_is_aborted() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            for round in 0..200 {
                let (senders, tasks): (Vec<_>, Vec<_>) = (0..8)
                    .map(|_| {
                        let (sender, reply) = channel();
                        (sender, tokio::spawn(reply))
                    })
                    .unzip();
                tokio::task::yield_now().await;
                let answering = thread::spawn(move || answer(senders));
                tasks[round % 8].abort();
                for (n, task) in tasks.into_iter().enumerate() {
                    match task.await {
                        Ok(reply) => assert_eq!(reply, Some(n)),
                        Err(aborted) => assert!(aborted.is_cancelled() && n == round % 8),
                    }
                }
                answering.join().unwrap();
            }
        });
    }
}
