//! Waiting for what another process does in its own time: always with a deadline, never a bare sleep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything that should happen soon may take on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Asks `holds` again and again until it says yes; panics with `what` after [`DEADLINE`].
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Tells threads of a scope to end, also when the test panics: a scope waits for its threads.
#[derive(Default)]
pub(crate) struct Done(AtomicBool);

impl Done {
    pub(crate) fn is_said(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Says it when the guard is dropped.
    pub(crate) fn when_dropped(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Done);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Release);
            }
        }
        Guard(self)
    }
}
