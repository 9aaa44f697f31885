//! Whether what the server holds stays level: memory, descriptors and threads, looked at between the faults.

use crate::support::Proc;

/// What the server held at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) rss_kib: u64,
    pub(super) descriptors: usize,
    pub(super) threads: usize,
}

impl Sample {
    pub(super) fn of(proc: &Proc) -> Self {
        Self {
            rss_kib: proc.rss_kib(),
            descriptors: proc.descriptors(),
            threads: proc.threads().len(),
        }
    }
}

/// What may come on top of the first sample by the last one: caches fill, and so do the bounded pools of threads (32 for the
/// disk, 4 for listings, and those that compute).
const MORE_RSS_KIB: f64 = 8.0 * 1024.0;
const MORE_DESCRIPTORS: f64 = 24.0;
const MORE_THREADS: f64 = 40.0;

/// What is looked at, how much it may grow, and where it is.
type Column = (&'static str, f64, fn(&Sample) -> f64);

/// Whether `samples`, in order, stay level; what rises, by the median slope between any two of them (Theil and Sen), for
/// single samples may be far off.
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
