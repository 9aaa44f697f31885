//! Watches over the connections of one reactor: time limits and drain.
//!
//! A sweep once a tick looks at what each connection's [`Link`] says and tells those that are over a limit; so a
//! request costs no timer and no clock reading, and a limit is kept to within a tick. Only time spent waiting for the
//! peer counts: a slow disk is never the client's fault, and an honest transfer has no deadline.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::http::{Link, Phase};

/// How long peers may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the first byte of a request's head, or the start of the connection, to the head's end. Zero is for ever.
    pub header_timeout: Duration,
    /// Between requests. Zero is for ever.
    pub idle_timeout: Duration,
    /// Body bytes a second that a peer must send or take, averaged over [`RATE_WINDOW`]. Zero is any.
    pub min_rate: u64,
}

/// What [`Limits::min_rate`] is averaged over.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Finish what you are doing, then close.
    Finish,
    /// Close after the next answer, and say so in it.
    Last,
    /// Try to send.
    Nudge,
    /// Close: the head of a request did not arrive in time.
    LateHead,
    /// Close: the peer is too slow with a body.
    TooSlow,
}

/// The connections of one reactor.
#[derive(Debug)]
pub(super) struct Watch {
    limits: Limits,
    watched: RefCell<Slab<Entry>>,
    /// What every connection has been told, and a new one is.
    told: Cell<Option<Verdict>>,
    emptied: Notify,
}

#[derive(Debug)]
struct Entry {
    signal: Rc<Signal>,
    link: Rc<Link>,
    seen: Seen,
}

/// How a connection learns its verdict.
#[derive(Debug, Default)]
struct Signal {
    verdict: Cell<Option<Verdict>>,
    waker: RefCell<Option<Waker>>,
}

impl Signal {
    fn tell(&self, verdict: Verdict) {
        // A nudge comes again, and what was not heard yet does not.
        if verdict != Verdict::Nudge || self.verdict.get().is_none() {
            self.verdict.set(Some(verdict));
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// What earlier sweeps saw of a connection.
#[derive(Debug)]
struct Seen {
    phase: Phase,
    requests: u64,
    /// When this phase was first seen.
    since: Instant,
    /// Time of the current rate window spent waiting for the peer.
    waited: Duration,
    /// Bytes moved before the current rate window.
    moved: u64,
}

/// A connection's place in the watch, given up when it is dropped.
pub(super) struct Watched<'a> {
    watch: &'a Watch,
    place: usize,
    signal: Rc<Signal>,
}

impl Watch {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            watched: RefCell::default(),
            told: Cell::new(None),
            emptied: Notify::new(),
        }
    }

