//! Values that arrive as numbered parts: in any order, several at once, and each replaced until the value is published.
//!
//! Owns `.data-server/parts`: `ID.json` is the record of an upload, and `ID.N` its part N. A part is written aside and
//! renamed, so it is whole or absent, and has a version as values have. What was received is still there after a
//! restart; after a reboot where that is promised. All that touches the files blocks.
//!
//! The value itself is made of the parts by [`FileUpload::copy`](super::FileUpload::copy), and published as any other.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::attributes::fields;
use super::bounds::{Account, Staging};
use super::directory_fd::{open_beneath, stat};
use super::new_value::NewValue;
use super::object::Descriptor;
use super::resumable::{Field, Record, unlink};
use super::temp_file::names;
use super::upload_claim::{Touched, UploadId};
use super::value_file::ValueFile;
use super::write_context::{Durability, WriteContext};
use crate::transfer::{NoPlace, QuotaReservation, ReservationHandle, StagingQuota, Uploader};
use crate::value::{Error, Key, Meta, etag};

/// Uploads at once.
const MOST: usize = 10_000;

/// The highest number of a part.
pub const MOST_PARTS: u16 = 10_000;

/// An upload in parts.
#[derive(Debug)]
pub struct Multipart {
    /// Its identifier.
    pub id: UploadId,
    /// The key of the value.
    pub key: Key<'static>,
    /// When it was begun.
    pub begun: SystemTime,
    /// Held by the one that completes it.
    pub turn: tokio::sync::Mutex<()>,
    /// Held by the one that gives files their names, or takes them away, for as long as that takes.
    naming: Mutex<()>,
    /// Never held over a call of the system: reactors look at it.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    touched: Touched,
    /// `None` once it was published or given up.
    parts: Option<BTreeMap<u16, Part>>,
    /// Its place among the unfinished uploads of its client.
    place: Option<QuotaReservation>,
}

/// A part, and what counts for its bytes.
#[derive(Debug)]
struct Part {
    meta: Meta,
    _reservation: Option<ReservationHandle>,
    staging: Option<Arc<Staging>>,
}

/// A part that was received.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedPart {
    /// Its number.
    pub number: u16,
    /// Its length and its version.
    pub meta: Meta,
}

/// A part that is read.
pub struct OpenPart {
    /// Its bytes.
    pub file: Descriptor,
    /// What is kept with it, as with a value.
    pub fields: Box<[u8]>,
}

impl ReceivedPart {
    /// Its entity tag.
    pub fn etag(&self) -> String {
        etag(self.meta)
    }
}

impl Multipart {
    fn new(
        id: UploadId,
        key: Key<'static>,
        begun: SystemTime,
        place: Option<QuotaReservation>,
    ) -> Arc<Self> {
        let state = State {
            touched: Touched::now(),
            parts: Some(BTreeMap::new()),
            place,
        };
        Arc::new(Self {
            id,
            key,
            begun,
            turn: tokio::sync::Mutex::default(),
            naming: Mutex::default(),
            state: Mutex::new(state),
        })
    }

    /// The parts that were received, in their order.
    pub fn parts(&self) -> Vec<ReceivedPart> {
        let state = self.state.lock();
        let parts = state.parts.iter().flatten();
        let parts = parts.map(|(&number, part)| ReceivedPart {
            number,
            meta: part.meta,
        });
        parts.collect()
    }

    /// Something is done with it.
    pub fn touch(&self) {
        self.state.lock().touched = Touched::now();
    }

    fn name(&self, number: u16) -> String {
        format!("{}.{number}", self.id)
    }

    /// Takes the part of this number that an earlier server left in `dir`; false where there is none.
    fn restore(&self, dir: &OwnedFd, number: u16, quota: &Arc<StagingQuota>) -> bool {
        let Ok(stat) = stat(dir, &self.name(number)) else {
            return false;
        };
        let (meta, mut state) = (Meta::of(&stat), self.state.lock());
        let uploader = state.place.as_ref().and_then(|place| place.uploader());
        let mut reservation = QuotaReservation::new(quota, uploader.cloned());
        reservation.take(meta.len);
        let part = Part {
            meta,
            _reservation: Some(ReservationHandle::Own(reservation)),
            staging: None,
        };
        state.parts.get_or_insert_default().insert(number, part);
        true
    }

