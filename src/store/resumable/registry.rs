//! The registry of resumable uploads: those received in part, and for a while those that were published.
//!
//! Owns `.data-server/uploads`: what the start makes of it, which upload may be made, and when one expires. Their
//! number is bounded, and with it the memory that they take. All that touches the files blocks.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::record::{Record, SUFFIX, remove_files, trimmed, trusted, unlink};
use crate::store::bounds::Account;
use crate::store::directory_fd::open_beneath;
use crate::store::temp_file::names;
use crate::store::upload_claim::{Claim, Progress, Touched, UploadEntry, UploadId};
use crate::transfer::{NoPlace, QuotaReservation, StagingQuota, Uploader};
use crate::value::{Error, Key, Meta, is_regular};

/// Uploads at once, those that were published among them.
const MOST: usize = 10_000;

/// The number of published uploads that are forgotten when there is no room for another upload.
const FORGOTTEN_AT_ONCE: usize = MOST / 16;

/// The resumable uploads of a store.
#[derive(Debug)]
pub struct Registry {
    entries: Mutex<HashMap<UploadId, Arc<UploadEntry>>>,
    /// How long one is kept after something was last done to it.
    expiry: Option<Duration>,
}

impl Registry {
    /// With what an earlier server left in `uploads`. What cannot be resumed is removed; what cannot be read now is
    /// left for the next start.
    pub fn load(
        uploads: &OwnedFd,
        quota: &Arc<StagingQuota>,
        expiry: Duration,
    ) -> Result<Self, Errno> {
        let (mut entries, mut seen) = (HashMap::new(), HashSet::new());
        for name in names(uploads)? {
            let id = name.to_str().ok().and_then(|name| {
                let id = name.strip_suffix(SUFFIX).unwrap_or(name);
                UploadId::parse(id)
            });
            match id {
                Some(id) if !seen.insert(id) => {}
                Some(id) => match left(uploads, id, quota) {
                    Ok(Some(entry)) => drop(entries.insert(id, entry)),
                    Ok(None) => remove_files(uploads, id),
                    Err(error) => tracing::warn!(
                        %error,
                        "an upload cannot be read: it is kept, and can be resumed only after another start"
                    ),
                },
                None => unlink(uploads, &name.to_string_lossy()),
            }
        }
        if !entries.is_empty() {
            tracing::info!(uploads = entries.len(), "found resumable uploads");
        }
        Ok(Self {
            entries: Mutex::new(entries),
            expiry: (!expiry.is_zero()).then_some(expiry),
        })
    }

    /// Has all uploads count in the bounds of `account`.
    pub fn stage(&self, account: &Arc<Account>) {
        for entry in self.entries.lock().values() {
            entry.staging(account);
        }
    }

    /// How many uploads are unfinished.
    pub fn unfinished(&self) -> usize {
        let is_open = |entry: &&Arc<UploadEntry>| !entry.progress().is_complete;
        self.entries.lock().values().filter(is_open).count()
    }

    pub fn get(&self, id: UploadId) -> Option<Arc<UploadEntry>> {
        self.entries.lock().get(&id).cloned()
    }

    /// Adds `entry`, if there is room, or another upload gives way; answers which were forgotten for it, whose files
    /// are to be removed.
    pub fn add(&self, entry: Arc<UploadEntry>) -> Result<Vec<UploadId>, NoPlace> {
        let mut entries = self.entries.lock();
        let mut forgotten = if entries.len() < MOST {
            Vec::new()
        } else {
            oldest_published(&entries)
        };
        for id in &forgotten {
            entries.remove(id);
        }
        if entries.len() >= MOST {
            let Some(claim) = least(&entries, &entry) else {
                return Err(NoPlace("room for unfinished uploads"));
            };
            claim.removed();
            entries.remove(&claim.entry.id);
            forgotten.push(claim.entry.id);
        }
        entries.insert(entry.id, entry);
        Ok(forgotten)
    }

    /// Removes the upload that `claim` is on, and its files. Blocks.
    pub fn remove(&self, claim: &Claim, uploads: &OwnedFd) {
        claim.removed();
        self.entries.lock().remove(&claim.entry.id);
        remove_files(uploads, claim.entry.id);
    }

