//! A value that a bound counts: when it was used last, and what its file is, as far as that is known.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};

use super::rule::Total;
use crate::store::clock;
use crate::value::{Meta, Version};

/// The time of use of a value that the account has forgotten.
const FORGOTTEN: i64 = i64::MAX;

/// The end of a value that has none.
const NEVER: u64 = u64::MAX;

/// A value. All but the use changes under the lock of the account alone.
#[derive(Debug, Default)]
pub struct Value {
    /// When it was used last, in milliseconds since the system started.
    used: AtomicI64,
    /// Its version: nanoseconds since 1970.
    version: AtomicI64,
    /// Bytes of the disk that it takes.
    bytes: AtomicU64,
    /// When it ends, in seconds since 1970.
    end: AtomicU64,
    /// The number of the count that has met it last.
    pub(super) count: AtomicU32,
    /// Its file has another name.
    is_linked: AtomicBool,
    /// It lies on another file system than the directory.
    is_elsewhere: AtomicBool,
    /// It could not be evicted, and has not changed since.
    pub(super) is_stuck: AtomicBool,
    /// The server is about to remove it.
    pub(super) is_leaving: AtomicBool,
}

/// What the file of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Nanoseconds since 1970.
    pub version: i64,
    /// Bytes of the disk.
    pub bytes: u64,
    /// Seconds since 1970.
    pub end: Option<u64>,
    /// It has another name: each takes its part of the blocks.
    pub is_linked: bool,
    /// It lies on another file system than the directory.
    pub is_elsewhere: bool,
}

impl Known {
    /// The file of `stat`, in a directory on the device `root`.
    pub fn new(stat: &Stat, end: Option<u64>, root: Option<u64>) -> Self {
        let names = u64::from(u32::try_from(stat.st_nlink).unwrap_or(u32::MAX)).max(1);
        Self {
            version: nanos(Meta::of(stat).version),
            bytes: u64::try_from(stat.st_blocks).unwrap_or(0) * 512 / names,
            end,
            is_linked: names > 1,
            is_elsewhere: root.is_some_and(|root| root != stat.st_dev),
        }
    }

    /// True if its removal gives the disk of the directory nothing.
    pub fn frees_nothing(&self) -> bool {
        self.is_linked || self.is_elsewhere
    }
}

impl Value {
    pub(super) fn new(known: Known, used: i64) -> Self {
        let value = Self {
            used: used.into(),
            ..Self::default()
        };
        value.set_known(known);
        value
    }

    /// Notes that it is used now; false where the account has forgotten it.
    pub fn touch(&self) -> bool {
        self.used.fetch_max(uptime(), Relaxed) != FORGOTTEN
    }

    /// When it was used last, in milliseconds since the system started.
    pub(super) fn used(&self) -> i64 {
        self.used.load(Relaxed)
    }

    pub(super) fn set_used(&self, used: i64) {
        self.used.store(used, Relaxed);
    }

    /// The account forgets this value: a cached object that still has it is read again.
    pub(super) fn forget(&self) {
        self.used.store(FORGOTTEN, Relaxed);
    }

    /// True if the account has forgotten it: another may have its key.
    pub(super) fn is_forgotten(&self) -> bool {
        self.used() == FORGOTTEN
    }

    /// How long it has not been used, in milliseconds.
    pub fn age(&self) -> i64 {
        uptime().saturating_sub(self.used()).max(0)
    }

    /// When it was used last, in milliseconds since 1970.
    pub fn used_at(&self) -> i64 {
        started().saturating_add(self.used().min(uptime()))
    }

    /// Bytes of the disk that it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(super) fn known(&self) -> Known {
        Known {
            version: self.version.load(Relaxed),
            bytes: self.bytes(),
            end: self.end(),
            is_linked: self.is_linked.load(Relaxed),
            is_elsewhere: self.is_elsewhere.load(Relaxed),
        }
    }

    /// What its file is now. What has changed may be tried again.
    pub(super) fn set_known(&self, known: Known) {
        if known != self.known() {
            self.is_stuck.store(false, Relaxed);
        }
        self.version.store(known.version, Relaxed);
        self.bytes.store(known.bytes, Relaxed);
        self.end.store(known.end.unwrap_or(NEVER), Relaxed);
        self.is_linked.store(known.is_linked, Relaxed);
        self.is_elsewhere.store(known.is_elsewhere, Relaxed);
    }

    pub(super) fn end(&self) -> Option<u64> {
        Some(self.end.load(Relaxed)).filter(|&end| end != NEVER)
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Relaxed)
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Relaxed)
    }

    /// True if it may be chosen to be removed.
    pub(super) fn may_go(&self) -> bool {
        !self.is_stuck() && !self.is_leaving()
    }

    pub(super) fn total(&self) -> Total {
        Total::one(self.bytes())
    }

    /// How long it is since it was written, in milliseconds.
    pub(super) fn since_written(&self) -> i64 {
        clock::now().saturating_sub(self.version.load(Relaxed)) / 1_000_000
    }
}

pub(super) fn nanos(version: Version) -> i64 {
    let nanos = version.nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Milliseconds since the system started, to the nearest tick of the kernel. No step of the clock changes it.
pub(super) fn uptime() -> i64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// The uptime at so many milliseconds since 1970, if that is not in the future.
pub(super) fn since_1970(millis: i64) -> i64 {
    millis.saturating_sub(started()).min(uptime())
}

/// When the system started, in milliseconds since 1970. Noted, and noted anew once the clock was set or the system
/// slept: the two clocks tick apart, and two values of one time have one time of use, whenever each is looked at.
fn started() -> i64 {
    static NOTED: AtomicI64 = AtomicI64::new(0);
    let (now, noted) = (clock::now() / 1_000_000 - uptime(), NOTED.load(Relaxed));
    if now.abs_diff(noted) < 1000 {
        return noted;
    }
    NOTED.store(now, Relaxed);
    now
}
