//! What the publisher answers: to each who waits its own outcome, and to each thread on which some wait one wake.
//!
//! To wake a reactor from another thread costs a system call, and on one processor a switch to it and back. So the
//! waiters of a [`Round`] are answered first; then one of each thread is woken, and that one wakes its neighbours, on their
//! own thread, where this costs next to nothing. Promises that everybody is woken, also when that one has given up
//! waiting by then. Whoever is woken must go on polling its [`Reply`], or drop it, as executors do.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

/// Where a reply goes to. Dropped, it tells the waiter that there is none.
#[derive(Debug)]
pub(super) struct Asker<T>(Arc<Slot<T>>);

/// The reply, once there is one; `None` when there will be none.
#[derive(Debug)]
pub(super) struct Reply<T>(Arc<Slot<T>>);

#[derive(Debug)]
struct Slot<T> {
    /// The thread that waits.
    thread: ThreadId,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
enum State<T> {
    Awaited(Option<Waker>),
    Known(T, Arc<Neighbours>),
    /// It has been taken, or nobody wants it, or there is none.
    Over,
}

/// Waiters of one thread that have been answered and not been woken.
#[derive(Debug, Default)]
struct Neighbours(Mutex<VecDeque<Waker>>);

/// Replies given together; when it ends, whoever got one is woken.
#[derive(Debug, Default)]
pub(super) struct Round(Vec<(ThreadId, Arc<Neighbours>)>);

/// A question of this thread: where its reply goes to, and how to wait for it.
pub(super) fn ask<T>() -> (Asker<T>, Reply<T>) {
    let slot = Arc::new(Slot {
        thread: thread::current().id(),
        state: Mutex::new(State::Awaited(None)),
    });
    (Asker(Arc::clone(&slot)), Reply(slot))
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Asker<T> {
    /// Gives the reply; the waiter is woken when the round ends.
    pub(super) fn answer(self, reply: T, round: &mut Round) {
        let mut state = self.0.state();
        let State::Awaited(waker) = &mut *state else {
            return;
        };
        let neighbours = round.neighbours(self.0.thread);
        // Before it can be seen that there is a reply: whoever sees it then finds all the wakers, its own among them.
        neighbours.wakers().extend(waker.take());
        *state = State::Known(reply, neighbours);
    }
}

impl<T> Drop for Asker<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let State::Awaited(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Over;
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T> Future for Reply<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        if let State::Awaited(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let known = std::mem::replace(&mut *state, State::Over);
        drop(state);
        Poll::Ready(known.take())
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let known = std::mem::replace(&mut *self.0.state(), State::Over);
        known.take();
    }
}

impl<T> State<T> {
    /// The reply; with it goes the duty to wake the neighbours.
    fn take(self) -> Option<T> {
        match self {
            Self::Known(reply, neighbours) => {
                neighbours.wake();
                Some(reply)
            }
            Self::Awaited(_) | Self::Over => None,
        }
    }
}

impl Neighbours {
    fn wakers(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let wakers = std::mem::take(&mut *self.wakers());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Round {
    /// Those on `thread` who were answered in this round.
    fn neighbours(&mut self, thread: ThreadId) -> Arc<Neighbours> {
        let known = self.0.iter().find(|(of, _)| *of == thread);
        if let Some((_, neighbours)) = known {
            return Arc::clone(neighbours);
        }
        let new = Arc::<Neighbours>::default();
        self.0.push((thread, Arc::clone(&new)));
        new
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        for (_, neighbours) in &self.0 {
            let one = neighbours.wakers().pop_front();
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
        reply: Option<Reply<usize>>,
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

    /// So many on this thread, waiting.
    fn waiting(count: usize) -> (Vec<Asker<usize>>, Vec<Waiter>) {
        let one = |_| {
            let (asker, reply) = ask();
            let (reply, woken) = (Some(reply), Arc::default());
            let mut waiter = Waiter { reply, woken };
            assert!(waiter.poll().is_pending());
            (asker, waiter)
        };
        (0..count).map(one).unzip()
    }

    fn answer(askers: Vec<Asker<usize>>) {
        let mut round = Round::default();
        for (n, asker) in askers.into_iter().enumerate() {
            asker.answer(n, &mut round);
        }
    }

    #[test]
    fn of_a_round_one_of_each_thread_is_woken_and_wakes_the_others() {
        let (mut askers, mut here) = waiting(3);
        let (more, mut there) = thread::spawn(|| waiting(2)).join().unwrap();
        askers.extend(more);
        answer(askers);
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
    fn whoever_gives_up_waiting_leaves_nobody_asleep() {
        let (askers, mut waiters) = waiting(4);
        waiters[2].reply = None; // before there is a reply
        answer(askers);
        let first = waiters.iter_mut().find(|w| w.is_woken()).unwrap();
        first.reply = None; // woken, and not asking any more
        assert!([0, 1, 3].iter().all(|&n| waiters[n].is_woken()));
        assert_eq!(waiters[3].poll(), Poll::Ready(Some(3)));
    }

    #[test]
    fn who_looks_before_the_round_ends_leaves_nobody_asleep() {
        let (askers, mut waiters) = waiting(3);
        let mut round = Round::default();
        for (n, asker) in askers.into_iter().enumerate() {
            asker.answer(n, &mut round);
            if n == 1 {
                assert_eq!(waiters[0].poll(), Poll::Ready(Some(0)));
            }
        }
        drop(round);
        assert!(waiters.iter().all(Waiter::is_woken));
    }

    #[test]
    fn an_asker_that_goes_without_an_answer_is_heard() {
        let (askers, mut waiters) = waiting(2);
        drop(askers);
        for waiter in &mut waiters {
            assert!(waiter.is_woken());
            assert_eq!(waiter.poll(), Poll::Ready(None));
        }
    }

    #[test]
    fn on_a_runtime_every_reply_arrives_whoever_is_aborted() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            for round in 0..200 {
                let (askers, tasks): (Vec<_>, Vec<_>) = (0..8)
                    .map(|_| {
                        let (asker, reply) = ask();
                        (asker, tokio::spawn(reply))
                    })
                    .unzip();
                tokio::task::yield_now().await;
                let answering = thread::spawn(move || answer(askers));
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
