//! Which boot of the machine this is, and how long it has lasted.
//!
//! Neither moves when the clock is set.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The kernel's name of this boot; `None` where it is hidden, as services without `/proc/sys` have it.
pub(super) fn id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    };
    ID.get_or_init(read).as_deref()
}

/// The time since the machine was started, that in which it slept with it.
pub(super) fn uptime() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    let secs = u64::try_from(tv_sec).unwrap_or(0);
    Duration::from_secs(secs) + Duration::from_nanos(u64::try_from(tv_nsec).unwrap_or(0))
}