    /// Takes `value`, which is in a file of its own, as the part of this number; `None` where the upload has ended.
    pub fn take(
        &self,
        writer: &WriteContext,
        number: u16,
        mut value: NewValue,
    ) -> Result<Option<Meta>, Error> {
        let (dir, file) = (&writer.temp_dir.parts, value.file_mut()?);
        let stat = retry_on_intr(|| rustix::fs::fstat(&*file.file));
        let meta = Meta::of(&stat.map_err(Error::errno_while("look at a part"))?);
        let naming = self.naming.lock();
        if self.state.lock().parts.is_none() {
            return Ok(None);
        }
        let named = file.replace(dir, &self.name(number), false);
        named.map_err(Error::errno_while("keep a part"))?;
        let part = Part {
            meta,
            _reservation: value.reservation.take(),
            staging: value.staging.take(),
        };
        self.change(|parts| parts.insert(number, part));
        drop(naming);
        if writer.durability == Durability::Disk
            && let Err(errno) = writer.sync_folder(dir)
        {
            // Its name may not be on the disk, and the next sync would prove nothing.
            self.change(|parts| parts.remove(&number));
            return Err(Error::unsynced("sync a part")(errno));
        }
        Ok(Some(meta))
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<u16, Part>) -> Option<T>) {
        let mut state = self.state.lock();
        state.touched = Touched::now();
        let replaced = state.parts.as_mut().map(change);
        drop(state);
        drop(replaced);
    }

    /// Opens `part`; `None` where another has its place.
    pub fn open(
        &self,
        writer: &WriteContext,
        part: ReceivedPart,
    ) -> Result<Option<OpenPart>, Error> {
        let (dir, name) = (&writer.temp_dir.parts, self.name(part.number));
        let file = match open_beneath(dir, &name, OFlags::RDONLY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file.map_err(Error::errno_while("open a part"))?,
        };
        let stat = retry_on_intr(|| rustix::fs::fstat(&file));
        let meta = Meta::of(&stat.map_err(Error::errno_while("look at a part"))?);
        if meta != part.meta {
            return Ok(None);
        }
        let fields = fields(&file, meta.version)?.unwrap_or_default();
        let file = ValueFile::new(file, writer.dir().disk.clone(), false);
        let file = Descriptor::from(file);
        Ok(Some(OpenPart { file, fields }))
    }
}

/// The uploads in parts of a store.
#[derive(Debug)]
pub struct Multiparts {
    entries: Mutex<HashMap<UploadId, Arc<Multipart>>>,
    /// How long one is kept after something was last done with it.
    expiry: Option<Duration>,
}

impl Multiparts {
    /// With what an earlier server left in `dir`. What cannot be trusted is removed.
    pub fn load(
        dir: &OwnedFd,
        quota: &Arc<StagingQuota>,
        durability: Durability,
        expiry: Duration,
    ) -> Result<Self, Errno> {
        let names = names(dir)?.into_iter();
        let names: Vec<String> = names.map(|it| it.to_string_lossy().into_owned()).collect();
        let mut entries = HashMap::new();
        for name in &names {
            if let Some((id, "json")) = parsed(name)
                && let Some(found) = left(dir, id, quota, durability)
            {
                entries.insert(id, found);
            }
        }
        for name in names {
            let is_kept = match parsed(&name) {
                Some((id, "json")) => entries.contains_key(&id),
                Some((id, number)) => {
                    let upload = entries.get(&id).zip(number.parse().ok());
                    upload.is_some_and(|(upload, number)| upload.restore(dir, number, quota))
                }
                None => false,
            };
            if !is_kept {
                unlink(dir, &name);
            }
        }
        Ok(Self {
            entries: Mutex::new(entries),
            expiry: (!expiry.is_zero()).then_some(expiry),
        })
    }

    /// Has the parts that an earlier server left count in the bounds of `account`.
    pub fn stage(&self, account: &Arc<Account>) {
        for upload in self.entries.lock().values() {
            let mut state = upload.state.lock();
            for part in state.parts.iter_mut().flat_map(BTreeMap::values_mut) {
                let staging = Staging::new(account, upload.key.as_str());
                staging.set(part.meta.len);
                part.staging = Some(staging);
            }
        }
    }

