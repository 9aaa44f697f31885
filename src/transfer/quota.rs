//! The quota of uploads before they are published: bytes in all and for each client, and how many of one client may
//! be unfinished.
//!
//! The one owner of these bounds, for all reactors. A [`QuotaReservation`] goes with the upload that it stands for, and
//! is given back when it is dropped. While a request is under way it has what that announces; between the requests of a
//! resumable upload, what was received. Without a bound, what is too small for a file is not counted: a small PUT then
//! touches nothing that is shared.

use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{RESERVED_AT_ONCE, SMALL};
use crate::value::Error;

/// How many unfinished uploads one client may have where no option says it: a tenth of all that there may be.
pub const UPLOADS_OF_ONE: u32 = 1000;

/// Bytes of several values that one request stages at once.
const MOST_AT_ONCE: u64 = 1 << 20;

/// The bounds of uploads.
#[derive(Clone, Copy, Debug, Default)]
pub struct StagingBounds {
    /// Bytes staged at once.
    pub bytes: Option<NonZeroU64>,
    /// Bytes staged at once by one client.
    pub bytes_of_one: Option<NonZeroU64>,
    /// Unfinished resumable uploads of one client.
    pub uploads_of_one: Option<NonZeroU32>,
}

/// There are as many unfinished uploads as may be: what is out, for the client. A whole value needs no place.
#[derive(Clone, Copy, Debug)]
pub struct NoPlace(pub &'static str);

impl From<NoPlace> for Error {
    fn from(NoPlace(what): NoPlace) -> Self {
        Self::Exhausted(what)
    }
}

/// The client that an upload counts for, by a name that it has over all its connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uploader(pub Arc<str>);

/// The bounds of what is staged, and the bytes and uploads that are.
#[derive(Debug)]
pub struct StagingQuota {
    bounds: StagingBounds,
    staged: Mutex<Staged>,
}

#[derive(Debug, Default)]
struct Staged {
    bytes: u64,
    /// Only clients that have something.
    of: HashMap<Uploader, OfOne>,
}

/// The share of one client.
#[derive(Debug, Default)]
struct OfOne {
    bytes: u64,
    unfinished: u32,
}

/// The bytes that one upload has of the quota.
#[derive(Debug)]
pub struct QuotaReservation {
    quota: Arc<StagingQuota>,
    uploader: Option<Uploader>,
    bytes: u64,
    is_unfinished: bool,
}

impl StagingBounds {
    /// The longest value that can ever be staged.
    pub fn longest(&self) -> Option<NonZeroU64> {
        [self.bytes, self.bytes_of_one].into_iter().flatten().min()
    }
}

impl StagingQuota {
    /// A quota within these `bounds`, of which nothing is taken.
    pub fn new(bounds: StagingBounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            staged: Mutex::default(),
        })
    }

    /// The bytes that uploads have at the moment, or that requests under way have announced; up to 256 KiB more for
    /// each upload whose length is not known. Without a bound, uploads of up to 64 KiB are left out.
    pub fn staged_bytes(&self) -> u64 {
        self.staged.lock().bytes
    }

    /// The most bytes of several values that one request stages at once: what one value may have, and little enough
    /// that others find room.
    pub fn most_at_once(&self) -> u64 {
        let longest = self.bounds.longest().map_or(u64::MAX, NonZeroU64::get);
        longest.min(MOST_AT_ONCE)
    }

    /// True when an upload that is received in one request counts for its client too.
    pub fn is_by_client(&self) -> bool {
        self.bounds.bytes_of_one.is_some()
    }
}

impl Staged {
    /// `more` bytes, if that many are left.
    fn free(
        &self,
        bounds: &StagingBounds,
        uploader: Option<&Uploader>,
        more: u64,
    ) -> Result<u64, Error> {
        let of_one = uploader.and_then(|uploader| self.of.get(uploader));
        let of_one = of_one.map_or(0, |of| of.bytes);
        let fits = |max: Option<NonZeroU64>, has: u64| {
            max.is_none_or(|max| has.checked_add(more).is_some_and(|all| all <= max.get()))
        };
        if !fits(bounds.bytes, self.bytes) {
            return Err(Error::Exhausted("room for uploads (--max-staged)"));
        }
        if uploader.is_some() && !fits(bounds.bytes_of_one, of_one) {
            return Err(Error::Exhausted(
                "this client's room for uploads (--max-staged-per-client)",
            ));
        }
        Ok(more)
    }

