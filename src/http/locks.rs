//! The write locks of names, which clients of `WebDAV` take (RFC 4918, section 6), and the changes under way. A lock
//! waits for no change, and no change for a lock: the second of two requests is refused.
//!
//! Promises that no name is changed by a request without the token of its lock, through whatever door it came, from the
//! moment that the lock is granted. Locks are in memory alone: a restart forgets them. Their number is bounded, in all
//! and for each client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use parking_lot::Mutex;

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use crate::store::Uploader;

const LOCKED: &Kind = &Kind::new(StatusCode::LOCKED, "locked");
const TOO_MANY: &Kind = &Kind::new(StatusCode::INSUFFICIENT_STORAGE, "too-many-locks");
const NOT_YOURS: &Kind = &Kind::new(StatusCode::CONFLICT, "no-such-lock");
const EXPECTED: &Kind = &Kind::new(StatusCode::PRECONDITION_FAILED, "no-such-lock");
const NO_SUCH_LOCK: &str = "no lock of this token, and of this client, covers the name: it ended, or the server was restarted";

/// The most locks, in all and of one client.
const MOST: usize = 10_000;
const MOST_OF_ONE: usize = 1_000;

/// A name, and whether all names below it are meant, too. That of the root is empty.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub name: &'a str,
    pub is_deep: bool,
}

impl<'a> Scope<'a> {
    pub fn one(name: &'a str) -> Self {
        Self {
            name,
            is_deep: false,
        }
    }

    pub fn deep(name: &'a str) -> Self {
        Self {
            name,
            is_deep: true,
        }
    }
}

/// A write lock.
#[derive(Clone, Debug)]
pub struct Lock {
    /// The name of the value or folder.
    pub name: Box<str>,
    /// The names below it are locked, too.
    pub is_deep: bool,
    /// Others may share it.
    pub is_shared: bool,
    pub token: Box<str>,
    /// What its client says of itself, as XML.
    pub owner: Box<str>,
    pub timeout: Duration,
    pub client: Uploader,
    pub until: Instant,
}

impl Lock {
    /// A lock that lasts so long from now.
    pub fn extended(self, timeout: Duration) -> Self {
        Self {
            timeout,
            until: Instant::now() + timeout,
            ..self
        }
    }

    fn is_live(&self) -> bool {
        self.until > Instant::now()
    }

    /// True where this client has sent the token.
    fn is_of(&self, tokens: &[String], client: &Uploader) -> bool {
        self.client == *client && tokens.iter().any(|it| **it == *self.token)
    }
}

#[derive(Debug, Default)]
struct State {
    locks: BTreeMap<Box<str>, Vec<Lock>>,
    /// The changes under way: each has its number, and the names that it may change, alone or with all below.
    changes: BTreeMap<u64, Vec<(Box<str>, bool)>>,
    last_change: u64,
}

/// The locks of all reactors.
#[derive(Debug, Default)]
pub struct Locks(Mutex<State>);

/// A change under way; dropped when it is made.
#[derive(Debug)]
pub struct Changing {
    locks: Arc<Locks>,
    number: u64,
}

impl Changing {
    /// What was changed has gone, and its locks go, with those of all below it.
    pub fn forget_locks(self) {
        let state = &mut *self.locks.0.lock();
        for (gone, _) in state.changes.get(&self.number).into_iter().flatten() {
            let goes = |name: &str| *name == **gone || is_below(name, gone);
            state.locks.retain(|name, _| !goes(name));
        }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.locks.0.lock().changes.remove(&self.number);
    }
}