    /// Removes the uploads that nothing was done to for long; how many of them were unfinished. Blocks.
    pub fn expire(&self, uploads: &OwnedFd) -> u64 {
        let Some(expiry) = self.expiry else { return 0 };
        let is_over = |entry: &UploadEntry| entry.progress().touched.age() >= expiry;
        let mut expired = 0;
        for claim in self.claims(is_over) {
            // A request may have had it in between.
            if !is_over(&claim.entry) {
                continue;
            }
            expired += u64::from(!claim.entry.progress().is_complete);
            self.remove(&claim, uploads);
        }
        expired
    }

    /// Has the file system take back what was set aside for parts that broke off. Blocks.
    pub fn trim(&self, uploads: &OwnedFd) {
        for claim in self.claims(|entry| entry.progress().is_ahead) {
            if let Err(error) = trimmed(uploads, &claim) {
                tracing::warn!(%error, "space stays set aside for an upload");
            }
        }
    }

    /// The claims on the uploads that are `wanted` and that nothing has, one after the other.
    fn claims(&self, wanted: impl Fn(&UploadEntry) -> bool) -> impl Iterator<Item = Claim> {
        let entries = self.entries.lock();
        let wanted: Vec<_> = entries.values().filter(|it| wanted(it)).cloned().collect();
        wanted.into_iter().filter_map(|entry| entry.try_claim())
    }
}

/// The published uploads, those first that were not asked for the longest time.
fn oldest_published(entries: &HashMap<UploadId, Arc<UploadEntry>>) -> Vec<UploadId> {
    let published = entries.values().filter_map(|entry| {
        let progress = entry.progress();
        let age = progress.touched.age();
        progress.is_complete.then_some((age, entry.id))
    });
    let mut published: Vec<_> = published.collect();
    published.sort_unstable_by_key(|published| Reverse(*published));
    let oldest = published.into_iter().take(FORGOTTEN_AT_ONCE);
    oldest.map(|(_, id)| id).collect()
}

