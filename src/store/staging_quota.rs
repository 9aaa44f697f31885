//! How many bytes of uploads may be staged at once: received or announced, and not yet published.
//!
//! One count for all reactors, moved by the length of an upload where that is known and else by [`RESERVED_AT_ONCE`]. A
//! [`Reservation`] goes with the bytes that it stands for, and is given back when it is dropped. Without a bound, what is
//! too small for a file is not counted: a small PUT then touches nothing that is shared.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::Error;
use super::limits::{RESERVED_AT_ONCE, SMALL};

/// What may be staged at once, and what is.
#[derive(Debug)]
pub(super) struct StagingQuota {
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

/// What one upload has of the quota.
#[derive(Debug)]
pub(super) struct Reservation {
    quota: Arc<StagingQuota>,
    bytes: u64,
}

impl StagingQuota {
    /// With at most `max` bytes, if there is a bound.
    pub(super) fn new(max: Option<NonZeroU64>) -> Arc<Self> {
        Arc::new(Self {
            max,
            bytes: AtomicU64::new(0),
            uploads: AtomicU64::new(0),
        })
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

impl Reservation {
    /// Nothing of `quota` yet.
    pub(super) fn new(quota: &Arc<StagingQuota>) -> Self {
        Self {
            quota: Arc::clone(quota),
            bytes: 0,
        }
    }

    /// Of an upload that an earlier server left, which counts also where it does not fit any more.
    pub(super) fn of_left(quota: &Arc<StagingQuota>, len: u64) -> Self {
        let mut reservation = Self::new(quota);
        if len > 0 {
            quota.bytes.fetch_add(len, Ordering::Relaxed);
            quota.uploads.fetch_add(1, Ordering::Relaxed);
            reservation.bytes = len;
        }
        reservation
    }

    /// Gives all of it back.
    pub(super) fn clear(&mut self) {
        if self.bytes > 0 {
            self.quota.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            self.quota.uploads.fetch_sub(1, Ordering::Relaxed);
            self.bytes = 0;
        }
    }

    /// Grows to `len` bytes at least. The first time takes what is asked for, as an announced length; from then on it
    /// grows by steps, while those fit.
    pub(super) fn grow(&mut self, len: u64) -> Result<(), Error> {
        let is_uncounted = self.quota.max.is_none() && len <= SMALL;
        if len <= self.bytes || is_uncounted {
            return Ok(());
        }
        let begins = self.bytes == 0;
        let exact = len - self.bytes;
        let ample = if begins {
            exact
        } else {
            exact.max(RESERVED_AT_ONCE)
        };
        let taken = [ample, exact]
            .into_iter()
            .find(|&more| self.quota.take(more));
        let Some(more) = taken else {
            return Err(Error::Exhausted {
                reason: "room for uploads (--max-staged)",
            });
        };
        self.bytes += more;
        if begins {
            self.quota.uploads.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Whose reservation an upload grows.
#[derive(Debug)]
pub(super) enum Share {
    /// Its own.
    Own(Reservation),
    /// That of a resumable upload, which outlives the request that brings a part of it.
    Common(Arc<Mutex<Reservation>>),
}

impl Share {
    /// Grows it to `len` bytes at least.
    pub(super) fn grow(&mut self, len: u64) -> Result<(), Error> {
        match self {
            Self::Own(reservation) => reservation.grow(len),
            Self::Common(common) => {
                let mut reservation = common.lock().unwrap_or_else(PoisonError::into_inner);
                reservation.grow(len)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounded(max: u64) -> Arc<StagingQuota> {
        StagingQuota::new(NonZeroU64::new(max))
    }

    #[test]
    fn a_reservation_is_refused_beyond_the_bound_and_given_back_when_dropped() {
        let quota = bounded(1000);
        let mut first = Reservation::new(&quota);
        first.grow(600).unwrap();
        let mut second = Reservation::new(&quota);
        assert!(second.grow(401).is_err());
        second.grow(400).unwrap();
        assert!(first.grow(601).is_err());
        drop(second);
        first.grow(1000).unwrap();
        assert_eq!(
            quota.in_flight(),
            InFlight {
                uploads: 1,
                bytes: 1000
            }
        );
        drop(first);
        assert_eq!(quota.in_flight(), InFlight::default());
    }

    #[test]
    fn without_a_bound_only_what_needs_a_file_is_counted() {
        let quota = StagingQuota::new(None);
        let mut reservation = Reservation::new(&quota);
        reservation.grow(SMALL).unwrap();
        assert_eq!(quota.in_flight(), InFlight::default());
        reservation.grow(SMALL + 1).unwrap();
        reservation.grow(u64::MAX / 2).unwrap();
        assert_eq!(quota.in_flight().uploads, 1);
        drop(reservation);
        assert_eq!(quota.in_flight(), InFlight::default());
    }

    #[test]
    fn the_huge_lengths_of_liars_do_not_wrap_around() {
        let quota = bounded(1000);
        let mut honest = Reservation::new(&quota);
        honest.grow(10).unwrap();
        assert!(Reservation::new(&quota).grow(u64::MAX).is_err());
        assert_eq!(quota.in_flight().bytes, 10);
    }

    proptest! {
        #[test]
        fn the_bound_is_kept_and_nothing_is_left(
            max in 1..2_000_000_u64,
            growth in prop::collection::vec((0..4_usize, 0..600_000_u64), 0..60),
        ) {
            let quota = bounded(max);
            let mut reservations: Vec<_> = (0..4).map(|_| Reservation::new(&quota)).collect();
            for (which, len) in growth {
                let (free, had) = (max - quota.in_flight().bytes, reservations[which].bytes);
                let fits = len.saturating_sub(had) <= free;
                prop_assert_eq!(reservations[which].grow(len).is_ok(), fits);
                prop_assert!(quota.in_flight().bytes <= max);
            }
            drop(reservations);
            prop_assert_eq!(quota.in_flight(), InFlight::default());
        }
    }
}
