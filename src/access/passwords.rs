//! The checks of passwords, and what is remembered of them.
//!
//! Passwords are hashed so that a check takes long by design. Few are checked at once and few wait, so guessing takes
//! neither the processor nor the memory from others; equal ones share a check, and one name is checked once at a time.
//! A check belongs to the checker, not to the requests that wait for it: once begun, it keeps its place and counts,
//! even if its clients have left. A check that has not begun is then dropped.
//!
//! A check is counted as a failure of its client before it begins, and given back when the password was right. A right
//! password is remembered for a while, only for the client that sent it: other clients, whose guesses are limited,
//! learn nothing from it. The remembered tag cannot be turned back into a password, and is useless in another process.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use sha2::Sha256;
use tokio::sync::watch;

use super::attempts::{ClientSource, Failures};
use super::credentials::{Evidence, PasswordHash};
use super::policy::Policy;
use crate::metrics::AccessCounters;
use crate::transfer::{BlockingPool, random};

/// Concurrent checks: each takes the memory that its hash requires.
const AT_ONCE: usize = 2;

/// Checks that wait.
const WAITING: usize = 16;

/// Checks of one name, under way and waiting: guesses of one do not keep the others out.
const OF_ONE_NAME: usize = 4;

/// The time for which a right password is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Right passwords remembered, each for one client.
const MAX_VERIFIED: usize = 4096;

/// A name with its password and the hash that it was held against, by the key of this process.
type CheckTag = [u8; 32];

/// Why a password is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// There are too many checks under way.
    Busy,
    /// The client failed too often, and has to wait for so long.
    Limited(Duration),
    /// No subject has a password.
    NoPasswords,
}

/// The checker of passwords, on the compute threads, with its memory of checks.
pub struct Passwords {
    keyed: Hmac<Sha256>,
    /// The counters of all authentications.
    pub counters: AccessCounters,
    /// The failures of clients.
    pub failures: Failures,
    verified: Mutex<HashMap<(CheckTag, ClientSource), Instant>>,
    /// The checks that run and those that wait, the oldest first.
    under_way: Mutex<Vec<UnderWay>>,
}

/// A check that several requests may wait for.
struct UnderWay {
    tag: CheckTag,
    name: Box<str>,
    /// Its clients. Each has a failure counted, which it gets back when the password is right or not checked.
    sources: HashSet<ClientSource>,
    /// Sends the requests that wait whether the password is right.
    result: watch::Sender<Option<bool>>,
    /// `None` once it runs.
    waiting: Option<Check>,
}

/// A password to check.
struct Check {
    password: Vec<u8>,
    hash: PasswordHash,
    /// The name is a subject's. The password of an unknown name is checked against some hash, and is always wrong.
    is_known: bool,
}

impl Passwords {
    /// A checker that remembers nothing yet. Fails if the system has no random bytes: the keys of two
    /// processes could be equal.
    pub fn new() -> std::io::Result<Self> {
        let key = [random()?, random()?].map(u128::to_ne_bytes).concat();
        let keyed = Hmac::new_from_slice(&key);
        Ok(Self {
            keyed: keyed.map_err(std::io::Error::other)?,
            counters: AccessCounters::default(),
            failures: Failures::default(),
            verified: Mutex::default(),
            under_way: Mutex::default(),
        })
    }

    /// The evidence that this is the password of `name`, if `source` proved it a short while ago, at `now`.
    pub fn remembered(
        &self,
        policy: &Policy,
        name: &str,
        password: &[u8],
        source: ClientSource,
        now: Instant,
    ) -> Option<Evidence> {
        let hash = policy.passwords.get(name)?;
        let tag = self.tag(name, password, hash);
        self.is_remembered(tag, source, now)
            .then(|| evidence(name, hash))
    }

    /// Checks the `password` that `source` sent on the `compute` threads: the future resolves to the evidence that it
    /// is right. A name that is not known takes as long as one that is.
    pub fn check(
        self: &Arc<Self>,
        policy: &Policy,
        name: &str,
        password: Vec<u8>,
        source: ClientSource,
        compute: &BlockingPool,
    ) -> Result<impl Future<Output = Option<Evidence>> + use<>, CheckError> {
        let of_name = policy.passwords.get(name);
        let known = of_name.map(|hash| evidence(name, hash));
        let hash = of_name.or(policy.stand_in());
        let hash = hash.ok_or(CheckError::NoPasswords)?.clone();
        let tag = self.tag(name, &password, &hash);
        let check = Check {
            password,
            hash,
            is_known: known.is_some(),
        };
        let mut result = self.join(tag, name, source, check, compute)?;
        Ok(async move {
            let result = result.wait_for(Option::is_some).await;
            let is_right = result.is_ok_and(|is_right| *is_right == Some(true));
            known.filter(|_| is_right)
        })
    }

