//! Resumable uploads to an S3 store: a value that is received in several requests, by any server over the bucket.
//!
//! What has been received is in the store: parts of an upload in parts of the value itself, and a tail that is too short for
//! one. A small object says which ([`info`]), and each change of it names the version that it replaces: of two servers that
//! append at once, one makes its change, and the other learns that it has lost the upload. So an offset that was answered
//! stays, whichever server is asked next. Between the requests of one upload no server holds anything.
//!
//! A part that may be on its way from a request that has lost the upload could take the place of another with the same
//! number. So the number of a part is used once: it is reserved in the store before the part is sent.

pub(super) mod claims;
mod info;
mod parts;
mod publish;
mod receive;
mod receiving;
mod remove;
mod sums;
pub(super) mod sweep;
mod unfinished;

use std::sync::Arc;
use std::time::Duration;

use super::super::digest::{Digests, Hasher, Wanted};
use super::super::error::Error;
use super::super::key::Key;
use super::super::resumable::{Field, UploadId};
use super::super::staging_quota::Uploader;
use super::call::object_name;
use super::client::Client;
use super::contract::{Exact, Kept};
use super::shared::Shared;
use claims::Claim;
use info::{Info, Progress, Standing};
use receiving::Receiving;

pub use unfinished::UnfinishedUploads;

/// An upload that is asked for is kept as changed anew once it is this part of its expiry old.
const FRESH: u32 = 8;

/// An upload to be made.
#[derive(Debug)]
pub struct NewRemoteUpload {
    /// What it will be the value of.
    pub key: Key<'static>,
    /// How long it will be, where that is known.
    pub length: Option<u64>,
    /// What is kept for who publishes it.
    pub fields: Vec<Field>,
    /// What is kept with the value.
    pub kept: Kept,
    /// The client that it counts for.
    pub uploader: Uploader,
}

/// The claim on a resumable upload to the store.
#[derive(Debug)]
pub struct RemoteResumable {
    shared: Arc<Shared>,
    client: Arc<Client>,
    claim: Claim,
    /// The encoded name of the object that says where it stands.
    object: String,
    /// What that object says, or is to say next.
    info: Info,
    etag: String,
    /// Whether it was changed so long ago that it may expire soon.
    is_old: bool,
    /// Whether its length is not kept yet.
    has_new_length: bool,
    /// What has been received; ahead of that of `info` until it is kept.
    progress: Progress,
    /// A number that the store knows to be taken, for the next part.
    reserved: Option<u32>,
    /// The names of tails that were read or made: all but one go in the end.
    tails: Vec<String>,
    receiving: Option<Box<Receiving>>,
    /// Whether a client may know of it: else it is removed when the claim is given up.
    is_known: bool,
}

impl RemoteResumable {
    /// Makes an upload. It goes with the claim, unless its client is to be told of it.
    pub(super) async fn begin(
        shared: &Arc<Shared>,
        client: &Arc<Client>,
        new: NewRemoteUpload,
    ) -> Result<Self, Error> {
        // Whether the store can hold the key is better known now than at the end.
        object_name(client.place(), &new.key)?;
        let id = UploadId::random()?;
        let claim = shared.claims.claim(id).await;
        let object = info::object(client.place(), &id.to_string());
        let digests = Hasher::new(ALWAYS).state();
        let key = new.key.as_str().to_owned();
        let (length, uploader) = (new.length, new.uploader);
        let mut info = Info::new(key, length, new.fields, &uploader, &new.kept, digests);
        let room = shared.unfinished.begin(&uploader)?;
        let etag = info::save(client, &object, &mut info, &Exact::Create).await?;
        drop(room);
        shared.unfinished.saw(id, Some(uploader));
        Ok(Self {
            shared: Arc::clone(shared),
            client: Arc::clone(client),
            claim,
            object,
            progress: info.progress.clone(),
            info,
            etag,
            is_old: false,
            has_new_length: false,
            reserved: None,
            tails: Vec::new(),
            receiving: None,
            is_known: false,
        })
    }

