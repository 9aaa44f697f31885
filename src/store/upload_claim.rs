//! One resumable upload in memory: its identifier, and the claim on it, which is the right to change it.
//!
//! Promises that there is one claim at a time. A claim lasts as long as anything that may still write to the file: the
//! request, its jobs on the disk threads, and the publisher each hold it. A request that wants it tells its holder,
//! which then gives it up (draft-ietf-httpbis-resumable-upload, "Concurrency").

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use scopeguard::guard;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::bounds::{Account, Staging};
use super::clock::uptime;
use crate::transfer::{QuotaReservation, Uploader, random};
use crate::value::{Error, Key};

/// Identifies one resumable upload, by 128 random bits that cannot be guessed: the name of its file, and the last
/// segment of the path of its upload resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(u128);

impl UploadId {
    pub(crate) fn random() -> Result<Self, Error> {
        let bits = random().map_err(Error::errno_while("draw random bytes"))?;
        Ok(Self(bits))
    }

    /// Parses 32 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(u128::from_str_radix(text, 16).ok()?);
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The identifier lets its holder change the upload, so a log does not show it.
impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadId")
    }
}

/// When an upload was last touched, by a clock that steps of the system's clock do not move.
#[derive(Clone, Copy, Debug)]
pub struct Touched(Duration);

impl Touched {
    pub fn now() -> Self {
        Self::before(Duration::ZERO)
    }

    /// A touch that was `age` ago.
    pub fn before(age: Duration) -> Self {
        Self(reading().saturating_sub(age))
    }

    /// How long ago it was.
    pub fn age(self) -> Duration {
        reading().saturating_sub(self.0)
    }
}

/// The clock of [`Touched`]. It begins a hundred years before the machine was started, for uploads that were touched
/// before that.
fn reading() -> Duration {
    uptime() + Duration::from_secs(100 * 365 * 24 * 3600)
}

/// The state of an upload that changes.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// How long it will be, where that is known.
    pub length: Option<u64>,
    /// How many of its bytes are known to be on the disk, where that is promised.
    pub synced: Option<u64>,
    /// How long its file is, as far as is known: what counts between its requests.
    pub received: u64,
    /// Whether space may be set aside behind the end of its file.
    pub is_ahead: bool,
    /// When something was last done to it.
    pub touched: Touched,
    /// It has been published: its file is the value now. Until then bytes may be appended.
    pub is_complete: bool,
}

impl Progress {
    /// The bytes of its file that are yet to be published.
    fn staged(&self) -> u64 {
        if self.is_complete { 0 } else { self.received }
    }
}

/// One resumable upload.
#[derive(Debug)]
pub struct UploadEntry {
    pub id: UploadId,
    pub key: Key<'static>,
    progress: Mutex<Progress>,
    pub reservation: Arc<Mutex<QuotaReservation>>,
    /// With bounds: what counts for its bytes there.
    staging: OnceLock<Arc<Staging>>,
    /// Its one permit is held by the holder of the claim. It is closed once the upload is removed.
    permit: Arc<Semaphore>,
    /// How many requests wait for the claim.
    pub waiting: watch::Sender<usize>,
}

/// The right to change an upload.
#[derive(Debug)]
pub struct Claim {
    pub entry: Arc<UploadEntry>,
    _permit: OwnedSemaphorePermit,
}

impl UploadEntry {
    pub fn new(
        id: UploadId,
        key: Key<'static>,
        progress: Progress,
        reservation: QuotaReservation,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            key,
            progress: Mutex::new(progress),
            reservation: Arc::new(Mutex::new(reservation)),
            staging: OnceLock::new(),
            permit: Arc::new(Semaphore::new(1)),
            waiting: watch::Sender::new(0),
        })
    }

    /// The claim, once its holder has given it up; `None` when the upload was removed.
    pub async fn claim(self: &Arc<Self>) -> Option<Claim> {
        self.waiting.send_modify(|waiting| *waiting += 1);
        let waiting = guard(&self.waiting, |it| it.send_modify(|waiting| *waiting -= 1));
        let permit = Arc::clone(&self.permit).acquire_owned().await.ok();
        drop(waiting);
        Some(self.claimed(permit?))
    }

    /// The claim, if nothing has it, and the upload was not removed.
    pub fn try_claim(self: &Arc<Self>) -> Option<Claim> {
        let permit = Arc::clone(&self.permit).try_acquire_owned().ok()?;
        Some(self.claimed(permit))
    }

    fn claimed(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Claim {
        Claim {
            entry: Arc::clone(self),
            _permit: permit,
        }
    }

    /// What counts for its bytes in the bounds of `account`.
    pub fn staging(&self, account: &Arc<Account>) -> Arc<Staging> {
        let new = || {
            let staging = Staging::new(account, self.key.as_str());
            staging.set(self.progress().staged());
            staging
        };
        Arc::clone(self.staging.get_or_init(new))
    }

    /// The client that it counts for.
    pub fn uploader(&self) -> Option<Uploader> {
        self.reservation.lock().uploader().cloned()
    }

    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
}

impl Claim {
    /// Notes that its file has the name of the key.
    pub fn published(&self) {
        let mut progress = self.entry.progress();
        (progress.is_complete, progress.touched) = (true, Touched::now());
        drop(progress);
        self.entry.reservation.lock().clear();
    }

    /// Notes that its files are removed: this was the last claim.
    pub fn removed(&self) {
        self.entry.permit.close();
        self.entry.progress().received = 0;
        self.entry.reservation.lock().clear();
    }
}

impl Drop for Claim {
    /// Gives back the quota of bytes that were announced and not received.
    fn drop(&mut self) {
        let progress = *self.entry.progress();
        self.entry.reservation.lock().shrink(progress.received);
        if let Some(staging) = self.entry.staging.get() {
            staging.set(progress.staged());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_identifier_is_read_as_it_is_written(bits in any::<u128>()) {
            let id = UploadId(bits);
            prop_assert_eq!(UploadId::parse(&id.to_string()), Some(id));
        }

        #[test]
        fn an_identifier_has_one_spelling(text in "[0-9a-fA-F+-]{0,40}") {
            if let Some(id) = UploadId::parse(&text) {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(UploadId::random().unwrap(), UploadId::random().unwrap());
    }
}
