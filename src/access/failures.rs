//! How often one client may fail to prove who it is.
//!
//! Ten times, and once more each second. Only clients that failed lately are remembered, and no more than a bounded number of
//! them; while there is no room, others that fail are refused too, and those that prove who they are never are.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures at once.
const BURST: u32 = 10;

/// How long one failure counts.
const EACH: Duration = Duration::from_secs(1);

/// Clients remembered: a few megabytes.
const MOST: usize = 1 << 16;

/// The failures of each source to prove who it is.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// When the failures of a client will all have been forgotten.
    forgotten: HashMap<Source, Instant>,
    /// When it was last looked which clients can be forgotten.
    swept: Option<Instant>,
}

impl Failures {
    /// Counts a failure of `source` at `now`; else how long it has to wait.
    pub fn count(&self, source: Source, now: Instant) -> Result<(), Duration> {
        let mut remembered = self.remembered();
        remembered.make_room(now);
        let next = remembered.next(source, now)?;
        remembered.forgotten.insert(source, next);
        Ok(())
    }

    /// Whether a failure of `source` at `now` would be counted; else how long it has to wait.
    pub fn admits(&self, source: Source, now: Instant) -> Result<(), Duration> {
        self.remembered().next(source, now).map(drop)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    /// Forgets whom it can, where it is full. It looks at all clients for that, so not at each failure of a flood; whether it did.
    fn make_room(&mut self, now: Instant) -> bool {
        let is_due = self.swept.is_none_or(|swept| now >= swept + EACH);
        if self.forgotten.len() < MOST || !is_due {
            return false;
        }
        self.swept = Some(now);
        self.forgotten.retain(|_, end| *end > now);
        true
    }

    /// When the failures of `source` will have been forgotten, with one more at `now`.
    fn next(&self, source: Source, now: Instant) -> Result<Instant, Duration> {
        let end = match self.forgotten.get(&source) {
            Some(end) => (*end).max(now),
            None if self.forgotten.len() >= MOST => return Err(EACH),
            None => now,
        };
        let next = end + EACH;
        match next.checked_duration_since(now + BURST * EACH) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(next),
        }
    }
}

/// One client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// An IPv4 address, or an IPv6 network of 64 bits, which is what one customer gets.
    Network(IpAddr),
    /// The user of processes that connect to a unix socket.
    User(u32),
}

impl Source {
    /// The one that connects from `address`.
    pub fn of(address: IpAddr) -> Self {
        Self::Network(match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = u128::from(v6) & !u128::from(u64::MAX);
                Ipv6Addr::from(network).into()
            }
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => write!(f, "network {network}"),
            Self::User(uid) => write!(f, "user {uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_fails_ten_times_and_then_once_a_second() {
        let (failures, now) = (Failures::default(), Instant::now());
        let source = Source::of([192, 0, 2, 1].into());
        let other = Source::of([192, 0, 2, 2].into());
        let counted = |source, now| {
            (0..100)
                .filter(|_| failures.count(source, now).is_ok())
                .count()
        };
        assert_eq!(counted(source, now), 10);
        let wait = failures.count(source, now).unwrap_err();
        assert_eq!(wait, EACH);
        assert_eq!(counted(source, now + EACH), 1);
        assert_eq!(counted(other, now), 10);
        assert_eq!(failures.admits(other, now), Err(EACH));
        assert_eq!(failures.admits(other, now + EACH), Ok(()));
        assert_eq!(counted(source, now + Duration::from_secs(60)), 10);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_room_is_made() {
        let (failures, now) = (Failures::default(), Instant::now());
        let most = u32::try_from(MOST).unwrap();
        for user in 0..most + 10 {
            assert_eq!(failures.count(Source::User(user), now).is_ok(), user < most);
        }
        assert_eq!(failures.remembered().forgotten.len(), MOST);
        assert!(failures.count(Source::User(most), now + 2 * EACH).is_ok());
        assert_eq!(failures.remembered().forgotten.len(), 1);
    }

    #[test]
    fn a_flood_of_clients_has_all_of_them_looked_at_once_a_second_alone() {
        let (failures, now) = (Failures::default(), Instant::now());
        for user in 0..u32::try_from(MOST).unwrap() {
            failures.count(Source::User(user), now).unwrap();
        }
        let mut remembered = failures.remembered();
        let at = |step: u32| now + step * EACH / 10;
        let looked = (0..100).filter(|&step| remembered.make_room(at(step)));
        assert_eq!(looked.count(), 2, "there is room after a second");
        let later = now + 10 * EACH;
        remembered.swept = None;
        remembered.forgotten = (0..u32::try_from(MOST).unwrap())
            .map(|user| (Source::User(user), later + 100 * EACH))
            .collect();
        let at = |step: u32| later + step * EACH / 10;
        let looked = (0..100).filter(|&step| remembered.make_room(at(step)));
        assert_eq!(looked.count(), 10, "nobody can be forgotten for 10 s");
    }
}
