//! How many bytes of uploads may be staged at once: received or announced, and not yet published.
//!
//! One count for all reactors, moved by the length of an upload where that is known and else by pieces of
//! [`STEP`]. A [`Share`] goes with the bytes it stands for, whoever has them, and is given back when it is dropped.
//! Without a bound, what is too small for a file is not counted: a small PUT then touches nothing that is shared.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::Error;

/// How far a share grows at a time, in bytes, when the length of its upload is not known.
const STEP: u64 = 256 << 10;

/// Uploads up to this are only counted where there is a bound; in bytes.
const UNCOUNTED: u64 = 64 << 10;

/// What may be staged at once, and what is.
#[derive(Debug)]
pub(super) struct Budget {
    max: Option<NonZeroU64>,
    bytes: AtomicU64,
    uploads: AtomicU64,
}

/// What is staged at the moment. Without a bound, uploads of up to 64 KiB are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Uploads begun, and neither published nor given up.
    pub uploads: u64,
    /// Bytes they have, or have announced; up to 256 KiB more for each whose length is not known.
    pub bytes: u64,
}

/// What one upload has of the budget.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// With at most `max` bytes, if there is a bound.
    pub(super) fn new(max: Option<NonZeroU64>) -> Arc<Self> {
        Arc::new(Self {
            max,
            bytes: AtomicU64::new(0),
            uploads: AtomicU64::new(0),
        })
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.max.is_some()
    }

    pub(super) fn in_flight(&self) -> InFlight {
        InFlight {
            uploads: self.uploads.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Takes `more` bytes, if there are so many. Uploads that meet here at the bound may refuse each other.
    fn take(&self, more: u64) -> bool {
        let before = self.bytes.fetch_add(more, Ordering::Relaxed);
        let fits = |max: NonZeroU64| before.checked_add(more).is_some_and(|all| all <= max.get());
        let taken = self.max.is_none_or(fits);
        if !taken {
            self.bytes.fetch_sub(more, Ordering::Relaxed);
        }
        taken
    }
}

impl Share {
    /// Nothing of `budget` yet.
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: 0,
        }
    }

    /// Grows to `len` bytes at least. The first time takes what is asked for, as an announced length; from then on it
    /// grows by steps, while those fit.
    pub(super) fn cover(&mut self, len: u64) -> Result<(), Error> {
        let is_uncounted = self.budget.max.is_none() && len <= UNCOUNTED;
        if len <= self.bytes || is_uncounted {
            return Ok(());
        }
        let begins = self.bytes == 0;
        let exact = len - self.bytes;
        let ample = if begins { exact } else { exact.max(STEP) };
        let taken = [ample, exact]
            .into_iter()
            .find(|&more| self.budget.take(more));
        let Some(more) = taken else {
            return Err(Error::Exhausted {
                reason: "room for uploads (--max-staged)",
            });
        };
        self.bytes += more;
        if begins {
            self.budget.uploads.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            self.budget.uploads.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounded(max: u64) -> Arc<Budget> {
        Budget::new(NonZeroU64::new(max))
    }

    #[test]
    fn a_share_is_refused_beyond_the_bound_and_given_back_when_dropped() {
        let budget = bounded(1000);
        let mut first = Share::new(&budget);
        first.cover(600).unwrap();
        let mut second = Share::new(&budget);
        assert!(second.cover(401).is_err());
        second.cover(400).unwrap();
        assert!(first.cover(601).is_err());
        drop(second);
        first.cover(1000).unwrap();
        assert_eq!(
            budget.in_flight(),
            InFlight {
                uploads: 1,
                bytes: 1000
            }
        );
        drop(first);
        assert_eq!(budget.in_flight(), InFlight::default());
    }

    #[test]
    fn without_a_bound_only_what_needs_a_file_is_counted() {
        let budget = Budget::new(None);
        let mut share = Share::new(&budget);
        share.cover(UNCOUNTED).unwrap();
        assert_eq!(budget.in_flight(), InFlight::default());
        share.cover(UNCOUNTED + 1).unwrap();
        share.cover(u64::MAX / 2).unwrap();
        assert_eq!(budget.in_flight().uploads, 1);
        drop(share);
        assert_eq!(budget.in_flight(), InFlight::default());
    }

    #[test]
    fn the_huge_lengths_of_liars_do_not_wrap_around() {
        let budget = bounded(1000);
        let mut honest = Share::new(&budget);
        honest.cover(10).unwrap();
        assert!(Share::new(&budget).cover(u64::MAX).is_err());
        assert_eq!(budget.in_flight().bytes, 10);
    }

    proptest! {
        #[test]
        fn the_bound_is_kept_and_nothing_is_left(
            max in 1..2_000_000_u64,
            growth in prop::collection::vec((0..4_usize, 0..600_000_u64), 0..60),
        ) {
            let budget = bounded(max);
            let mut shares: Vec<_> = (0..4).map(|_| Share::new(&budget)).collect();
            for (which, len) in growth {
                let (free, had) = (max - budget.in_flight().bytes, shares[which].bytes);
                let fits = len.saturating_sub(had) <= free;
                prop_assert_eq!(shares[which].cover(len).is_ok(), fits);
                prop_assert!(budget.in_flight().bytes <= max);
            }
            drop(shares);
            prop_assert_eq!(budget.in_flight(), InFlight::default());
        }
    }
}