    /// What the upload `id` will be the value of.
    pub(super) async fn key_of(
        client: &Client,
        id: UploadId,
    ) -> Result<Option<Key<'static>>, Error> {
        let object = info::object(client.place(), &id.to_string());
        let stored = info::load(client, &object).await?;
        stored.map(|stored| key(&stored.info)).transpose()
    }

    /// Claims the upload `id`, which ends what another request of this server does with it; `None` where there is none.
    pub(super) async fn claim(
        shared: &Arc<Shared>,
        client: &Arc<Client>,
        id: UploadId,
    ) -> Result<Option<Self>, Error> {
        let claim = shared.claims.claim(id).await;
        let object = info::object(client.place(), &id.to_string());
        let stored = info::load(client, &object).await?;
        match stored.as_ref().filter(|stored| stored.is_open()) {
            Some(open) => shared.unfinished.saw(id, open.info.uploader()),
            None => shared.unfinished.ended(id),
        }
        let Some(stored) = stored else {
            return Ok(None);
        };
        let expiry = shared.upload_expiry;
        let has_expired = !expiry.is_zero() && stored.age >= expiry;
        // The sweep removes it.
        if has_expired || stored.info.standing == Standing::Removed {
            return Ok(None);
        }
        let tail = stored.info.progress.tail.as_ref();
        Ok(Some(Self {
            shared: Arc::clone(shared),
            client: Arc::clone(client),
            claim,
            object,
            progress: stored.info.progress.clone(),
            tails: tail.map(|tail| tail.name.clone()).into_iter().collect(),
            info: stored.info,
            etag: stored.etag,
            is_old: is_old(stored.age, expiry),
            has_new_length: false,
            reserved: None,
            receiving: None,
            is_known: true,
        }))
    }

    /// Its identifier, for the client. It stays from now on.
    pub fn announce(&mut self) -> UploadId {
        self.is_known = true;
        self.claim.id()
    }

    /// Whether a client may know of it.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// What it will be the value of.
    pub fn key(&self) -> Result<Key<'static>, Error> {
        key(&self.info)
    }

    /// What is kept with it.
    pub fn fields(&self) -> &[Field] {
        &self.info.fields
    }

    /// How long it will be, where that is known.
    pub fn length(&self) -> Option<u64> {
        self.info.length
    }

    /// How many bytes have been received.
    pub fn offset(&self) -> u64 {
        let receiving = self.receiving.as_ref();
        receiving.map_or(self.progress.offset, |receiving| receiving.end())
    }

    /// Whether it has been published.
    pub fn is_complete(&self) -> bool {
        self.info.standing == Standing::Complete
    }

    /// Waits until another request of this server wants it.
    pub fn is_wanted(&self) -> impl Future<Output = ()> + use<> {
        self.claim.is_wanted()
    }

    /// Says how long it will be. It is kept with the next bytes.
    pub fn set_length(&mut self, length: u64) {
        self.info.length = Some(length);
        self.has_new_length = true;
    }

    /// Has the digests that are `wanted` of the whole be computed. The upload has to have begun with those.
    pub fn want(&mut self, wanted: Wanted) -> Result<(), Error> {
        let digests = &mut self.progress.digests;
        if digests.covers(wanted) {
            return Ok(());
        }
        if self.progress.offset > 0 {
            return Err(Error::NotSupported {
                name: "late-digest",
                what: "a digest by SHA-512 has to be named when the upload is created",
            });
        }
        *digests = Hasher::new(ALWAYS.union(wanted)).state();
        Ok(())
    }

    /// The digests of what has been received.
    pub async fn digests(&mut self) -> Result<Digests, Error> {
        let hashers = self.all().await?;
        Ok(hashers.whole.finish())
    }

    /// Keeps it from expiring soon. That another request changes it meanwhile does the same.
    pub async fn touch(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_old) {
            return Ok(());
        }
        match self.save().await {
            Err(Error::Taken) => Ok(()),
            saved => saved,
        }
    }

    /// Keeps what `info` says, if nothing else was kept since it was read.
    async fn save(&mut self) -> Result<(), Error> {
        let was = Exact::Swap(self.etag.clone());
        self.etag = info::save(&self.client, &self.object, &mut self.info, &was).await?;
        self.has_new_length = false;
        Ok(())
    }
}

/// The digest of the whole that is computed of each upload: the last part may bring it.
const ALWAYS: Wanted = Wanted {
    sha256: true,
    sha512: false,
    md5: false,
    checksum: None,
};

fn key(info: &Info) -> Result<Key<'static>, Error> {
    let key = Key::new(info.key.clone());
    key.map_err(|_| Error::BadKey("it is none"))
}

fn is_old(age: Duration, expiry: Duration) -> bool {
    !expiry.is_zero() && age >= expiry / FRESH
}