    /// The result of the check of `tag` under way, or of this one, which then begins or waits.
    fn join(
        self: &Arc<Self>,
        tag: CheckTag,
        name: &str,
        source: ClientSource,
        check: Check,
        compute: &BlockingPool,
    ) -> Result<watch::Receiver<Option<bool>>, CheckError> {
        let now = Instant::now();
        let mut under_way = self.under_way.lock();
        self.drop_unwanted(&mut under_way);
        let same = under_way.iter_mut().find(|other| other.tag == tag);
        if let Some(same) = &same
            && same.sources.contains(&source)
        {
            return Ok(same.result.subscribe());
        }
        // A check may have ended since the caller looked.
        if self.is_remembered(tag, source, now) {
            return Ok(watch::channel(Some(true)).1);
        }
        let counted = self.failures.count(source, now);
        counted.map_err(CheckError::Limited)?;
        if let Some(same) = same {
            same.sources.insert(source);
            return Ok(same.result.subscribe());
        }
        let of_name = under_way.iter().filter(|other| *other.name == *name);
        if under_way.len() >= AT_ONCE + WAITING || of_name.count() >= OF_ONE_NAME {
            self.failures.give_back(source);
            return Err(CheckError::Busy);
        }
        let (sender, receiver) = watch::channel(None);
        under_way.push(UnderWay {
            tag,
            name: name.into(),
            sources: HashSet::from([source]),
            result: sender,
            waiting: Some(check),
        });
        self.start_next(&mut under_way, compute);
        Ok(receiver)
    }

    /// Ends the checks that have not begun and that no request waits for any more.
    fn drop_unwanted(&self, under_way: &mut Vec<UnderWay>) {
        let is_unwanted =
            |check: &mut UnderWay| check.waiting.is_some() && check.result.receiver_count() == 0;
        for unwanted in under_way.extract_if(.., is_unwanted) {
            for source in unwanted.sources {
                self.failures.give_back(source);
            }
        }
    }

    /// Starts the oldest of the waiting checks, as far as there may be more at once.
    fn start_next(self: &Arc<Self>, under_way: &mut Vec<UnderWay>, compute: &BlockingPool) {
        self.drop_unwanted(under_way);
        loop {
            let running = under_way.iter().filter(|check| check.waiting.is_none());
            let running: Vec<&str> = running.map(|check| &*check.name).collect();
            let has_turn = |check: &UnderWay| !running.contains(&&*check.name);
            let next = under_way.iter().position(has_turn);
            let Some(next) = next.filter(|_| running.len() < AT_ONCE) else {
                return;
            };
            let (tag, check) = (under_way[next].tag, under_way[next].waiting.take());
            let (passwords, pool) = (Arc::clone(self), compute.clone());
            compute.spawn_detached(move || {
                let is_right = check.is_some_and(|check| passwords.verify(&check));
                passwords.finish(tag, is_right, &pool);
            });
        }
    }

    /// True where the password is right: it takes milliseconds.
    fn verify(&self, check: &Check) -> bool {
        let began = Instant::now();
        let is_right = catch_unwind(AssertUnwindSafe(|| check.hash.verify(&check.password)));
        self.counters.checks.observe_duration(began.elapsed());
        is_right.unwrap_or(false) && check.is_known
    }

    /// Ends the check of `tag`, which ran. Its result is remembered before others can begin the same check.
    fn finish(self: &Arc<Self>, tag: CheckTag, is_right: bool, compute: &BlockingPool) {
        let mut under_way = self.under_way.lock();
        if let Some(at) = under_way.iter().position(|check| check.tag == tag) {
            let check = under_way.remove(at);
            for source in check.sources.into_iter().filter(|_| is_right) {
                self.remember(tag, source, Instant::now());
                self.failures.give_back(source);
            }
            check.result.send_replace(Some(is_right));
        }
        self.start_next(&mut under_way, compute);
    }

    fn is_remembered(&self, tag: CheckTag, source: ClientSource, now: Instant) -> bool {
        let end = self.verified.lock().get(&(tag, source)).copied();
        let is_remembered =
            end.is_some_and(|end| now < end) && !self.failures.is_flooding(source, now);
        self.counters.remembered.add(u64::from(is_remembered));
        is_remembered
    }

