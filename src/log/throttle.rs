//! A limit of lines that any client can cause: at most one of each kind in a second. The line has the number of lines
//! left out since the last. Without it a client could fill the log, and the queue of its lines, from which others would
//! then be lost.

use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The least time between two lines of a kind.
const PAUSE: Duration = Duration::from_secs(1);

/// Lets one line of each kind pass in each second, for one thread.
#[derive(Debug, Default)]
pub struct Throttle(RefCell<Vec<Throttled>>);

#[derive(Debug)]
struct Throttled {
    message: &'static str,
    last: Instant,
    left_out: u64,
}

impl Throttle {
    /// The number of lines with this `message` left out since the last one, if there may be one now.
    pub fn pass(&self, message: &'static str) -> Option<u64> {
        self.pass_at(message, Instant::now())
    }

    fn pass_at(&self, message: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.0.borrow_mut();
        let Some(kind) = kinds.iter_mut().find(|kind| kind.message == message) else {
            kinds.push(Throttled {
                message,
                last: now,
                left_out: 0,
            });
            return Some(0);
        };
        if now - kind.last < PAUSE {
            kind.left_out += 1;
            return None;
        }
        kind.last = now;
        Some(std::mem::take(&mut kind.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_one_a_second_of_each_kind_passes_and_tells_of_the_others() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let at = |ms: u64| throttle.pass_at("kind", start + Duration::from_millis(ms));
        assert_eq!(at(0), Some(0));
        assert_eq!((at(1), at(500), at(999)), (None, None, None));
        let other = throttle.pass_at("another", start + Duration::from_millis(999));
        assert_eq!(other, Some(0));
        assert_eq!(at(1000), Some(3));
        assert_eq!(at(1999), None);
        assert_eq!(at(10_000), Some(1));
        assert_eq!(at(20_000), Some(0));
    }
}
