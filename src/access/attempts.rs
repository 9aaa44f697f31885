//! Attempts of clients to prove who they are, kept from guessing: how often one may fail, and the checks of passwords.
//!
//! A client may fail ten times, and once more each second. Clients that failed lately are remembered, a bounded number of them;
//! while there is no room, others that fail are refused too, and those that prove who they are never are.
//!
//! Passwords are checked by hashes that take long by design, and remembered for a while. Few are checked at once and few wait,
//! so guessing takes neither the processor nor the memory from others; equal ones share a check, and one name is checked once
//! at a time. What is remembered cannot be turned back into a password, and says nothing in another process.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared, ready};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use super::credentials::{Evidence, PasswordHash};
use super::policy::Policy;
use crate::metrics::AccessCounters;
use crate::transfer::{BlockingPool, random};
use crate::value::Error;

/// Failures at once.
const BURST: u32 = 10;

/// The time for which one failure counts.
const EACH: Duration = Duration::from_secs(1);

/// Clients remembered: a few megabytes.
const MAX_SOURCES: usize = 1 << 16;

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

    /// Refuses `source` where a failure at `now` would not be counted: how long it has to wait.
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
        if self.forgotten.len() < MAX_SOURCES || !is_due {
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
            None if self.forgotten.len() >= MAX_SOURCES => return Err(EACH),
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

/// Checks at once: each takes the memory that its hash asks for.
const AT_ONCE: usize = 2;

/// Checks that wait.
const WAITING: usize = 16;

/// Checks of one name, under way and waiting: guesses of one do not keep the others out.
const OF_ONE_NAME: usize = 4;

/// The time for which a right password is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Right passwords remembered.
const MAX_VERIFIED: usize = 1024;

/// A name with its password and the hash that it was held against, by the key of this process.
type Tag = [u8; 32];

/// A check that several requests may wait for; it says whether the password is right.
type Check = Shared<BoxFuture<'static, bool>>;

/// Why a password is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchecked {
    /// There are too many checks under way.
    Busy,
    /// No subject has a password.
    NoPasswords,
}

/// The checker of passwords, on the compute threads, with its memory of checks.
pub struct Passwords {
    keyed: Hmac<Sha256>,
    counters: Arc<AccessCounters>,
    verified: Mutex<HashMap<Tag, Instant>>,
    under_way: Mutex<HashMap<Tag, UnderWay>>,
    turns: Arc<Semaphore>,
}

struct UnderWay {
    check: WeakShared<BoxFuture<'static, bool>>,
    name: Box<str>,
    /// Whose turn it is among the checks of the name.
    turn: Weak<AsyncMutex<()>>,
}

impl Passwords {
    /// A checker that remembers nothing yet. A process that gets no random bytes cannot be told from another one, so it does not
    /// start.
    pub fn new(counters: Arc<AccessCounters>) -> std::io::Result<Self> {
        let key = [random()?, random()?].map(u128::to_ne_bytes).concat();
        let keyed = Hmac::new_from_slice(&key);
        Ok(Self {
            keyed: keyed.map_err(std::io::Error::other)?,
            counters,
            verified: Mutex::default(),
            under_way: Mutex::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        })
    }

    /// The evidence that this is the password of `name`, if it was right a short while ago, at `now`.
    pub fn remembered(
        &self,
        policy: &Policy,
        name: &str,
        password: &[u8],
        now: Instant,
    ) -> Option<Evidence> {
        let hash = policy.password(name)?;
        let tag = self.tag(name, password, hash);
        self.is_remembered(&tag, now).then(|| evidence(name, hash))
    }

    /// Checks `password` on the `compute` threads: the future resolves to the evidence that it is right. A name that is not
    /// known takes as long as one that is.
    pub fn check(
        self: &Arc<Self>,
        policy: &Policy,
        name: &str,
        password: Vec<u8>,
        compute: &BlockingPool,
    ) -> Result<impl Future<Output = Option<Evidence>> + use<>, Unchecked> {
        let known = policy.password(name).map(|hash| evidence(name, hash));
        let hash = policy.password(name).or(policy.stand_in());
        let hash = hash.ok_or(Unchecked::NoPasswords)?.clone();
        let tag = self.tag(name, &password, &hash);
        let (compute, counters) = (compute.clone(), Arc::clone(&self.counters));
        let verify = move || {
            let began = Instant::now();
            let is_right = hash.verify(&password);
            counters.checks.observe_duration(began.elapsed());
            Ok(is_right)
        };
        let (passwords, is_known) = (Arc::clone(self), known.is_some());
        // The proof is remembered before the check ends: a request that comes between the two begins no other check.
        let check = self.start(tag, name, async move {
            let is_right = compute.run(verify).await?;
            if is_right && is_known {
                passwords.remember(tag, Instant::now());
            }
            Ok(is_right)
        })?;
        Ok(async move { check.await.then_some(known).flatten() })
    }

