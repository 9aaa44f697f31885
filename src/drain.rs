//! Ending in order: asks everything to finish, and knows when it has.
//!
//! One [`Drain`] belongs to the server; every thread holds a [`Draining`]. The server asks by [`Drain::ask`], each
//! thread shows that it is done by dropping its handle, and after the grace period [`Drain::abandon`] ends the rest.

use tokio::sync::{mpsc, watch};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    Serving,
    Draining,
    Abandoned,
}

/// The asking side.
#[derive(Debug)]
pub struct Drain {
    phase: watch::Sender<Phase>,
    alive: mpsc::Receiver<()>,
}

/// The side that is asked. Alive as long as its holder is not done.
#[derive(Clone, Debug)]
pub struct Draining {
    phase: watch::Receiver<Phase>,
    _alive: mpsc::Sender<()>,
}

/// Both sides.
pub fn channel() -> (Drain, Draining) {
    let (phase, watched) = watch::channel(Phase::Serving);
    let (holder, alive) = mpsc::channel(1);
    (
        Drain { phase, alive },
        Draining {
            phase: watched,
            _alive: holder,
        },
    )
}

impl Drain {
    /// Asks everything to finish.
    pub fn ask(&self) {
        self.phase.send_replace(Phase::Draining);
    }

    /// Tells what has not finished to stop where it is.
    pub fn abandon(&self) {
        self.phase.send_replace(Phase::Abandoned);
    }

    /// Waits until every [`Draining`] has been dropped.
    pub async fn finished(&mut self) {
        // Nothing is ever sent: the channel closes with the last holder.
        let _ = self.alive.recv().await;
    }
}

impl Draining {
    /// Waits until finishing is asked for, or the server is gone.
    pub async fn asked(&mut self) {
        self.reached(Phase::Draining).await;
    }

    /// Waits until the grace period is over, or the server is gone.
    pub async fn abandoned(&mut self) {
        self.reached(Phase::Abandoned).await;
    }

    async fn reached(&mut self, phase: Phase) {
        let _ = self.phase.wait_for(|now| *now >= phase).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn finished_when_the_last_holder_is_gone() {
        let (mut drain, mut one) = channel();
        let two = one.clone();
        drain.ask();
        one.asked().await;
        drop(one);
        let mut finished = std::pin::pin!(drain.finished());
        assert!(futures_are_pending(finished.as_mut()).await);
        drop(two);
        finished.await;
    }

    async fn futures_are_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
        let mut future = future;
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending()))
            .await
    }
}