    /// Has an upload that had `before` bytes have `len` bytes.
    fn resize(&mut self, uploader: Option<&Uploader>, before: u64, len: u64) {
        let resized = |bytes: u64| (bytes - before).saturating_add(len);
        self.bytes = resized(self.bytes);
        self.change(uploader, |of| of.bytes = resized(of.bytes));
    }

    /// Changes what a client holds, and forgets a client that holds nothing.
    fn change(&mut self, uploader: Option<&Uploader>, change: impl FnOnce(&mut OfOne)) {
        let Some(uploader) = uploader else { return };
        let of = self.of.entry(uploader.clone()).or_default();
        change(of);
        if of.bytes == 0 && of.unfinished == 0 {
            self.of.remove(uploader);
        }
    }
}

impl QuotaReservation {
    /// Nothing of `quota` yet, for an upload of `uploader`, where that matters.
    pub fn new(quota: &Arc<StagingQuota>, uploader: Option<Uploader>) -> Self {
        Self {
            quota: Arc::clone(quota),
            uploader,
            bytes: 0,
            is_unfinished: false,
        }
    }

    /// A place for an upload that stays unfinished between its requests, if its client may have one more.
    pub fn of_unfinished(quota: &Arc<StagingQuota>, uploader: Uploader) -> Result<Self, NoPlace> {
        let mut staged = quota.staged.lock();
        let has = staged.of.get(&uploader).map_or(0, |of| of.unfinished);
        let most = quota.bounds.uploads_of_one;
        if most.is_some_and(|most| has >= most.get()) {
            return Err(NoPlace(
                "this client's room for unfinished uploads (--max-uploads-per-client)",
            ));
        }
        staged.change(Some(&uploader), |of| of.unfinished += 1);
        let mut reservation = Self::new(quota, Some(uploader));
        reservation.is_unfinished = true;
        Ok(reservation)
    }

    /// The reservation of an unfinished upload from an earlier run, with `len` bytes: it counts even if it exceeds the
    /// quota.
    pub fn of_left(quota: &Arc<StagingQuota>, uploader: Option<Uploader>, len: u64) -> Self {
        let unfinished = |of: &mut OfOne| of.unfinished += 1;
        quota.staged.lock().change(uploader.as_ref(), unfinished);
        let mut left = Self::new(quota, uploader);
        left.is_unfinished = left.uploader.is_some();
        left.take(len);
        left
    }

    /// Has `len` bytes, which are there already: they count even if they exceed the quota.
    pub fn take(&mut self, len: u64) {
        let mut staged = self.quota.staged.lock();
        staged.resize(self.uploader.as_ref(), self.bytes, len);
        self.bytes = len;
    }

    /// The client that it counts for.
    pub fn uploader(&self) -> Option<&Uploader> {
        self.uploader.as_ref()
    }

    /// Gives all of it back.
    pub fn clear(&mut self) {
        self.shrink(0);
        if std::mem::take(&mut self.is_unfinished) {
            let mut staged = self.quota.staged.lock();
            staged.change(self.uploader.as_ref(), |of| of.unfinished -= 1);
        }
    }

    /// Gives back what it has beyond `len` bytes.
    pub fn shrink(&mut self, len: u64) {
        if self.bytes > len {
            let mut staged = self.quota.staged.lock();
            staged.resize(self.uploader.as_ref(), self.bytes, len);
            self.bytes = len;
        }
    }

