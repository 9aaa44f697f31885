//! The registry of resumable uploads: those received in part, and for a while those that were published.
//!
//! Owns `.data-server/uploads`: what the start makes of it, which upload may be made, and when one expires. Their number is
//! bounded, and with it the memory that they take. All that touches the files blocks.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::record::{Record, SUFFIX, trimmed, trusted, unlink};
use crate::store::directory_fd::open_beneath;
use crate::store::upload_claim::{Claim, Entry, Progress, Standing, Touched, UploadId};
use crate::transfer::{Reservation, StagingQuota, Uploader};
use crate::value::{Error, Key, Meta, is_regular};

/// Uploads at once, those that were published among them.
const MOST: usize = 10_000;

/// The number of published uploads that are forgotten when there is no room for another upload.
const FORGOTTEN_AT_ONCE: usize = MOST / 16;

/// The resumable uploads of a store.
#[derive(Debug)]
pub struct Registry {
    entries: Mutex<HashMap<UploadId, Arc<Entry>>>,
    /// How long one is kept after something was last done to it.
    expiry: Option<Duration>,
}

impl Registry {
    /// With what an earlier server left in `uploads`. What cannot be resumed is removed; what cannot be read now is left for the
    /// next start.
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

    /// How many uploads are unfinished.
    pub fn unfinished(&self) -> usize {
        let is_open = |entry: &&Arc<Entry>| entry.progress().standing == Standing::Open;
        self.entries().values().filter(is_open).count()
    }

    /// The key that the upload `id` will be the value of.
    pub fn key(&self, id: UploadId) -> Option<Key<'static>> {
        self.get(id).map(|entry| entry.key.clone())
    }

    pub fn get(&self, id: UploadId) -> Option<Arc<Entry>> {
        self.entries().get(&id).cloned()
    }

    /// Adds `entry`, if there is room; answers which were forgotten for it, whose files are to be removed.
    pub fn add(&self, entry: Arc<Entry>) -> Result<Vec<UploadId>, Error> {
        let mut entries = self.entries();
        let forgotten = if entries.len() < MOST {
            Vec::new()
        } else {
            oldest_published(&entries)
        };
        for id in &forgotten {
            entries.remove(id);
        }
        if entries.len() >= MOST {
            return Err(Error::Exhausted {
                reason: "room for unfinished uploads",
            });
        }
        entries.insert(entry.id, entry);
        Ok(forgotten)
    }

    /// Removes the upload that `claim` is on, and its files. Blocks.
    pub fn remove(&self, claim: &Claim, uploads: &OwnedFd) {
        claim.removed();
        self.entries().remove(&claim.entry.id);
        remove_files(uploads, claim.entry.id);
    }

    /// Removes the uploads that nothing was done to for long; how many of them were unfinished. Blocks.
    pub fn expire(&self, uploads: &OwnedFd) -> u64 {
        let Some(expiry) = self.expiry else { return 0 };
        let is_over = |entry: &&Arc<Entry>| entry.progress().touched.age() >= expiry;
        let over: Vec<_> = self.entries().values().filter(is_over).cloned().collect();
        let mut expired = 0;
        for claim in over.iter().filter_map(Entry::try_claim) {
            // A request may have had it in between.
            if !is_over(&&claim.entry) {
                continue;
            }
            if claim.entry.progress().standing == Standing::Open {
                expired += 1;
            }
            self.remove(&claim, uploads);
        }
        expired
    }

    /// Has the file system take back what was set aside for parts that broke off. Blocks.
    pub fn trim(&self, uploads: &OwnedFd) {
        let is_ahead = |entry: &&Arc<Entry>| entry.progress().is_ahead;
        let ahead: Vec<_> = self.entries().values().filter(is_ahead).cloned().collect();
        for claim in ahead.iter().filter_map(Entry::try_claim) {
            if let Err(error) = trimmed(uploads, &claim) {
                tracing::warn!(%error, "space stays set aside for an upload");
            }
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<UploadId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the files of `id`, the record first. Blocks.
pub fn remove_files(uploads: &OwnedFd, id: UploadId) {
    Record::remove(uploads, id);
    unlink(uploads, &id.to_string());
}

/// The published uploads, those first that were not asked for the longest time.
fn oldest_published(entries: &HashMap<UploadId, Arc<Entry>>) -> Vec<UploadId> {
    let published = entries.values().filter_map(|entry| {
        let progress = entry.progress();
        (progress.standing == Standing::Complete).then_some((progress.touched.age(), entry.id))
    });
    let mut published: Vec<_> = published.collect();
    published.sort_unstable_by_key(|published| Reverse(*published));
    let oldest = published.into_iter().take(FORGOTTEN_AT_ONCE);
    oldest.map(|(_, id)| id).collect()
}

fn names(uploads: &OwnedFd) -> Result<Vec<std::ffi::CString>, Errno> {
    let is_name = |name: &CStr| name != c"." && name != c"..";
    let mut names = Vec::new();
    for entry in Dir::read_from(uploads)? {
        let entry = entry?;
        if is_name(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// The upload `id` that an earlier server left; `None` where it cannot be resumed.
fn left(
    uploads: &OwnedFd,
    id: UploadId,
    quota: &Arc<StagingQuota>,
) -> Result<Option<Arc<Entry>>, Error> {
    let record = Record::find(uploads, id)?;
    let key = record.as_ref().map(|record| Key::new(record.key.clone()));
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
    let (len, standing) = match (&file, stat) {
        (Some(file), Some(stat)) if is_regular(&stat) && stat.st_nlink == 1 => {
            let Some(len) = trusted(file, &record, Meta::of(&stat).len)? else {
                return Ok(None);
            };
            (len, Standing::Open)
        }
        // It was published by a link, and the server ended before it took the first name away.
        (Some(_), Some(stat)) if is_regular(&stat) && record.is_of_this_start() => {
            unlink(uploads, &id.to_string());
            (0, Standing::Complete)
        }
        (None, _) if record.is_of_this_start() => (0, Standing::Complete),
        _ => return Ok(None),
    };
    let age = stat.map(|stat| age(&record, Meta::of(&stat).version.time()));
    let progress = Progress {
        length: record.length,
        synced: record.synced,
        received: len,
        is_ahead: true,
        touched: Touched::before(age.unwrap_or_default()),
        standing,
    };
    let reservation = match standing {
        Standing::Open => {
            let uploader = record.uploader.as_deref().map(Uploader::new);
            Reservation::of_left(quota, uploader, len)
        }
        _ => Reservation::new(quota, None),
    };
    Ok(Some(Entry::new(id, key, progress, reservation)))
}

/// How long nothing was done to an upload whose file was touched at that time of the clock. What the clock was put forward since
/// is no time that has passed: of this boot, that can be told.
fn age(record: &Record, touched: SystemTime) -> Duration {
    let age = SystemTime::now().duration_since(touched);
    age.unwrap_or_default().saturating_sub(record.put_forward())
}
