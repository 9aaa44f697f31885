//! Ending in order: everything is asked to finish, and it is known when it has.
//!
//! One [`Drain`] belongs to the server; every thread holds a [`Draining`], and shows that it is done by dropping it.
//! After a grace period the rest is abandoned.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    Serving,
    Draining,
    Abandoned,
}

/// The side of the server.
#[derive(Debug)]
pub struct Drain {
    phase: watch::Sender<Phase>,
    alive: mpsc::Receiver<()>,
}

/// The side of a thread, kept as long as it is not done.
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
    /// Asks everything to finish, and waits until it has; what has not after the `grace` period is abandoned.
    pub async fn finish(mut self, grace: Duration) {
        self.phase.send_replace(Phase::Draining);
        if timeout(grace, self.finished()).await.is_err() {
            self.phase.send_replace(Phase::Abandoned);
            self.finished().await;
        }
    }

    /// Waits until every [`Draining`] has been dropped.
    async fn finished(&mut self) {
        // Nothing is ever sent: the channel closes with the last holder.
        let _ = self.alive.recv().await;
    }
}

impl Draining {
    /// Waits until finishing is asked for, or the server is gone.
    pub async fn started(&mut self) {
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
    use tokio::time::{Instant, sleep};

    const GRACE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn finished_when_the_last_holder_is_gone() {
        let start = Instant::now();
        let (drain, mut first) = channel();
        let mut second = first.clone();
        let holders = async {
            first.started().await;
            drop(first);
            sleep(GRACE / 2).await;
            second.started().await;
            drop(second);
        };
        tokio::join!(drain.finish(GRACE), holders);
        assert_eq!(start.elapsed(), GRACE / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_finished_is_abandoned_after_the_grace_period() {
        let start = Instant::now();
        let (drain, mut holder) = channel();
        let abandoned = async {
            holder.abandoned().await;
            assert_eq!(start.elapsed(), GRACE);
            drop(holder);
        };
        tokio::join!(drain.finish(GRACE), abandoned);
    }
}