    /// Begins an upload of the value of `key`, that counts for `uploader`; the `fields` are kept with it.
    pub fn begin(
        &self,
        writer: &WriteContext,
        key: Key<'static>,
        fields: Vec<Field>,
        uploader: &Uploader,
    ) -> Result<UploadId, Error> {
        let place = QuotaReservation::of_unfinished(&writer.quota, uploader.clone())?;
        let id = UploadId::random()?;
        let mut record = Record::new(&key, fields, Some(uploader));
        let is_synced = writer.durability == Durability::Disk;
        record.synced = is_synced.then_some(0);
        let upload = Multipart::new(id, key, SystemTime::now(), Some(place));
        {
            let mut entries = self.entries.lock();
            if entries.len() >= MOST {
                return Err(NoPlace("room for unfinished uploads").into());
            }
            entries.insert(id, upload);
        }
        let kept = record.keep((&writer.temp_dir.parts, id), is_synced);
        if kept.is_err() {
            self.entries.lock().remove(&id);
        }
        kept.map(|()| id)
    }

    pub fn get(&self, id: UploadId) -> Option<Arc<Multipart>> {
        self.entries.lock().get(&id).cloned()
    }

    /// The uploads of keys with this prefix, in the order of their keys.
    pub fn with(&self, prefix: &str) -> Vec<Arc<Multipart>> {
        let entries = self.entries.lock();
        let found = entries
            .values()
            .filter(|it| it.key.as_str().starts_with(prefix));
        let mut found: Vec<_> = found.cloned().collect();
        drop(entries);
        found.sort_by(|a, b| (a.key.as_str(), a.id).cmp(&(b.key.as_str(), b.id)));
        found
    }

    /// Removes an upload, and its files.
    pub fn remove(&self, dir: &OwnedFd, upload: &Multipart) {
        let _naming = upload.naming.lock();
        let mut state = upload.state.lock();
        let (_place, parts) = (state.place.take(), state.parts.take());
        drop(state);
        self.entries.lock().remove(&upload.id);
        // The record first: parts without one are nothing.
        unlink(dir, &format!("{}.json", upload.id));
        for number in parts.iter().flat_map(BTreeMap::keys) {
            unlink(dir, &upload.name(*number));
        }
    }

    /// Removes the uploads that nothing was done with for long; how many those were.
    pub fn expire(&self, dir: &OwnedFd) -> u64 {
        let Some(expiry) = self.expiry else { return 0 };
        let is_over = |it: &&Arc<Multipart>| it.state.lock().touched.age() >= expiry;
        let over: Vec<_> = self
            .entries
            .lock()
            .values()
            .filter(is_over)
            .cloned()
            .collect();
        for upload in &over {
            self.remove(dir, upload);
        }
        over.len() as u64
    }
}

/// The upload that the file of this name is of, and what of it.
fn parsed(name: &str) -> Option<(UploadId, &str)> {
    let (id, rest) = name.split_once('.')?;
    Some((UploadId::parse(id)?, rest))
}

/// The upload `id` that an earlier server left; `None` where its parts may not be what was sent.
fn left(
    dir: &OwnedFd,
    id: UploadId,
    quota: &Arc<StagingQuota>,
    durability: Durability,
) -> Option<Arc<Multipart>> {
    let mut record = Record::find(dir, id).ok()??;
    let (was_synced, is_synced) = (record.synced.is_some(), durability == Durability::Disk);
    if !(was_synced && is_synced || record.is_of_this_start()) {
        return None;
    }
    let begun = Meta::of(&stat(dir, &format!("{id}.json")).ok()?)
        .version
        .time();
    if was_synced != is_synced {
        // Its parts may not be on the disk, or from now on they may not.
        if is_synced {
            rustix::fs::syncfs(dir).ok()?;
        }
        record.synced = is_synced.then_some(0);
        record.keep((dir, id), is_synced).ok()?;
    }
    let key = Key::recorded(record.key.clone()).ok()?;
    let uploader = record.uploader.map(|name| Uploader(name.into()));
    let place = QuotaReservation::of_left(quota, uploader, 0);
    Some(Multipart::new(id, key, begun, Some(place)))
}
