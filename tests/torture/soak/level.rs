//! Whether what the server holds stays level: memory, descriptors and threads, looked at between the faults.

use crate::prelude::*;

/// What the server held at one moment, but for what follows the load and has a bound of its own: cached values, each of
/// which keeps a descriptor, and the threads of the pools.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) rss_kib: u64,
    pub(super) descriptors: usize,
    pub(super) threads: usize,
}

impl Sample {
    pub(super) fn of(server: &TestServer) -> Self {
        let cached = Scrape::of(server.addr).count("data_server_cache_values", &[]);
        let cached = usize::try_from(cached).expect("a count");
        let proc = server.proc();
        let threads = proc.threads();
        let in_pools = POOLS.iter().map(|&(pool, most)| {
            let number = |name: &str| name.strip_prefix(pool)?.parse::<usize>().ok();
            let count = threads.iter().filter(|(name, _)| number(name).is_some());
            let count = count.count();
            assert!(count <= most, "{count} threads {pool}");
            count
        });
        Self {
            rss_kib: proc.rss_kib(),
            descriptors: proc.descriptors().saturating_sub(cached),
            threads: threads.len() - in_pools.sum::<usize>(),
        }
    }
}

/// The pools: how their threads are named before their number, and how many there may be. They come when they are
/// needed and stay.
const POOLS: [(&str, usize); 3] = [("disk-", 32), ("disk-list-", 4), COMPUTE];

const COMPUTE: (&str, usize) = ("compute-", COMPUTE_THREADS);

/// The server of a soak computes on so many threads.
pub(super) const COMPUTE_THREADS: usize = 2;

/// What may come on top of the first third of the samples by the last one.
const MORE_RSS_KIB: f64 = 8.0 * 1024.0;
const MORE_DESCRIPTORS: f64 = 24.0;
const MORE_THREADS: f64 = 4.0;

/// What is looked at, how much it may grow, and where it is.
type Column = (&'static str, f64, fn(&Sample) -> f64);

/// Whether `samples`, in order, stay level; what rises, by the median slope between any two of them (Theil and Sen),
/// for single samples may be far off.
pub(super) fn is_level(samples: &[Sample]) -> Result<String, String> {
    if samples.len() < 3 {
        return Err(format!("only {} samples", samples.len()));
    }
    let mut said = Vec::new();
    let mut rising = false;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let columns: [Column; 3] = [
        ("KiB of memory", MORE_RSS_KIB, |s| s.rss_kib as f64),
        ("descriptors", MORE_DESCRIPTORS, |s| s.descriptors as f64),
        ("threads", MORE_THREADS, |s| s.threads as f64),
    ];
    for (name, allowed, column) in columns {
        let values: Vec<f64> = samples.iter().map(column).collect();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let growth = slope(&values) * (values.len() - 1) as f64;
        rising |= growth > allowed;
        let last = values.last().copied().unwrap_or_default();
        said.push(format!("{last:.0} {name} ({growth:+.0})"));
    }
    let said = said.join(", ");
    if rising { Err(said) } else { Ok(said) }
}

/// The median of the slopes between all pairs.
fn slope(values: &[f64]) -> f64 {
    let mut slopes = Vec::new();
    for (i, a) in values.iter().enumerate() {
        for (distance, b) in (1..).zip(&values[i + 1..]) {
            slopes.push((b - a) / f64::from(distance));
        }
    }
    slopes.sort_by(f64::total_cmp);
    slopes[slopes.len() / 2]
}

#[test]
fn a_leak_is_found_out() {
    let samples = |rss, descriptors, threads| {
        let sample = |n: usize| Sample {
            rss_kib: 20_000 + n as u64 * rss,
            descriptors: 30 + n * descriptors,
            threads: 8 + n * threads,
        };
        (0..6).map(sample).collect::<Vec<_>>()
    };
    let level = samples(0, 0, 0);
    assert!(is_level(&level).is_ok(), "{level:?}");
    for leaking in [samples(10_000, 0, 0), samples(0, 10, 0), samples(0, 0, 1)] {
        assert!(is_level(&leaking).is_err(), "{leaking:?}");
    }
    assert!(is_level(&level[..2]).is_err(), "too little to tell");
}
