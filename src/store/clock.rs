//! The clock of versions: strictly increasing nanoseconds, also across restarts and steps of the system's clock.
//!
//! Each reading is later than every reading before it, so the modification times stamped from it never repeat, and the
//! numbers of changes, which are microseconds, do not either. To hold after a crash without a write per reading, the
//! clock file names a bound that no reading has passed; the bound is moved ahead, and made durable, before it is
//! reached.
//!
//! Beside it, the boot of the machine and how long it has lasted: neither moves when the system's clock is set.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::io::{Errno, retry_on_intr};
use rustix::time::{ClockId, clock_gettime};

use super::small_file;
use crate::value::Version;

/// How far ahead the bound is moved, in nanoseconds: there is one durable write in this time, and after a crash
/// versions are about this far in the future at most.
const STRIDE: i128 = 10_000_000_000;

/// The stride while versions are ahead of the time, as they are after a crash: crashes one after another hardly add up.
const SHORT_STRIDE: i128 = 10_000_000;

/// Further ahead than crashes take versions: the system's clock was wrong when the bound was moved, or is now.
const WRONG: i128 = 60_000_000_000;

/// Digits of the bound in the file: fixed, so that rewriting it never grows or shrinks the file.
const WIDTH: usize = 24;

#[derive(Debug)]
pub struct Clock {
    file: OwnedFd,
    last: i128,
    bound: i128,
    is_ahead_told: bool,
}

impl Clock {
    /// Continues after the bound in `file`, or starts now if the file has no bound.
    pub fn resume(file: OwnedFd) -> Result<Self, Errno> {
        let mut text = [0; WIDTH];
        let n = retry_on_intr(|| rustix::io::pread(&file, &mut text, 0))?;
        let text = std::str::from_utf8(&text[..n]).unwrap_or_default();
        let bound = text.trim().parse().unwrap_or(0);
        Ok(Self {
            file,
            last: bound,
            bound,
            is_ahead_told: false,
        })
    }

    /// A version later than every one before it, and not `current`. `current` may be ahead of the clock, because other
    /// programs can date files; such a date does not move the clock.
    pub fn next(&mut self, current: Option<Version>) -> Result<Version, Errno> {
        let mut next = i128::from(now()).max(self.last + 1);
        if current == Some(Version::from_nanos(next)) {
            next += 1;
        }
        self.pass(next)?;
        Ok(Version::from_nanos(next))
    }

    /// Makes every later reading later than `reading`, also after a crash.
    pub fn pass(&mut self, reading: i128) -> Result<(), Errno> {
        // Also where it cannot be made durable: an orderly end may still write it.
        self.last = self.last.max(reading);
        if reading >= self.bound {
            let now = i128::from(now());
            let stride = if reading > now { SHORT_STRIDE } else { STRIDE };
            // The bound counts only once it is durable: after a failed sync it is written again.
            self.store(reading + stride, true)?;
            self.bound = reading + stride;
            let ahead = reading - now;
            if ahead > WRONG && !std::mem::replace(&mut self.is_ahead_told, true) {
                tracing::warn!(
                    seconds = ahead / 1_000_000_000,
                    "the clock of versions is ahead of the system's, which was wrong once or is now: new values are dated in the future"
                );
            }
        }
        Ok(())
    }

    /// As late as every reading before it; writes nothing.
    pub fn reached(&mut self) -> i128 {
        self.last = self.last.max(now().into());
        self.last
    }

    fn store(&self, bound: i128, is_synced: bool) -> Result<(), Errno> {
        let text = format!("{bound:>WIDTH$}");
        small_file::overwrite(&self.file, text.as_bytes(), is_synced)
    }
}

impl Drop for Clock {
    /// An orderly end leaves no gap between the last version and the next.
    fn drop(&mut self) {
        let _ = self.store(self.last, false);
    }
}

/// The system's time, in nanoseconds since 1970; by the C library, so that a test can have it tell another.
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
}

/// The kernel's name of this boot; `None` where it is hidden, as services without `/proc/sys` have it.
pub fn boot_id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    };
    ID.get_or_init(read).as_deref()
}

/// The time since the machine was started, that in which it slept with it.
pub fn uptime() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn file() -> OwnedFd {
        tempfile::tempfile().unwrap().into()
    }

    fn copy(fd: &OwnedFd) -> OwnedFd {
        fd.as_fd().try_clone_to_owned().unwrap()
    }

    #[test]
    fn versions_strictly_increase_within_one_tick_and_across_restarts() {
        let file = file();
        let mut last = Version::from_nanos(0);
        for _restart in 0..5 {
            let mut clock = Clock::resume(copy(&file)).unwrap();
            for _ in 0..1000 {
                let next = clock.next(None).unwrap();
                assert!(next > last);
                last = next;
            }
        }
    }

    #[test]
    fn after_a_crash_and_a_clock_set_back_versions_go_on_from_the_bound() {
        let file = file();
        let future = i128::from(now()) + 3600 * 1_000_000_000;
        let mut clock = Clock {
            file: copy(&file),
            last: future,
            bound: 0,
            is_ahead_told: false,
        };
        let before = clock.next(None).unwrap();
        std::mem::forget(clock); // a crash: nothing is written on the way out
        let after = Clock::resume(copy(&file)).unwrap().next(None).unwrap();
        assert!(after > before);
    }

    #[test]
    fn crashes_one_after_another_do_not_take_versions_far_ahead() {
        let file = file();
        let mut last = Version::from_nanos(0);
        for _crash in 0..50 {
            let mut clock = Clock::resume(copy(&file)).unwrap();
            let next = clock.next(None).unwrap();
            assert!(next > last);
            last = next;
            std::mem::forget(clock);
        }
        let ahead = last.nanos() - i128::from(now());
        assert!(ahead <= STRIDE + 50 * SHORT_STRIDE, "{ahead} ns");
    }

    #[test]
    fn a_bound_whose_sync_failed_is_not_relied_on() {
        // It can be written, but not be synced.
        let unsyncable = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null");
        let mut clock = Clock::resume(unsyncable.unwrap().into()).unwrap();
        for _ in 0..3 {
            assert!(clock.next(None).is_err());
        }
        let number = i128::from(now()) * 2;
        assert!(clock.pass(number).is_err());
        assert!(clock.reached() >= number, "numbers are used all the same");
    }

    #[test]
    fn no_version_is_the_current_one_whatever_its_date() {
        let mut clock = Clock::resume(file()).unwrap();
        let future = i128::from(now()) * 2;
        assert!(
            clock
                .next(Some(Version::from_nanos(future)))
                .unwrap()
                .nanos()
                < future
        );
        clock.pass(future).unwrap();
        let next = Version::from_nanos(future + 1);
        assert!(clock.next(Some(next)).unwrap() > next);
    }

    #[test]
    fn what_was_passed_is_passed_after_a_crash_too() {
        let file = file();
        let mut clock = Clock::resume(copy(&file)).unwrap();
        let number = clock.reached() + 3600 * 1_000_000_000;
        clock.pass(number).unwrap();
        std::mem::forget(clock);
        assert!(Clock::resume(file).unwrap().reached() > number);
    }
}
