//! Changes of a value in either engine: an upload, begun, received and published under its preconditions, and a removal from an S3
//! store.
//!
//! Preconditions are decided when the value is published; they are asked before it is received too, so that what must fail is not
//! received first. A condition that an S3 store can decide goes there with the request. Any other is decided here, for the version
//! that a HEAD shows, and the change names that version; where the value is another one by then, all begins again.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;

use crate::http::refusal::Refusal;
use crate::http::service::handler::Handler;
use crate::http::values::conditional::{Current, Preconditions, Single};
use crate::http::values::media;
use crate::http::values::representation::{Published, Validators, gzip_tag};
use crate::s3::{
    self, Gateway, RemoteMeta, RemoteUpload, S3, StoredHeaders, UploadPlan, WriteCondition, Written,
};
use crate::store::{
    self, BlockingPool, BodySource, Condition, Digests, Directory, Error, Key, Meta, Store, Upload,
    Uploader, Wanted,
};

/// The most tries of a request to an S3 store whose value is another one each time.
pub const TRIES: usize = 8;

/// The value was another one each time.
pub const CONTENDED: Error = Error::Busy { retry_after: 1 };

/// The facts of a value that are known before it is received.
#[derive(Debug, Default)]
pub struct Announced<'a> {
    /// Its length in bytes.
    pub len: Option<u64>,
    pub media_type: Option<&'a str>,
    /// The fields kept with it, as text.
    pub fields: Option<Box<[u8]>>,
    pub sha256: Option<[u8; 32]>,
    pub preconditions: Option<&'a Preconditions>,
    /// The client whose quota it counts against, where there is one.
    pub uploader: Option<Uploader>,
}

/// A value that is being received, by either engine.
#[expect(
    clippy::large_enum_variant,
    reason = "a small value of a directory is received without another allocation"
)]
pub enum ValueUpload<'a> {
    File(&'a Directory, Upload),
    Remote(Box<Remote<'a>>),
}

type Publishing<'a> = Pin<Box<dyn Future<Output = Result<Published, Refusal>> + 'a>>;

/// A value that an S3 store receives.
pub struct Remote<'a> {
    gateway: Gateway<'a>,
    upload: RemoteUpload,
    /// The condition of publishing, where the store decides it.
    condition: Option<WriteCondition>,
}

impl Handler {
    /// Begins to receive a value of `key`.
    pub async fn begin_value(
        &self,
        key: &Key<'_>,
        announced: Announced<'_>,
    ) -> Result<ValueUpload<'_>, Refusal> {
        match &*self.store {
            Store::Directory(directory) => {
                if let Some(preconditions) = announced.preconditions {
                    Box::pin(ask_early(directory, key, preconditions)).await?;
                }
                let begun = directory.upload(key, announced.len, announced.uploader);
                let mut upload = begun.await?;
                describe(&mut upload, announced.media_type, announced.fields);
                Ok(ValueUpload::File(directory, upload))
            }
            Store::S3(s3) => {
                let remote = Box::pin(self.begin_remote(s3, key, announced)).await?;
                Ok(ValueUpload::Remote(Box::new(remote)))
            }
        }
    }

    async fn begin_remote<'a>(
        &self,
        s3: &'a Arc<S3>,
        key: &Key<'_>,
        announced: Announced<'_>,
    ) -> Result<Remote<'a>, Refusal> {
        let gateway = s3.gateway(self.reactor);
        let condition = exact(announced.preconditions);
        if let Some(preconditions) = announced.preconditions {
            gateway.takes_conditional_writes()?;
            // A store that refuses a long value hangs up before it has all of it, and its answer may be lost.
            if condition.is_none() || s3::is_long(announced.len) {
                swap(preconditions, gateway.head(key).await?.as_ref())?;
            }
        }
        let begin = UploadPlan {
            len: announced.len,
            kept: StoredHeaders {
                sha256: announced.sha256,
                ..kept(key, announced.media_type, announced.fields)
            },
            condition: condition.clone(),
            uploader: announced.uploader,
        };
        Ok(Remote {
            upload: gateway.upload(key, begin).await?,
            gateway,
            condition,
        })
    }

    /// Removes a value of an S3 store; false where there was none.
    pub async fn delete_remote(
        &self,
        s3: &Arc<S3>,
        key: &Key<'_>,
        preconditions: Option<Preconditions>,
    ) -> Result<bool, Refusal> {
        let gateway = s3.gateway(self.reactor);
        let Some(preconditions) = preconditions else {
            return Ok(gateway.delete(key, None).await?);
        };
        gateway.takes_conditional_removals()?;
        for _ in 0..TRIES {
            let Some(meta) = gateway.head(key).await? else {
                return Ok(false);
            };
            swap(&preconditions, Some(&meta))?;
            match gateway.delete(key, Some(&meta.etag)).await {
                Err(Error::Precondition) => {}
                deleted => return Ok(deleted?),
            }
        }
        Err(CONTENDED.into())
    }
}

/// Sets the media type and the fields that are kept with the value of `upload`.
pub fn describe(upload: &mut Upload, media_type: Option<&str>, fields: Option<Box<[u8]>>) {
    if let Some(media_type) = media_type {
        upload.set_media_type(media_type);
    }
    if let Some(fields) = fields {
        upload.set_fields(fields);
    }
}

/// The headers that an S3 store keeps with a value of `key`.
fn kept(key: &Key<'_>, media_type: Option<&str>, fields: Option<Box<[u8]>>) -> StoredHeaders {
    // Other clients of the store then see the type that this server would guess.
    let guessed = || media::of(key.as_str(), None, false).into();
    StoredHeaders {
        media_type: Some(media_type.map_or_else(guessed, Into::into)),
        fields,
        sha256: None,
    }
}

