//! A value on its way in, to either engine: begun, received, and published under its preconditions.
//!
//! Preconditions are decided when the value is published; they are asked before it is received too, so that what must fail
//! is not received first.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;

use crate::http::refusal::rejection::Rejection;
use crate::http::response::outcome::{Outcome, Published};
use crate::http::service::handler::Handler;
use crate::http::values::conditional::{Current, Preconditions};
use crate::http::values::encoded::gzip_tag;
use crate::http::values::media;
use crate::http::values::remote::{exact, publish_under, swap};
use crate::http::values::representation::Validators;
use crate::s3::{self, Gateway, RemoteUpload, S3, StoredHeaders, UploadPlan, WriteCondition};
use crate::store::{
    self, BlockingPool, BodySource, Condition, Digests, Directory, Error, Key, Meta, Store, Upload,
    Uploader, Wanted,
};

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
    /// The client that it counts for, where that matters.
    pub uploader: Option<Uploader>,
}

/// A value being received.
#[expect(
    clippy::large_enum_variant,
    reason = "a small value of a directory is received without another allocation"
)]
pub enum ValueUpload<'a> {
    File(&'a Directory, Upload),
    Remote(Box<Remote<'a>>),
}

/// A value being published.
type Publishing<'a> = Pin<Box<dyn Future<Output = Result<Published, Outcome>> + 'a>>;

/// One that an S3 store receives.
pub struct Remote<'a> {
    gateway: Gateway<'a>,
    upload: RemoteUpload,
    /// The condition, where the store decides it by itself.
    condition: Option<WriteCondition>,
}

impl Handler {
    /// Begins to receive a value of `key`.
    pub async fn begin_value(
        &self,
        key: &Key<'_>,
        announced: Announced<'_>,
    ) -> Result<ValueUpload<'_>, Outcome> {
        match &*self.store {
            Store::Directory(directory) => {
                if let Some(preconditions) = announced.preconditions {
                    Box::pin(ask_early(directory, key, preconditions)).await?;
                }
                let mut upload = directory.upload(announced.len, announced.uploader).await?;
                if let Some(media_type) = announced.media_type {
                    upload.set_media_type(media_type);
                }
                if let Some(fields) = announced.fields {
                    upload.set_fields(fields);
                }
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
    ) -> Result<Remote<'a>, Outcome> {
        let gateway = s3.gateway(self.reactor);
        let condition = exact(announced.preconditions);
        if let Some(preconditions) = announced.preconditions {
            gateway.takes_conditional_writes()?;
            // A store refuses before it has all of a long value, and hangs up; that may take its answer along.
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
}

/// The properties that a store keeps with a value of `key`.
fn kept(key: &Key<'_>, media_type: Option<&str>, fields: Option<Box<[u8]>>) -> StoredHeaders {
    // Other clients of the store find the type that this one would guess.
    let guessed = || media::of(key.as_str(), None, false).into();
    StoredHeaders {
        media_type: Some(media_type.map_or_else(guessed, Into::into)),
        fields,
        sha256: None,
    }
}

impl<'a> ValueUpload<'a> {
    /// Has the digests that are `wanted` computed from the bytes to come.
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

    /// The digests of the value that are `wanted`, once all of it has been taken.
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

    /// Publishes it as the value of `key`, if `preconditions` hold at that moment. The future is boxed: uploads that are still
    /// being received need no room for it.
    pub fn publish(
        self,
        key: Key<'static>,
        preconditions: Option<Preconditions>,
    ) -> Publishing<'a> {
        match self {
            Self::File(directory, upload) => {
                let published = directory.put(key, upload, preconditions.map(condition));
                Box::pin(published.map(|version| Ok(Published::Version(version?))))
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
    ) -> Result<Published, Outcome> {
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

/// Asks `preconditions` of the value of `key` as it is now.
pub async fn ask_early(
    directory: &Directory,
    key: &Key<'_>,
    preconditions: &Preconditions,
) -> Result<(), Outcome> {
    let current = directory.get(key).await?;
    if holds(preconditions, current.map(|object| object.meta())) {
        Ok(())
    } else {
        Err(Rejection::Precondition.into())
    }
}

/// `preconditions` as the publisher asks them, at the moment of publishing.
pub fn condition(preconditions: Preconditions) -> Condition {
    Box::new(move |current| holds(&preconditions, current))
}

fn holds(preconditions: &Preconditions, current: Option<Meta>) -> bool {
    let Some(meta) = current else {
        return preconditions.for_write(None);
    };
    let Validators { etag, modified } = Validators::from(meta.version);
    preconditions.for_write(Some(Current {
        etag: &etag,
        variants: &[&gzip_tag(&etag)],
        modified,
    }))
}
