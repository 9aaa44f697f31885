//! Failed authentications: how often a client may fail.
//!
//! A client may fail ten times, and once more each second. A bounded number of clients that failed lately is
//! remembered. When the table is full, other clients that fail are refused too, and a password that is not remembered
//! counts as a failure until it was checked.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Failures at once.
const BURST: u32 = 10;

/// The time for which one failure counts.
const EACH: Duration = Duration::from_secs(1);

/// Refused attempts of a client before its remembered passwords are forgotten: others may share its address, and would
/// learn from what is refused and what is not.
const MOST_REFUSED: u32 = 100;

/// Clients remembered: a few megabytes.
const MAX_SOURCES: usize = 1 << 16;

/// The failed authentications of each source.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    debts: HashMap<ClientSource, Debt>,
    /// When old failures were last forgotten.
    swept: Option<Instant>,
}

/// The failures of one client.
#[derive(Clone, Copy, Debug)]
struct Debt {
    /// When all of them will have been forgotten.
    end: Instant,
    /// Attempts refused since they began.
    refused: u32,
}

impl Failures {
    /// Counts a failure of `source` at `now`, or returns how long the source has to wait.
    pub fn count(&self, source: ClientSource, now: Instant) -> Result<(), Duration> {
        let mut remembered = self.0.lock();
        remembered.make_room(now);
        let debts = &mut remembered.debts;
        if debts.len() >= MAX_SOURCES && !debts.contains_key(&source) {
            return Err(EACH);
        }
        let fresh = Debt {
            end: now,
            refused: 0,
        };
        let debt = debts.entry(source).or_insert(fresh);
        if debt.end <= now {
            *debt = fresh;
        }
        let end = debt.end + EACH;
        let wait = end.saturating_duration_since(now + BURST * EACH);
        if wait.is_zero() {
            debt.end = end;
            return Ok(());
        }
        debt.refused = debt.refused.saturating_add(1);
        Err(wait)
    }

    /// Takes back one failure of `source`.
    pub fn give_back(&self, source: ClientSource) {
        if let Some(debt) = self.0.lock().debts.get_mut(&source) {
            debt.end = debt.end.checked_sub(EACH).unwrap_or(debt.end);
        }
    }

    /// True where more attempts of `source` were refused than one client makes by mistake.
    pub fn is_flooding(&self, source: ClientSource, now: Instant) -> bool {
        let remembered = self.0.lock();
        let debt = remembered.debts.get(&source);
        debt.is_some_and(|debt| debt.end > now && debt.refused >= MOST_REFUSED)
    }
}

impl Remembered {
    /// Forgets old failures if the table is full, at most once in [`EACH`]: it visits all clients. Returns true if it
    /// did.
    fn make_room(&mut self, now: Instant) -> bool {
        let is_due = self.swept.is_none_or(|swept| now >= swept + EACH);
        if self.debts.len() < MAX_SOURCES || !is_due {
            return false;
        }
        self.swept = Some(now);
        self.debts.retain(|_, debt| debt.end > now);
        true
    }
}

/// One client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientSource {
    /// An IPv4 address, or an IPv6 network of 64 bits, which is what one customer gets.
    Network(IpAddr),
    /// The user of processes that connect to a unix socket.
    User(u32),
}

impl ClientSource {
    /// The source of connections from `address`.
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

impl fmt::Display for ClientSource {
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
        let source = ClientSource::of([192, 0, 2, 1].into());
        let other = ClientSource::of([192, 0, 2, 2].into());
        let counted = |source, now| {
            (0..100)
                .filter(|_| failures.count(source, now).is_ok())
                .count()
        };
        assert_eq!(counted(source, now), 10);
        assert!(!failures.is_flooding(source, now), "90 were refused");
        let wait = failures.count(source, now).unwrap_err();
        assert_eq!(wait, EACH);
        assert_eq!(counted(source, now + EACH), 1);
        assert_eq!(counted(other, now), 10);
        failures.give_back(other);
        assert_eq!(counted(other, now), 1, "one was given back");
        assert_eq!(counted(source, now), 0);
        assert!(failures.is_flooding(source, now));
        let later = now + Duration::from_secs(60);
        assert!(!failures.is_flooding(source, later));
        assert_eq!(counted(source, later), 10);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_room_is_made() {
        let (failures, now) = (Failures::default(), Instant::now());
        let most = u32::try_from(MAX_SOURCES).unwrap();
        for user in 0..most + 10 {
            assert_eq!(
                failures.count(ClientSource::User(user), now).is_ok(),
                user < most
            );
        }
        assert_eq!(failures.0.lock().debts.len(), MAX_SOURCES);
        assert!(
            failures
                .count(ClientSource::User(most), now + 2 * EACH)
                .is_ok()
        );
        assert_eq!(failures.0.lock().debts.len(), 1);
    }

    #[test]
    fn a_flood_of_clients_has_all_of_them_looked_at_once_a_second_alone() {
        let (failures, now) = (Failures::default(), Instant::now());
        for user in 0..u32::try_from(MAX_SOURCES).unwrap() {
            failures.count(ClientSource::User(user), now).unwrap();
        }
        let mut remembered = failures.0.lock();
        let at = |step: u32| now + step * EACH / 10;
        let looked = (0..100).filter(|&step| remembered.make_room(at(step)));
        assert_eq!(looked.count(), 2, "there is room after a second");
        let later = now + 10 * EACH;
        remembered.swept = None;
        let (end, refused) = (later + 100 * EACH, 0);
        remembered.debts = (0..u32::try_from(MAX_SOURCES).unwrap())
            .map(|user| (ClientSource::User(user), Debt { end, refused }))
            .collect();
        let at = |step: u32| later + step * EACH / 10;
        let looked = (0..100).filter(|&step| remembered.make_room(at(step)));
        assert_eq!(looked.count(), 10, "no source can be forgotten for 10 s");
    }
}