impl<'a> ValueUpload<'a> {
    /// Computes the digests that are `wanted` from the bytes to come.
    pub fn hash(&mut self, wanted: Wanted, compute: &BlockingPool) {
        match self {
            Self::File(_, upload) => upload.hash(wanted, compute.clone()),
            Self::Remote(remote) => remote.upload.hash(wanted),
        }
    }

    /// Takes the next bytes.
    pub async fn push(&mut self, data: Bytes) -> Result<(), Error> {
        match self {
            Self::File(_, upload) => upload.push(data).await,
            Self::Remote(remote) => Box::pin(remote.upload.push(data)).await,
        }
    }

    /// Takes all that `source` has.
    pub async fn take(&mut self, source: &mut dyn BodySource) -> Result<(), Error> {
        match self {
            Self::File(_, upload) => upload.receive(source).await,
            Self::Remote(remote) => Box::pin(take(&mut remote.upload, source)).await,
        }
    }

    /// The digests that are `wanted`, of the value received.
    pub async fn digests(
        &mut self,
        wanted: Wanted,
        compute: &BlockingPool,
    ) -> Result<Digests, Error> {
        match self {
            Self::File(_, upload) => upload.digests(wanted, compute).await,
            Self::Remote(remote) => Box::pin(remote.upload.digests(wanted)).await,
        }
    }

    /// Publishes it as the value of `key`, if `preconditions` hold at that moment. The future is boxed, so that the futures of uploads
    /// are smaller.
    pub fn publish(
        self,
        key: Key<'static>,
        preconditions: Option<Preconditions>,
    ) -> Publishing<'a> {
        match self {
            Self::File(directory, upload) => {
                let published = directory.put(key, upload, preconditions.map(condition));
                Box::pin(published.map(|meta| Ok(Published::File(meta?))))
            }
            Self::Remote(remote) => {
                Box::pin(async move { remote.publish(&key, preconditions).await })
            }
        }
    }
}

impl Remote<'_> {
    async fn publish(
        self,
        key: &Key<'_>,
        preconditions: Option<Preconditions>,
    ) -> Result<Published, Refusal> {
        let Self {
            gateway,
            mut upload,
            condition,
        } = self;
        if let Some(condition) = condition {
            let written = upload.publish(&condition).await?;
            return Ok(Published::Tag(written.etag));
        }
        let publish = async |condition: &WriteCondition| upload.publish(condition).await;
        publish_under(gateway, key, preconditions.as_ref(), publish).await
    }
}

async fn take(upload: &mut RemoteUpload, source: &mut dyn BodySource) -> Result<(), Error> {
    while source.remaining() > 0 {
        upload.push(store::read(source).await?).await?;
    }
    Ok(())
}

/// Refuses where `preconditions` do not hold for the value of `key` now.
pub async fn ask_early(
    directory: &Directory,
    key: &Key<'_>,
    preconditions: &Preconditions,
) -> Result<(), Refusal> {
    if holds(preconditions, directory.meta(key).await?) {
        Ok(())
    } else {
        Err(Refusal::Precondition)
    }
}

/// `preconditions` as the publisher decides them.
pub fn condition(preconditions: Preconditions) -> Condition {
    Box::new(move |current| holds(&preconditions, current))
}

fn holds(preconditions: &Preconditions, current: Option<Meta>) -> bool {
    let Some(meta) = current else {
        return preconditions.for_write(None);
    };
    let Validators { etag, modified } = Validators::from(meta);
    preconditions.for_write(Some(Current {
        etag: &etag,
        variant: Some(&gzip_tag(&etag)),
        modified,
    }))
}

/// `preconditions` as a condition that an S3 store decides; `None` where it cannot.
fn exact(preconditions: Option<&Preconditions>) -> Option<WriteCondition> {
    match preconditions.map(Preconditions::single) {
        None => Some(WriteCondition::Any),
        Some(Some(Single::IsNew)) => Some(WriteCondition::Create),
        Some(Some(Single::Is(etag))) => Some(WriteCondition::Swap(etag.to_owned())),
        Some(None) => None,
    }
}

/// Publishes the value of `key` by `publish`, under a condition that the store decides and that implies `preconditions`.
async fn publish_under(
    gateway: Gateway<'_>,
    key: &Key<'_>,
    preconditions: Option<&Preconditions>,
    mut publish: impl AsyncFnMut(&WriteCondition) -> Result<Written, Error>,
) -> Result<Published, Refusal> {
    let Some(preconditions) = preconditions else {
        return Ok(Published::Tag(publish(&WriteCondition::Any).await?.etag));
    };
    if let Some(condition) = exact(Some(preconditions)) {
        return Ok(Published::Tag(publish(&condition).await?.etag));
    }
    for _ in 0..TRIES {
        let current = gateway.head(key).await?;
        match publish(&swap(preconditions, current.as_ref())?).await {
            Err(Error::Precondition) => {}
            written => return Ok(Published::Tag(written?.etag)),
        }
    }
    Err(CONTENDED.into())
}

/// The condition under which a write replaces `current` and nothing else, if `preconditions` allow that.
fn swap(
    preconditions: &Preconditions,
    current: Option<&RemoteMeta>,
) -> Result<WriteCondition, Refusal> {
    let known = current.map(|meta| Current {
        etag: &meta.etag,
        variant: None,
        modified: meta.modified,
    });
    if !preconditions.for_write(known) {
        return Err(Refusal::Precondition);
    }
    Ok(current.map_or(WriteCondition::Create, |meta| {
        WriteCondition::Swap(meta.etag.clone())
    }))
}
