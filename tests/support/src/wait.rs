//! Waiting for another process: always with a deadline, never with a bare sleep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything that should happen soon may take on a busy machine: only a fault takes so long.
pub const DEADLINE: Duration = Duration::from_secs(300);

/// How long a poll rests: at first, when it has waited for some time, and at most where a look takes long.
const OFTEN: Duration = Duration::from_millis(1);
const RARELY: Duration = Duration::from_millis(25);
const AT_MOST: Duration = Duration::from_millis(200);

/// Polls `holds` until it is true; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(comes_true(holds), "not within {DEADLINE:?}: {what}");
}

/// Polls `holds`; whether it is true within [`DEADLINE`].
pub fn comes_true(holds: impl FnMut() -> bool) -> bool {
    within(DEADLINE, holds)
}

/// Polls `holds`; whether it is true within `time`.
pub fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        let looked = Instant::now();
        if holds() {
            return true;
        }
        let waited = start.elapsed();
        if waited >= time {
            return false;
        }
        // A look takes CPU from what is waited for, and some take much: they read tables of the kernel or ask a page.
        let rest = (4 * looked.elapsed()).min(AT_MOST);
        let rest = (waited / 20).clamp(OFTEN, RARELY).max(rest);
        // The last look is at the end of the time and no later.
        thread::sleep(rest.min(time.saturating_sub(waited)));
    }
}

/// Lets this time pass, which is itself what a test needs: nothing tells of its end.
pub fn pass(time: Duration) {
    thread::sleep(time);
}

/// Signals the threads of a scope to end, also when the test panics, because a scope waits for its threads.
#[derive(Default)]
pub struct Done(AtomicBool);

impl Done {
    pub fn is_said(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Signals when the guard is dropped.
    pub fn when_dropped(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Done);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Release);
            }
        }
        Guard(self)
    }
}