/// The claim on the unfinished upload that gives way to a `new` one: one of another client, which has more of them, or
/// to which no byte came. Those of the client with the most come first, of these the one with the fewest bytes, and
/// then the one that nothing was done to for the longest time. So no few clients can keep the others out.
fn least(entries: &HashMap<UploadId, Arc<UploadEntry>>, new: &UploadEntry) -> Option<Claim> {
    let uploader = new.uploader();
    let uploads: Vec<_> = entries.values().map(|it| (it.uploader(), it)).collect();
    let mut counts = HashMap::<_, usize>::new();
    for (uploader, _) in &uploads {
        *counts.entry(uploader).or_default() += 1;
    }
    let count = |of| counts.get(of).copied().unwrap_or_default();
    let own = count(&uploader) + 1;
    let others = uploads.iter().filter(|(of, _)| *of != uploader);
    let ranked = others.filter_map(|(of, entry)| {
        let Progress {
            received, touched, ..
        } = *entry.progress();
        let rank = (Reverse(count(of)), received, Reverse(touched.age()));
        (count(of) > own || received == 0).then_some((rank, *entry))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable_by_key(|(rank, _)| *rank);
    ranked.into_iter().find_map(|(_, entry)| entry.try_claim())
}

/// The upload `id` that an earlier server left; `None` where it cannot be resumed.
fn left(
    uploads: &OwnedFd,
    id: UploadId,
    quota: &Arc<StagingQuota>,
) -> Result<Option<Arc<UploadEntry>>, Error> {
    let record = Record::find(uploads, id)?;
    let key = record
        .as_ref()
        .map(|record| Key::recorded(record.key.clone()));
    let (Some(record), Some(Ok(key))) = (record, key) else {
        tracing::warn!("removed an upload without a record that can be understood");
        return Ok(None);
    };
    let file = match open_beneath(uploads, &id.to_string(), OFlags::RDWR, Mode::empty()) {
        Err(Errno::NOENT) => None,
        Err(Errno::ISDIR | Errno::LOOP) => return Ok(None),
        opened => Some(opened.map_err(Error::errno_while("open an upload"))?),
    };
    let stat = file.as_ref().map(rustix::fs::fstat).transpose();
    let stat = stat.map_err(Error::errno_while("look at an upload"))?;
    let (len, is_complete) = match (&file, stat) {
        (Some(file), Some(stat)) if is_regular(&stat) && stat.st_nlink == 1 => {
            let Some(len) = trusted(file, &record, Meta::of(&stat).len)? else {
                return Ok(None);
            };
            (len, false)
        }
        // It was published by a link, and the server ended before it took the first name away.
        (Some(_), Some(stat)) if is_regular(&stat) && record.is_of_this_start() => {
            unlink(uploads, &id.to_string());
            (0, true)
        }
        (None, _) if record.is_of_this_start() => (0, true),
        _ => return Ok(None),
    };
    let age = stat.map(|stat| age(&record, Meta::of(&stat).version.time()));
    let progress = Progress {
        length: record.length,
        synced: record.synced,
        received: len,
        is_ahead: true,
        touched: Touched::before(age.unwrap_or_default()),
        is_complete,
    };
    let reservation = if is_complete {
        QuotaReservation::new(quota, None)
    } else {
        let uploader = record.uploader.as_deref().map(|name| Uploader(name.into()));
        QuotaReservation::of_left(quota, uploader, len)
    };
    Ok(Some(UploadEntry::new(id, key, progress, reservation)))
}

/// How long nothing was done to an upload whose file was touched at that time of the clock. What the clock was put
/// forward since is no time that has passed: of this boot, that can be told.
fn age(record: &Record, touched: SystemTime) -> Duration {
    let age = SystemTime::now().duration_since(touched);
    age.unwrap_or_default().saturating_sub(record.put_forward())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::StagingBounds;

    /// An unfinished upload of `client` with so many bytes, to which nothing was done for `age` seconds.
    fn entry(client: &str, received: u64, age: u64) -> Arc<UploadEntry> {
        let quota = StagingQuota::new(StagingBounds::default());
        let reservation = QuotaReservation::of_unfinished(&quota, Uploader(client.into())).unwrap();
        let progress = Progress {
            length: None,
            synced: None,
            received,
            is_ahead: false,
            touched: Touched::before(Duration::from_secs(age)),
            is_complete: false,
        };
        let key = Key::new("k").unwrap();
        UploadEntry::new(UploadId::random().unwrap(), key, progress, reservation)
    }

    fn full_of(entries: impl Iterator<Item = Arc<UploadEntry>>) -> Registry {
        let entries: HashMap<_, _> = entries.map(|entry| (entry.id, entry)).collect();
        assert_eq!(entries.len(), MOST);
        Registry {
            entries: Mutex::new(entries),
            expiry: None,
        }
    }

    #[test]
    fn of_the_client_with_the_most_uploads_the_emptiest_and_oldest_gives_way() {
        let (empty, old) = (entry("0", 0, 5), entry("0", 0, 9));
        let in_use = entry("0", 0, 10).try_claim().unwrap();
        let named = [&empty, &old, &in_use.entry].map(Arc::clone);
        let others = (0..MOST - 3).map(|at| entry(&(at % 10).to_string(), 7, 20));
        let registry = full_of(others.chain(named));
        // Client 0 has three more than the others.
        assert_eq!(registry.add(entry("new", 0, 0)).unwrap(), [old.id]);
        assert!(old.try_claim().is_none() && registry.get(old.id).is_none());
        assert_eq!(registry.add(entry("new", 0, 0)).unwrap(), [empty.id]);
        for _ in 0..100 {
            assert_eq!(registry.add(entry("new", 0, 0)).unwrap().len(), 1);
        }
        assert!(registry.get(in_use.entry.id).is_some());
        assert_eq!(registry.unfinished(), MOST);
    }

    #[test]
    fn what_was_received_of_clients_with_no_more_uploads_stays() {
        let empty = entry("empty", 0, 0);
        let others = (1..MOST).map(|at| entry(&at.to_string(), 1, 9));
        let registry = full_of(others.chain([Arc::clone(&empty)]));
        assert_eq!(registry.add(entry("new", 1, 0)).unwrap(), [empty.id]);
        assert!(registry.add(entry("newer", 1, 0)).is_err());
    }
}
