//! The write locks of names, which clients of `WebDAV` take (RFC 4918, section 6), and the changes under way. A lock
//! waits for no change, and no change for a lock: the second of two requests is refused.
//!
//! Promises that no name is changed by a request without the token of its lock, through whatever door it came, from the
//! moment that the lock is granted. Locks are in memory alone: a restart forgets them. Their number is bounded, in all
//! and for each client.

use std::collections::BTreeMap;
use std::ops::Bound;
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
    /// The number of changes under way of each name: of it alone, and of all below it.
    changes: BTreeMap<Box<str>, [usize; 2]>,
}

/// The locks of all reactors.
#[derive(Debug, Default)]
pub struct Locks(Mutex<State>);

/// A change under way; dropped when it is made.
#[derive(Debug)]
pub struct Changing {
    locks: Arc<Locks>,
    scopes: Vec<(Box<str>, bool)>,
}

impl Drop for Changing {
    fn drop(&mut self) {
        let changes = &mut self.locks.0.lock().changes;
        for (name, is_deep) in &self.scopes {
            if let Some(counts) = changes.get_mut(name) {
                counts[usize::from(*is_deep)] -= 1;
                if *counts == [0, 0] {
                    changes.remove(name);
                }
            }
        }
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
            let mut of_change = state.of_change(*scope);
            // Of a lock that is shared, the token of one client is enough (section 6.1).
            let lacks = of_change.find(|locks| !locks.iter().any(|it| it.is_of(tokens, client)));
            if let Some(lock) = lacks.as_ref().and_then(|locks| locks.first()) {
                return Err(locked(&lock.name));
            }
            drop(of_change);
        }
        let scopes: Vec<_> = scopes
            .iter()
            .map(|it| (it.name.into(), it.is_deep))
            .collect();
        for (name, is_deep) in &scopes {
            let counts: &mut [usize; 2] = state.changes.entry(Box::clone(name)).or_default();
            counts[usize::from(*is_deep)] += 1;
        }
        Ok(Changing {
            locks: Arc::clone(self),
            scopes,
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
        let others = state
            .covering(scope.name)
            .chain(state.below(scope))
            .flatten();
        if let Some(other) = others
            .into_iter()
            .find(|it| !(it.is_shared && lock.is_shared))
        {
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
        let name = lock.name.clone();
        state.locks.entry(name).or_default().push(lock.clone());
        Ok(lock)
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
        let lock = state.held(name, |lock| lock.is_of(tokens, client));
        let (locks, at) = lock.ok_or_else(|| EXPECTED.because(NO_SUCH_LOCK))?;
        locks[at] = locks[at].clone().extended(timeout);
        Ok(locks[at].clone())
    }

    /// Removes the lock of this token, which covers `name`.
    pub fn remove(&self, name: &str, token: &str, client: &Uploader) -> Result<(), Refusal> {
        let state = &mut *self.0.lock();
        let lock = state.held(name, |lock| lock.client == *client && *lock.token == *token);
        let (locks, at) = lock.ok_or_else(|| NOT_YOURS.because(NO_SUCH_LOCK))?;
        locks.remove(at);
        Ok(())
    }

    /// Forgets the locks of a name that is gone, and of all below it.
    pub fn forget(&self, name: &str) {
        let state = &mut *self.0.lock();
        let gone = below(&state.locks, name).map(|(name, _)| name.into());
        for name in gone.collect::<Vec<Box<str>>>() {
            state.locks.remove(&name);
        }
        state.locks.remove(name);
    }

    /// The locks that cover `name`: its own, and those of folders above with all below them.
    pub fn of(&self, name: &str) -> Vec<Lock> {
        let state = self.0.lock();
        state.covering(name).flatten().cloned().collect()
    }
}

impl State {
    /// The locks that cover `name`, those of a name together.
    fn covering<'s>(&'s self, name: &'s str) -> impl Iterator<Item = Vec<&'s Lock>> {
        let own = std::iter::once(self.at(name, |_| true));
        let above = above(name).map(|folder| self.at(folder, |lock| lock.is_deep));
        own.chain(above).filter(|locks| !locks.is_empty())
    }

    /// The locks of names below `scope`, if that is deep.
    fn below<'s>(&'s self, scope: Scope<'s>) -> impl Iterator<Item = Vec<&'s Lock>> {
        let names = below(&self.locks, scope.name).filter(move |_| scope.is_deep);
        let found = names.map(|(name, _)| self.at(name, |_| true));
        found.filter(|locks| !locks.is_empty())
    }

    /// The locks that a change of `scope` needs tokens of: those that cover it, those below it, and those of the folder
    /// which it is in (section 7.4).
    fn of_change<'s>(&'s self, scope: Scope<'s>) -> impl Iterator<Item = Vec<&'s Lock>> {
        let parent = above(scope.name).next();
        let parent = parent.map(|folder| self.at(folder, |_| true));
        let parent = parent.filter(|locks| !locks.is_empty());
        (self.covering(scope.name))
            .chain(self.below(scope))
            .chain(parent)
    }

    /// The live locks of this one name that are meant.
    fn at(&self, name: &str, is_meant: impl Fn(&Lock) -> bool) -> Vec<&Lock> {
        let locks = self.locks.get(name).into_iter().flatten();
        locks
            .filter(|lock| lock.is_live() && is_meant(lock))
            .collect()
    }

    /// The lock that covers `name` and is meant, among the others of its name.
    fn held(
        &mut self,
        name: &str,
        is_meant: impl Fn(&Lock) -> bool,
    ) -> Option<(&mut Vec<Lock>, usize)> {
        let found = self.covering(name).flatten().find(|lock| is_meant(lock));
        let name = found?.name.clone();
        let locks = self.locks.get_mut(&name)?;
        let at = locks
            .iter()
            .position(|lock| lock.is_live() && is_meant(lock))?;
        Some((locks, at))
    }

    /// True while something in `scope` is being changed, or a folder above it with all below.
    fn is_changing(&self, scope: Scope<'_>) -> bool {
        let has = |name: &str, least: usize| {
            let counts = self.changes.get(name);
            counts.is_some_and(|counts| counts[least..].iter().any(|&count| count > 0))
        };
        let mut below = below(&self.changes, scope.name);
        let is_member = |name: &str| above(name).next() == Some(scope.name);
        has(scope.name, 0)
            || above(scope.name).any(|folder| has(folder, 1))
            || below.any(|(name, _)| scope.is_deep || is_member(name))
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

/// The entries below the folder `name`.
fn below<'m, T>(
    map: &'m BTreeMap<Box<str>, T>,
    name: &str,
) -> impl Iterator<Item = (&'m str, &'m T)> + use<'m, T> {
    let prefix = match name {
        "" => String::new(),
        name => format!("{name}/"),
    };
    let from = map.range::<str, _>((Bound::Excluded(prefix.as_str()), Bound::Unbounded));
    from.map(|(name, entry)| (&**name, entry))
        .take_while(move |(name, _)| name.starts_with(&prefix))
}

fn locked(name: &str) -> Refusal {
    LOCKED.because(format!(
        "/{name} is locked by a client of WebDAV: a change needs the token of the lock, which ends by itself"
    ))
}
