//! Replies of the publisher: each waiter gets its own outcome, and each thread that waits is woken once for a batch.
//!
//! To wake a reactor from another thread costs a system call, and on one processor a switch to it and back. So the
//! replies of a [`WakeBatch`] to the waiters of one thread go together to one of them, which hands the others on:
//! within its thread a wake-up costs next to nothing. Promises that every waiter gets its reply, also when the one that
//! was woken first has given up waiting. For that each [`ReplyReceiver`] must be polled when its task is woken, or
//! dropped: one that is kept and not polled keeps the replies of the others.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};

use tokio::sync::oneshot;

/// Sends one reply. When it is dropped, the receiver learns that there will be none.
#[derive(Debug)]
pub struct Sender<T> {
    /// The thread that waits.
    thread: ThreadId,
    to: oneshot::Sender<Parcel<T>>,
}

/// Resolves to the reply, or to `None` when there will be none.
#[derive(Debug)]
pub struct ReplyReceiver<T>(oneshot::Receiver<Parcel<T>>);

/// A reply, and the replies that its receiver hands on.
#[derive(Debug)]
struct Parcel<T> {
    reply: T,
    others: Replies<T>,
}

/// Replies to waiters of one thread. When they are dropped, they are sent.
#[derive(Debug)]
struct Replies<T>(VecDeque<(oneshot::Sender<Parcel<T>>, T)>);

/// Replies that are sent together, when this is dropped.
#[derive(Debug)]
pub struct WakeBatch<T>(Vec<(ThreadId, Replies<T>)>);

/// Returns a channel for one reply, which the calling thread waits for.
pub fn channel<T>() -> (Sender<T>, ReplyReceiver<T>) {
    let (to, reply) = oneshot::channel();
    let thread = thread::current().id();
    (Sender { thread, to }, ReplyReceiver(reply))
}

impl<T> Sender<T> {
    /// Sends the reply with `batch`.
    pub fn send(self, reply: T, batch: &mut WakeBatch<T>) {
        let of_thread = batch.0.iter_mut().find(|(of, _)| *of == self.thread);
        let reply = (self.to, reply);
        match of_thread {
            Some((_, replies)) => replies.0.push_back(reply),
            None => batch.0.push((self.thread, Replies([reply].into()))),
        }
    }
}

impl<T> Future for ReplyReceiver<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let parcel = Pin::new(&mut self.0).poll(cx);
        parcel.map(|parcel| Some(parcel.ok()?.reply))
    }
}

impl<T> Default for WakeBatch<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Drop for WakeBatch<T> {
    fn drop(&mut self) {
        for (_, mut others) in self.0.drain(..) {
            while let Some((to, reply)) = others.0.pop_front() {
                match to.send(Parcel { reply, others }) {
                    Ok(()) => break,
                    // It is not waited for: the next one takes the rest.
                    Err(back) => others = back.others,
                }
            }
        }
    }
}

impl<T> Drop for Replies<T> {
    fn drop(&mut self) {
        for (to, reply) in self.0.drain(..) {
            let others = Self(VecDeque::new());
            let _ = to.send(Parcel { reply, others });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Wake, Waker};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    struct Waiter {
        reply: Option<ReplyReceiver<usize>>,
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
        (waiters[0].reply, waiters[2].reply) = (None, None); // before there is a reply
        answer(senders);
        let first = waiters.iter_mut().find(|w| w.is_woken()).unwrap();
        first.reply = None; // woken, and not asking any more
        assert!([1, 3].iter().all(|&n| waiters[n].is_woken()));
        assert_eq!(waiters[3].poll(), Poll::Ready(Some(3)));
    }

    #[test]
    fn a_waiter_that_polls_before_the_batch_ends_leaves_no_other_asleep() {
        let (senders, mut waiters) = waiting(3);
        let mut batch = WakeBatch::default();
        for (n, sender) in senders.into_iter().enumerate() {
            sender.send(n, &mut batch);
            if n == 1 {
                assert!(waiters[0].poll().is_pending());
            }
        }
        drop(batch);
        assert_eq!(waiters[0].poll(), Poll::Ready(Some(0)));
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
