//! The counters, their metrics and the text formats of these, and the kernel's figures of the process.
//!
//! One set of counters per reactor, written by its thread alone and read by any: nothing is shared on the way of a
//! request, unless a bound counts its key, and a sum is made when it is read. A counter is one line: field, name, help
//! and labels of its metric.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use rustix::time::{ClockId, clock_gettime};

#[macro_use]
mod exposition;
mod reactor;
mod store;

pub use exposition::{Exposition, Label, MetricsFormat, float};
pub use reactor::{
    AcceptCounters, AccessCounters, AuthResult, Direction, Handshake, Method, ReactorCounters,
    TimeLimit,
};
pub use store::{Jobs, Journal, Listings, S3Counters, StoreCounters, StoreOperation};

/// True when the last reload of files failed and those read before still count.
pub static LAST_RELOAD_FAILED: AtomicBool = AtomicBool::new(false);

/// The end of the server's certificate that ends first, in seconds since 1970; 0 where there is none.
pub static CERTIFICATE_END: AtomicU64 = AtomicU64::new(0);

/// Lines of the log that were lost: there was no room for them, or standard error refused them.
pub static LOG_LINES_LOST: SharedCounter = Counter(AtomicU64::new(0));

/// The capacity for the bounds of any scale, and for the bucket above them.
const MOST: usize = 17;

/// A counter, with one writer unless it is a [`SharedCounter`].
#[derive(Debug, Default)]
pub struct Counter<const SHARED: bool = false>(AtomicU64);

/// A counter that any thread adds to: for rare events.
pub type SharedCounter = Counter<true>;

impl<const SHARED: bool> Counter<SHARED> {
    /// Adds `n`. To one that is not shared only one thread may add: it loads and stores, without the cost of an atomic
    /// addition.
    #[inline]
    pub fn add(&self, n: u64) {
        if SHARED {
            self.0.fetch_add(n, Ordering::Relaxed);
        } else {
            let count = self.0.load(Ordering::Relaxed) + n;
            self.0.store(count, Ordering::Relaxed);
        }
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The scale of a histogram.
struct Scale {
    /// The upper bounds of the buckets.
    bounds: &'static [u64],
    /// The divisor from the bounds' unit to the unit that is shown.
    unit: f64,
}

/// The scale of durations of requests and syncs.
pub const DURATION: usize = 0;
/// The scale of delays, in coarser steps.
pub const DELAY: usize = 1;
/// The scale of the sizes of batches.
pub const BATCH: usize = 2;

const SCALES: [Scale; 3] = [
    Scale {
        bounds: &nanos([
            50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
            500_000, 1_000_000, 2_500_000, 5_000_000,
        ]),
        unit: 1e9,
    },
    Scale {
        bounds: &nanos([
            50, 100, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000,
            5_000_000,
        ]),
        unit: 1e9,
    },
    Scale {
        bounds: &[1, 2, 4, 8, 16, 32, 64, 128, 256],
        unit: 1.0,
    },
];

/// Microseconds as nanoseconds.
const fn nanos<const N: usize>(mut micros: [u64; N]) -> [u64; N] {
    assert!(N < MOST);
    let mut at = 0;
    while at < N {
        micros[at] *= 1_000;
        at += 1;
    }
    micros
}

/// A histogram with one writer; of durations, if nothing else is said.
#[derive(Debug, Default)]
pub struct Histogram<const SCALE: usize = DURATION> {
    counts: [Counter; MOST],
    sum: Counter,
}

impl<const SCALE: usize> Histogram<SCALE> {
    const BOUNDS: &[u64] = SCALES[SCALE].bounds;

    /// Counts `value`, in the unit of the scale's bounds. One thread alone may call this.
    #[inline]
    pub fn observe(&self, value: u64) {
        let bucket = Self::BOUNDS.iter().position(|&bound| value <= bound);
        self.counts[bucket.unwrap_or(Self::BOUNDS.len())].add(1);
        self.sum.add(value);
    }

    /// Counts a duration. One thread alone may call this.
    #[inline]
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX >> 16));
    }

    /// The buckets, each with its upper bound (infinite for the last) and its own count, and the sum of all that was
    /// observed; in the unit that is shown.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bounds are round and a sum of nanoseconds is exact for a hundred days"
    )]
    pub fn read(&self) -> (Vec<(f64, u64)>, f64) {
        let unit = SCALES[SCALE].unit;
        let bounds = Self::BOUNDS.iter().map(|&bound| bound as f64 / unit);
        let bounds = bounds.chain([f64::INFINITY]);
        let buckets = bounds.zip(self.counts.iter().map(Counter::get)).collect();
        (buckets, self.sum.get() as f64 / unit)
    }
}