impl Locks {
    /// Begins a change of these names, unless one is locked by a token that is not one of these, or by another client.
    pub fn begin_change(
        self: &Arc<Self>,
        scopes: &[Scope<'_>],
        tokens: &[String],
        client: &Uploader,
    ) -> Result<Changing, Refusal> {
        let state = &mut *self.0.lock();
        for scope in scopes {
            // A lock of the folder which it is in locks that too (section 7.4).
            let parent = above(scope.name).next().into_iter();
            let of_parent = parent.flat_map(|folder| state.at(folder));
            let mut locks = state.of(*scope).chain(of_parent);
            // Of a lock that is shared, the token of one client is enough (section 6.1).
            let is_shown = |lock: &Lock| {
                let is_above = is_below(scope.name, &lock.name);
                let mut shown = state.at(&lock.name).filter(|it| it.is_of(tokens, client));
                shown.any(|it| it.is_deep >= lock.is_deep || !is_above)
            };
            if let Some(lock) = locks.find(|lock| !is_shown(lock)) {
                return Err(locked(&lock.name));
            }
        }
        state.last_change += 1;
        let names = scopes.iter().map(|it| (it.name.into(), it.is_deep));
        state.changes.insert(state.last_change, names.collect());
        Ok(Changing {
            locks: Arc::clone(self),
            number: state.last_change,
        })
    }

    /// Grants the `lock`, unless a name that it would lock is locked, or is being changed.
    pub fn grant(&self, lock: Lock) -> Result<Lock, Refusal> {
        let state = &mut *self.0.lock();
        state.locks.retain(|_, locks| {
            locks.retain(Lock::is_live);
            !locks.is_empty()
        });
        let scope = Scope {
            name: &lock.name,
            is_deep: lock.is_deep,
        };
        let is_other = |it: &&Lock| !(it.is_shared && lock.is_shared);
        if let Some(other) = state.of(scope).find(is_other) {
            return Err(locked(&other.name));
        }
        if state.is_changing(scope) {
            return Err(LOCKED.because("another client is changing this: try again"));
        }
        let all = || state.locks.values().flatten();
        let of_one = all().filter(|it| it.client == lock.client);
        if of_one.count() >= MOST_OF_ONE || all().count() >= MOST {
            return Err(TOO_MANY.because("there are too many locks: remove some"));
        }
        Ok(state.add(lock))
    }

    /// Lets the lock of these tokens that covers `name` end so long from now.
    pub fn refresh(
        &self,
        name: &str,
        tokens: &[String],
        client: &Uploader,
        timeout: Duration,
    ) -> Result<Lock, Refusal> {
        let state = &mut *self.0.lock();
        let lock = state.take(name, |lock| lock.is_of(tokens, client));
        let lock = lock.ok_or_else(|| EXPECTED.because(NO_SUCH_LOCK))?;
        Ok(state.add(lock.extended(timeout)))
    }

    /// Removes the lock of this token, which covers `name`.
    pub fn remove(&self, name: &str, token: &str, client: &Uploader) -> Result<(), Refusal> {
        let is_meant = |lock: &Lock| lock.client == *client && *lock.token == *token;
        let lock = self.0.lock().take(name, is_meant);
        lock.map(drop)
            .ok_or_else(|| NOT_YOURS.because(NO_SUCH_LOCK))
    }

    /// The locks that cover `name`: its own, and those of folders above with all below them.
    pub fn of(&self, name: &str) -> Vec<Lock> {
        let state = self.0.lock();
        state.of(Scope::one(name)).cloned().collect()
    }
}

impl State {
    /// The live locks of this one name.
    fn at(&self, name: &str) -> impl Iterator<Item = &Lock> {
        let locks = self.locks.get(name).into_iter().flatten();
        locks.filter(|lock| lock.is_live())
    }

    /// The locks of `scope`: of its name, of folders above with all below them, and of names below it, if it is deep.
    fn of<'s>(&'s self, scope: Scope<'s>) -> impl Iterator<Item = &'s Lock> {
        let above = above(scope.name).flat_map(|folder| self.at(folder));
        let below = self.locks.iter().take_while(move |_| scope.is_deep);
        let below = below.filter(move |(name, _)| is_below(name, scope.name));
        let below = below
            .flat_map(|(_, locks)| locks)
            .filter(|lock| lock.is_live());
        (self.at(scope.name))
            .chain(above.filter(|lock| lock.is_deep))
            .chain(below)
    }

    fn add(&mut self, lock: Lock) -> Lock {
        let locks = self.locks.entry(lock.name.clone()).or_default();
        locks.push(lock.clone());
        lock
    }

    /// Takes the lock that covers `name` and is meant.
    fn take(&mut self, name: &str, is_meant: impl Fn(&Lock) -> bool) -> Option<Lock> {
        let found = self.of(Scope::one(name)).find(|lock| is_meant(lock))?;
        let (name, token) = (found.name.clone(), found.token.clone());
        let locks = self.locks.get_mut(&name)?;
        let at = locks.iter().position(|lock| lock.token == token)?;
        Some(locks.remove(at))
    }

    /// True while something in `scope` is being changed, or a folder above it with all below. A folder is changed by
    /// what is done to its members.
    fn is_changing(&self, scope: Scope<'_>) -> bool {
        let is_member = |name: &str| above(name).next() == Some(scope.name);
        self.changes.values().flatten().any(|(name, is_deep)| {
            **name == *scope.name
                || (*is_deep && is_below(scope.name, name))
                || (is_below(name, scope.name) && (scope.is_deep || is_member(name)))
        })
    }
}

/// The folders above `name`, the nearest first, up to the root.
fn above(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| match name.rfind('/') {
        Some(slash) => Some(&name[..slash]),
        None => (!name.is_empty()).then_some(""),
    })
    .skip(1)
}

/// True where `name` lies below this folder.
fn is_below(name: &str, folder: &str) -> bool {
    let below = name.strip_prefix(folder);
    below.is_some_and(|below| match folder {
        "" => !below.is_empty(),
        _ => below.starts_with('/'),
    })
}

fn locked(name: &str) -> Refusal {
    LOCKED.because(format!(
        "/{name} is locked by a client of WebDAV: a change needs the token of the lock, which ends by itself"
    ))
}