    /// Adds a connection.
    pub(super) fn add(&self, link: &Rc<Link>) -> Watched<'_> {
        let signal = Rc::new(Signal::default());
        if let Some(verdict) = self.told.get() {
            signal.tell(verdict);
        }
        let seen = Seen {
            phase: Phase::Head,
            requests: 0,
            since: Instant::now(),
            waited: Duration::ZERO,
            moved: 0,
        };
        let entry = Entry {
            signal: Rc::clone(&signal),
            link: Rc::clone(link),
            seen,
        };
        Watched {
            watch: self,
            place: self.watched.borrow_mut().insert(entry),
            signal,
        }
    }

    /// Sweeps once a tick, for ever.
    pub(super) async fn keep(&self) {
        let tick = self.tick();
        let mut ticks = tokio::time::interval(tick);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            for (_, entry) in self.watched.borrow_mut().iter_mut() {
                if let Some(verdict) = entry.seen.judge(&entry.link, now, tick, &self.limits) {
                    entry.signal.tell(verdict);
                }
            }
        }
    }

    /// Often enough for the shortest limit, at most once a second in the rule.
    fn tick(&self) -> Duration {
        let limits = [self.limits.header_timeout, self.limits.idle_timeout];
        let shortest = limits
            .into_iter()
            .filter(|l| !l.is_zero())
            .min()
            .unwrap_or(RATE_WINDOW);
        (shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Tells every connection, now and from now on, that its next answer is the last.
    pub(super) fn announce_end(&self) {
        self.tell_all(Verdict::Last);
    }

    /// Tells every connection, now and from now on, to finish.
    pub(super) fn drain(&self) {
        self.tell_all(Verdict::Finish);
    }

    fn tell_all(&self, verdict: Verdict) {
        self.told.set(Some(verdict));
        for (_, entry) in &*self.watched.borrow() {
            entry.signal.tell(verdict);
        }
    }

    /// Waits until no connection is left.
    pub(super) async fn emptied(&self) {
        while !self.watched.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.watched.borrow().len()
    }
}

impl Seen {
    /// What to tell a connection whose link says this, `now`.
    fn judge(
        &mut self,
        link: &Link,
        now: Instant,
        tick: Duration,
        limits: &Limits,
    ) -> Option<Verdict> {
        let (phase, requests) = (link.phase(), link.requests());
        if requests != self.requests || phase != self.phase {
            if requests != self.requests {
                (self.waited, self.moved) = (Duration::ZERO, link.moved());
            }
            (self.phase, self.requests, self.since) = (phase, requests, now);
        }
        if link.waits_for_peer() {
            let nudge = link.is_sending().then_some(Verdict::Nudge);
            return self.judge_rate(link, tick, limits.min_rate).or(nudge);
        }
        let over = |limit: Duration| !limit.is_zero() && now.duration_since(self.since) >= limit;
        match phase {
            Phase::Idle => over(limits.idle_timeout).then_some(Verdict::Finish),
            Phase::Head => over(limits.header_timeout).then_some(Verdict::LateHead),
            Phase::Serving | Phase::Watching => None,
        }
    }

    fn judge_rate(&mut self, link: &Link, tick: Duration, min_rate: u64) -> Option<Verdict> {
        self.waited += tick;
        if self.waited < RATE_WINDOW {
            return None;
        }
        let moved = link.moved() - self.moved;
        (self.waited, self.moved) = (Duration::ZERO, link.moved());
        (moved < min_rate * RATE_WINDOW.as_secs()).then_some(Verdict::TooSlow)
    }
}

impl Watched<'_> {
    /// What the connection has been told, and not heard yet; else has `cx` woken when it is told.
    pub(super) fn verdict(&self, cx: &Context<'_>) -> Option<Verdict> {
        let mut waker = self.signal.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.signal.verdict.take()
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut watched = self.watch.watched.borrow_mut();
        watched.remove(self.place);
        if watched.is_empty() {
            self.watch.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const WEIGHTY: [Verdict; 4] = [
        Verdict::Finish,
        Verdict::Last,
        Verdict::LateHead,
        Verdict::TooSlow,
    ];

    #[test]
    fn a_nudge_does_not_hide_a_verdict_that_was_not_heard_yet() {
        for verdict in WEIGHTY {
            let signal = Signal::default();
            signal.tell(verdict);
            signal.tell(Verdict::Nudge);
            assert_eq!(signal.verdict.take(), Some(verdict));
            // Once that is heard, a nudge is.
            signal.tell(Verdict::Nudge);
            assert_eq!(signal.verdict.take(), Some(Verdict::Nudge));
        }
    }

    #[test]
    fn any_verdict_takes_the_place_of_a_nudge_and_a_later_one_that_of_an_earlier() {
        for verdict in WEIGHTY {
            let signal = Signal::default();
            signal.tell(Verdict::Nudge);
            signal.tell(verdict);
            assert_eq!(signal.verdict.get(), Some(verdict));
            signal.tell(Verdict::Finish);
            assert_eq!(signal.verdict.get(), Some(Verdict::Finish));
        }
    }

    #[test]
    fn a_connection_is_woken_for_every_verdict_also_for_a_nudge_that_another_hides() {
        let woken = Arc::new(Woken::default());
        let signal = Signal::default();
        *signal.waker.borrow_mut() = Some(Arc::clone(&woken).into());
        for (told, verdict) in (1..).zip([Verdict::Finish, Verdict::Nudge, Verdict::Nudge]) {
            signal.tell(verdict);
            assert_eq!(woken.0.load(Ordering::Relaxed), told);
        }
    }
}