/// A histogram of durations that any thread adds to: for durations far longer than taking the lock.
#[derive(Debug, Default)]
pub struct SharedHistogram(Mutex<Histogram>);

impl SharedHistogram {
    /// Counts a duration.
    pub fn observe_duration(&self, duration: Duration) {
        self.lock().observe_duration(duration);
    }

    /// The histogram, locked against additions.
    pub fn lock(&self) -> MutexGuard<'_, Histogram> {
        self.0.lock()
    }
}

/// Resident memory of the process, in bytes. Like the other figures of the process, it comes from `/proc`, which waits
/// for no device, and is 0 where it cannot be read: a scrape has no use for an error.
pub fn resident_bytes() -> u64 {
    // proc_pid_statm(5): the second number is the resident pages.
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Open descriptors of the process. Since Linux 6.2 the directory's size is their number; before, they are counted one
/// by one.
pub fn open_descriptors() -> u64 {
    const DIR: &str = "/proc/self/fd";
    match std::fs::metadata(DIR).map(|dir| dir.len()) {
        Ok(0) | Err(_) => std::fs::read_dir(DIR).map_or(0, |dir| dir.count() as u64),
        Ok(open) => open,
    }
}

/// Processor time used by all threads, in seconds.
pub fn cpu_seconds() -> f64 {
    let cpu = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    cpu.map_or(0.0, |time| time.as_secs_f64())
}

/// The start of the process, in seconds since 1970; to be asked once, soon after the start.
pub fn process_start() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_secs_f64();
    age().map_or(now, |age| now - age)
}

/// Seconds since the process was started. `proc_pid_stat(5)`: the 22nd field, in ticks since the boot; the 2nd is a
/// name in brackets that may hold anything.
fn age() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: f64 = stat.rsplit_once(')')?.1.split(' ').nth(20)?.parse().ok()?;
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    let now = Duration::try_from(clock_gettime(ClockId::Boottime)).ok()?;
    Some(now.as_secs_f64() - ticks / f64::from(per_second))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::<DURATION>::default();
        for nanos in [0, 50_000, 50_001, 5_000_000_000, 5_000_000_001] {
            histogram.observe_duration(Duration::from_nanos(nanos));
        }
        let (buckets, sum) = histogram.read();
        assert_eq!(buckets.len(), 17);
        assert_eq!(buckets[0], (0.000_05, 2));
        assert_eq!(buckets[1], (0.000_1, 1));
        assert_eq!(buckets[15], (5.0, 1));
        assert_eq!(buckets[16], (f64::INFINITY, 1));
        assert!((sum - 10.000_100_002).abs() < 1e-9, "{sum}");
    }

    proptest! {
        #[test]
        fn every_value_is_in_one_bucket_and_below_its_bound(values in prop::collection::vec(0..600_u32, 0..50)) {
            let histogram = Histogram::<BATCH>::default();
            for &value in &values {
                histogram.observe(value.into());
            }
            let (buckets, sum) = histogram.read();
            prop_assert_eq!(buckets.iter().map(|b| b.1).sum::<u64>(), values.len() as u64);
            prop_assert!((sum - f64::from(values.iter().sum::<u32>())).abs() < f64::EPSILON);
            for (bound, _) in &buckets {
                let below = values.iter().filter(|&&v| f64::from(v) <= *bound).count() as u64;
                let counted: u64 = buckets.iter().filter(|b| b.0 <= *bound).map(|b| b.1).sum();
                prop_assert_eq!(below, counted);
            }
        }
    }

    #[test]
    fn the_process_is_seen() {
        assert!(resident_bytes() > 100_000);
        assert!(open_descriptors() >= 3);
        assert!(cpu_seconds() > 0.0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let age = now.unwrap().as_secs_f64() - process_start();
        assert!((0.0..3600.0).contains(&age), "{age}");
    }

    #[test]
    fn an_open_file_is_one_descriptor_more() {
        let most = |n: usize| {
            let files: Vec<_> = (0..n)
                .map(|_| std::fs::File::open("/proc/self/stat"))
                .collect();
            let open = open_descriptors();
            drop(files);
            open
        };
        assert!(most(200) >= most(0) + 150);
    }
}