    /// Grows to `len` bytes at least. The first time takes what is asked for, as an announced length; from then on it
    /// grows by steps, while those fit.
    pub fn grow(&mut self, len: u64) -> Result<(), Error> {
        let is_uncounted = self.quota.bounds.longest().is_none() && len <= SMALL;
        if len <= self.bytes || is_uncounted {
            return Ok(());
        }
        // No file is as long. A sum of such lengths would end at the highest number, and less be given back than was
        // taken.
        if i64::try_from(len).is_err() {
            return Err(Error::TooLarge);
        }
        let exact = len - self.bytes;
        let ample = match self.bytes {
            0 => exact,
            _ => exact.max(RESERVED_AT_ONCE),
        };
        let (bounds, uploader) = (&self.quota.bounds, self.uploader.as_ref());
        let mut staged = self.quota.staged.lock();
        let more = staged.free(bounds, uploader, ample);
        let more = more.or_else(|_| staged.free(bounds, uploader, exact))?;
        let len = self.bytes.saturating_add(more);
        staged.resize(uploader, self.bytes, len);
        self.bytes = len;
        Ok(())
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Whose reservation an upload grows.
#[derive(Debug)]
pub enum ReservationHandle {
    /// Its own.
    Own(QuotaReservation),
    /// The reservation of a resumable upload, which outlives the request that brings a part of it.
    Common(Arc<Mutex<QuotaReservation>>),
}

impl ReservationHandle {
    /// Grows it to `len` bytes at least.
    pub fn grow(&mut self, len: u64) -> Result<(), Error> {
        match self {
            Self::Own(reservation) => reservation.grow(len),
            Self::Common(common) => common.lock().grow(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounded(max: u64) -> Arc<StagingQuota> {
        StagingQuota::new(StagingBounds {
            bytes: NonZeroU64::new(max),
            ..StagingBounds::default()
        })
    }

    fn of(quota: &Arc<StagingQuota>, name: &str) -> QuotaReservation {
        QuotaReservation::new(quota, Some(Uploader(name.into())))
    }

    #[test]
    fn one_client_has_its_share_and_another_has_the_rest() {
        let quota = StagingQuota::new(StagingBounds {
            bytes: NonZeroU64::new(1000),
            bytes_of_one: NonZeroU64::new(600),
            uploads_of_one: NonZeroU32::new(2),
        });
        let [mut first, mut second] = [of(&quota, "ann"), of(&quota, "ann")];
        first.grow(400).unwrap();
        assert!(second.grow(201).is_err());
        second.grow(200).unwrap();
        let mut other = of(&quota, "bob");
        other.grow(400).unwrap();
        assert!(other.grow(401).is_err(), "there is no more");
        first.shrink(100);
        second.grow(500).unwrap();
        drop((first, second, other));
        assert!(
            quota.staged.lock().of.is_empty(),
            "an uploader is remembered"
        );

        let begin = |name: &str| QuotaReservation::of_unfinished(&quota, Uploader(name.into()));
        let ann = [begin("ann").unwrap(), begin("ann").unwrap()];
        assert!(begin("ann").is_err());
        let left = QuotaReservation::of_left(&quota, Some(Uploader("bob".into())), 10);
        let mut ended = begin("bob").unwrap();
        assert!(begin("bob").is_err());
        ended.clear();
        drop(begin("bob").unwrap());
        drop((ann, left, ended));
        assert!(quota.staged.lock().of.is_empty());
        assert_eq!(quota.staged_bytes(), 0);
    }

    #[test]
    fn without_a_bound_only_what_needs_a_file_is_counted() {
        let quota = StagingQuota::new(StagingBounds::default());
        let mut reservation = QuotaReservation::new(&quota, None);
        reservation.grow(SMALL).unwrap();
        assert_eq!(quota.staged_bytes(), 0);
        reservation.grow(SMALL + 1).unwrap();
        reservation.grow(u64::MAX / 2).unwrap();
        assert_eq!(quota.staged_bytes(), u64::MAX / 2);
        drop(reservation);
        assert_eq!(quota.staged_bytes(), 0);
    }

    #[test]
    fn the_huge_lengths_of_liars_do_not_wrap_around() {
        let quota = bounded(1000);
        let mut honest = QuotaReservation::new(&quota, None);
        honest.grow(10).unwrap();
        assert!(QuotaReservation::new(&quota, None).grow(u64::MAX).is_err());
        assert_eq!(quota.staged_bytes(), 10);
        let unbounded = StagingQuota::new(StagingBounds::default());
        let mut honest = QuotaReservation::new(&unbounded, None);
        honest.grow(SMALL + 1).unwrap();
        assert!(
            QuotaReservation::new(&unbounded, None)
                .grow(u64::MAX)
                .is_err()
        );
        drop(honest);
        assert_eq!(unbounded.staged_bytes(), 0);
    }

    proptest! {
        #[test]
        fn the_bound_is_kept_and_nothing_is_left(
            max in 1..2_000_000_u64,
            growth in prop::collection::vec((0..4_usize, 0..600_000_u64), 0..60),
        ) {
            let quota = bounded(max);
            let mut reservations: Vec<_> = (0..4).map(|_| QuotaReservation::new(&quota, None)).collect();
            for (which, len) in growth {
                let (free, had) = (max - quota.staged_bytes(), reservations[which].bytes);
                let fits = len.saturating_sub(had) <= free;
                prop_assert_eq!(reservations[which].grow(len).is_ok(), fits);
                prop_assert!(quota.staged_bytes() <= max);
                if len % 3 == 0 {
                    reservations[which].shrink(len / 2);
                }
            }
            drop(reservations);
            prop_assert_eq!(quota.staged_bytes(), 0);
        }
    }
}
