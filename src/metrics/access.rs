//! The counters of clients that say who they are. Any thread counts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Histogram, Scale, SharedCounter};

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthResult {
    /// A token was right.
    Token,
    /// A password was right, or a token in its place.
    Password,
    /// A certificate was right.
    Certificate,
    /// A signed link was right.
    Link,
    /// The claim was wrong.
    Wrong,
    /// There was no claim where one is needed.
    Missing,
    /// It was known who asked, and that one may not.
    NotAllowed,
    /// The client had failed too often.
    Limited,
    /// Too many passwords were being checked.
    Busy,
}

impl AuthResult {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Token, "token"),
        (Self::Password, "password"),
        (Self::Certificate, "certificate"),
        (Self::Link, "link"),
        (Self::Wrong, "wrong"),
        (Self::Missing, "missing"),
        (Self::NotAllowed, "not_allowed"),
        (Self::Limited, "limited"),
        (Self::Busy, "busy"),
    ];
}

/// The counters of clients that say who they are.
#[derive(Debug)]
pub struct AccessCounters {
    results: [SharedCounter; AuthResult::ALL.len()],
    /// Passwords that were right a short while ago.
    pub remembered: SharedCounter,
    /// Readings of the file that replaced the policy, and that did not.
    pub reloads: [SharedCounter; 2],
    checks: Mutex<Histogram>,
}

impl Default for AccessCounters {
    fn default() -> Self {
        Self {
            results: Default::default(),
            remembered: SharedCounter::new(),
            reloads: Default::default(),
            checks: Mutex::new(Histogram::new(&Scale::DURATION)),
        }
    }
}

impl AccessCounters {
    /// A claim ended so.
    pub fn ended(&self, result: AuthResult) {
        self.results[result as usize].add(1);
    }

    /// How many ended so.
    pub fn results(&self, result: AuthResult) -> u64 {
        self.results[result as usize].get()
    }

    /// The check of a password took so long.
    pub fn checked(&self, took: Duration) {
        self.with_checks(|checks| checks.observe_duration(took));
    }

    /// Shows how long checks took.
    pub fn with_checks<T>(&self, show: impl FnOnce(&Histogram) -> T) -> T {
        show(&self.checks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