    fn remember(&self, tag: CheckTag, source: ClientSource, now: Instant) {
        let mut verified = self.verified.lock();
        if verified.len() >= MAX_VERIFIED {
            verified.retain(|_, end| *end > now);
        }
        if verified.len() >= MAX_VERIFIED
            && let Some(oldest) = verified.iter().min_by_key(|(_, end)| **end)
        {
            let oldest = *oldest.0;
            verified.remove(&oldest);
        }
        verified.insert((tag, source), now + REMEMBERED);
    }

    /// The tag of a check; a hash that was replaced makes another one.
    fn tag(&self, name: &str, password: &[u8], hash: &PasswordHash) -> CheckTag {
        let mut tag = self.keyed.clone();
        for part in [name.as_bytes(), password, hash.as_str().as_bytes()] {
            tag.update(&(part.len() as u64).to_le_bytes());
            tag.update(part);
        }
        tag.finalize().into_bytes().into()
    }
}

fn evidence(name: &str, hash: &PasswordHash) -> Evidence {
    Evidence::Password {
        name: name.into(),
        hash: hash.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::parse;
    use super::*;

    /// A request on one reactor may look for a remembered password just before the check on another one ends.
    #[tokio::test]
    async fn a_check_that_ended_since_somebody_looked_is_not_made_again() {
        let hash = bcrypt::hash("secret", 4).unwrap();
        let text = format!("[[subject]]\nname = \"bob\"\npassword = \"{hash}\"\n");
        let policy = parse(Path::new("access.toml"), &text).unwrap();
        let passwords = Arc::new(Passwords::new().unwrap());
        let counters = &passwords.counters;
        let compute = BlockingPool::compute(1, None).unwrap();
        let source = ClientSource::User(0);
        let check = |password: &str| {
            let check = passwords.check(&policy, "bob", password.into(), source, &compute);
            check.unwrap()
        };
        let checks = || counters.checks.lock().read().0.iter().map(|(_, n)| n).sum();
        for remembered in 0..2 {
            assert!(check("secret").await.is_some());
            assert_eq!((checks(), counters.remembered.get()), (1_u64, remembered));
        }
        assert!(check("wrong").await.is_none());
        assert_eq!(checks(), 2);
    }
    /// Clients that left were not counted, and each had its password checked.
    #[tokio::test]
    async fn a_check_that_nobody_waits_for_is_left_out_unless_it_has_begun() {
        let hash = bcrypt::hash("secret", 4).unwrap();
        let text = format!("[[subject]]\nname = \"bob\"\npassword = \"{hash}\"\n");
        let policy = parse(Path::new("access.toml"), &text).unwrap();
        let passwords = Arc::new(Passwords::new().unwrap());
        let counters = &passwords.counters;
        let compute = BlockingPool::compute(1, None).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        compute.spawn_detached(move || wait.recv().unwrap());
        let check = |name: &str, user| {
            passwords.check(
                &policy,
                name,
                b"guess".into(),
                ClientSource::User(user),
                &compute,
            )
        };
        let failed = |user| {
            let count = || {
                passwords
                    .failures
                    .count(ClientSource::User(user), Instant::now())
            };
            10 - (0..10).filter(|_| count().is_ok()).count()
        };
        // The first two have begun: they have the thread next.
        let [begun, waiting] =
            [["a", "b"], ["c", "d"]].map(|names| names.map(|name| check(name, 1)));
        let same = check("d", 2).unwrap();
        drop((begun, waiting));
        go.send(()).unwrap();
        assert!(same.await.is_none());
        let checks: u64 = counters.checks.lock().read().0.iter().map(|(_, n)| n).sum();
        assert_eq!((checks, failed(1), failed(2)), (3, 3, 1));
    }

    #[tokio::test]
    async fn places_of_clients_that_left_are_taken_by_others() {
        let text = "[[subject]]\nname = \"bob\"\npassword = \"HASH\"\n";
        let text = text.replace("HASH", &bcrypt::hash("secret", 4).unwrap());
        let policy = parse(Path::new("access.toml"), &text).unwrap();
        let passwords = Arc::new(Passwords::new().unwrap());
        let compute = BlockingPool::compute(1, None).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        compute.spawn_detached(move || wait.recv().unwrap());
        let check = |at: u32| {
            let name = format!("{at}");
            passwords.check(
                &policy,
                &name,
                b"guess".into(),
                ClientSource::User(at),
                &compute,
            )
        };
        let mut all: Vec<_> = (0..18).map(check).collect();
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(check(18).err(), Some(CheckError::Busy));
        all.pop();
        assert!(check(18).is_ok());
        go.send(()).unwrap();
    }
}
