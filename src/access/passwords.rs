//! Passwords: checked by hashes that take long by design, and remembered for a while.
//!
//! Promises that few are checked at once and few wait, so that guessing takes neither the processor nor the memory from
//! others; that equal ones share a check; and that one name is checked once at a time. What is remembered cannot be turned
//! back into a password, and says nothing in another process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared, ready};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use super::password_hash::{Evidence, PasswordHash};
use super::policy::Policy;
use crate::metrics::AccessCounters;
use crate::transfer::{BlockingPool, random};
use crate::value::Error;

/// Checks at once: each takes the memory that its hash asks for.
const AT_ONCE: usize = 2;

/// Checks that wait.
const WAITING: usize = 16;

/// Checks of one name, under way and waiting: guesses of one do not keep the others out.
const OF_ONE_NAME: usize = 4;

/// How long a right password is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Right passwords remembered.
const MOST: usize = 1024;

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
    /// None remembered, to begin with. A process that gets no random bytes cannot be told from another one, so it does not
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
        // It may have ended since the caller looked.
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
        if verified.len() >= MOST {
            verified.retain(|_, end| *end > now);
        }
        if verified.len() >= MOST
            && let Some(oldest) = verified.iter().min_by_key(|(_, end)| **end)
        {
            let oldest = *oldest.0;
            verified.remove(&oldest);
        }
        verified.insert(tag, now + REMEMBERED);
    }

    /// Of a hash that was replaced it is another one.
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

    /// Of two requests on two reactors, one may look for a remembered password just before the check of the other ends.
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