    /// The check of `tag` under way, or one that begins; none where it was right a short while ago.
    fn start(
        &self,
        tag: Tag,
        name: &str,
        verify: impl Future<Output = Result<bool, Error>> + Send + 'static,
    ) -> Result<Check, Unchecked> {
        let mut under_way = self.under_way();
        under_way.retain(|_, other| other.check.upgrade().is_some());
        if let Some(same) = under_way.get(&tag).and_then(|same| same.check.upgrade()) {
            return Ok(same);
        }
        // A check may have ended since the caller looked.
        if self.is_remembered(&tag, Instant::now()) {
            return Ok(ready(true).boxed().shared());
        }
        let of_name = || under_way.values().filter(|other| *other.name == *name);
        if under_way.len() >= AT_ONCE + WAITING || of_name().count() >= OF_ONE_NAME {
            return Err(Unchecked::Busy);
        }
        let turn = of_name().find_map(|other| other.turn.upgrade());
        let (turn, turns) = (turn.unwrap_or_default(), Arc::clone(&self.turns));
        let of_turn = Arc::downgrade(&turn);
        let check = async move {
            let _turn = turn.lock().await;
            let _one = turns.acquire().await;
            verify.await.unwrap_or_else(|error| {
                tracing::error!(%error, "a password could not be checked");
                false
            })
        };
        let check = check.boxed().shared();
        if let Some(weak) = check.downgrade() {
            let entry = UnderWay {
                check: weak,
                name: name.into(),
                turn: of_turn,
            };
            under_way.insert(tag, entry);
        }
        Ok(check)
    }

    fn is_remembered(&self, tag: &Tag, now: Instant) -> bool {
        let is_remembered = self.verified().get(tag).is_some_and(|end| now < *end);
        self.counters.remembered.add(u64::from(is_remembered));
        is_remembered
    }

    fn remember(&self, tag: Tag, now: Instant) {
        let mut verified = self.verified();
        if verified.len() >= MAX_VERIFIED {
            verified.retain(|_, end| *end > now);
        }
        if verified.len() >= MAX_VERIFIED
            && let Some(oldest) = verified.iter().min_by_key(|(_, end)| **end)
        {
            let oldest = *oldest.0;
            verified.remove(&oldest);
        }
        verified.insert(tag, now + REMEMBERED);
    }

    /// The tag of a check; a hash that was replaced makes another one.
    fn tag(&self, name: &str, password: &[u8], hash: &PasswordHash) -> Tag {
        let mut tag = self.keyed.clone();
        for part in [name.as_bytes(), password, hash.as_str().as_bytes()] {
            tag.update(&(part.len() as u64).to_le_bytes());
            tag.update(part);
        }
        tag.finalize().into_bytes().into()
    }

    fn verified(&self) -> MutexGuard<'_, HashMap<Tag, Instant>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Tag, UnderWay>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn evidence(name: &str, hash: &PasswordHash) -> Evidence {
    Evidence::Password {
        name: name.into(),
        hash: hash.clone(),
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::parse;
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
        let most = u32::try_from(MAX_SOURCES).unwrap();
        for user in 0..most + 10 {
            assert_eq!(failures.count(Source::User(user), now).is_ok(), user < most);
        }
        assert_eq!(failures.remembered().forgotten.len(), MAX_SOURCES);
        assert!(failures.count(Source::User(most), now + 2 * EACH).is_ok());
        assert_eq!(failures.remembered().forgotten.len(), 1);
    }

    #[test]
    fn a_flood_of_clients_has_all_of_them_looked_at_once_a_second_alone() {
        let (failures, now) = (Failures::default(), Instant::now());
        for user in 0..u32::try_from(MAX_SOURCES).unwrap() {
            failures.count(Source::User(user), now).unwrap();
        }
        let mut remembered = failures.remembered();
        let at = |step: u32| now + step * EACH / 10;
        let looked = (0..100).filter(|&step| remembered.make_room(at(step)));
        assert_eq!(looked.count(), 2, "there is room after a second");
        let later = now + 10 * EACH;
        remembered.swept = None;
        remembered.forgotten = (0..u32::try_from(MAX_SOURCES).unwrap())
            .map(|user| (Source::User(user), later + 100 * EACH))
            .collect();
        let at = |step: u32| later + step * EACH / 10;
        let looked = (0..100).filter(|&step| remembered.make_room(at(step)));
        assert_eq!(looked.count(), 10, "nobody can be forgotten for 10 s");
    }

    /// A request on one reactor may look for a remembered password just before the check on another one ends.
    #[tokio::test]
    async fn a_check_that_ended_since_somebody_looked_is_not_made_again() {
        let hash = bcrypt::hash("secret", 4).unwrap();
        let text = format!("[[subject]]\nname = \"bob\"\npassword = \"{hash}\"\n");
        let policy = parse(Path::new("access.toml"), &text).unwrap();
        let counters = Arc::new(AccessCounters::default());
        let passwords = Arc::new(Passwords::new(Arc::clone(&counters)).unwrap());
        let compute = BlockingPool::compute(1, None).unwrap();
        let check = |password: &str| {
            passwords
                .check(&policy, "bob", password.into(), &compute)
                .unwrap()
        };
        let checks = || counters.checks.lock().read().0.iter().map(|(_, n)| n).sum();
        for remembered in 0..2 {
            assert!(check("secret").await.is_some());
            assert_eq!((checks(), counters.remembered.get()), (1_u64, remembered));
        }
        assert!(check("wrong").await.is_none());
        assert_eq!(checks(), 2);
    }
}
