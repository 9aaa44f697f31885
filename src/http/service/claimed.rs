//! The claim of a request on a resumable upload, in either engine.
//!
//! Promises that what was received of a part that breaks off is kept, as far as the store takes it.

use hyper::header::HeaderMap;

use crate::http::request::operation::PutOptions;
use crate::http::request::uploads::kept_headers;
use crate::http::response::outcome::Outcome;
use crate::http::service::asker::Asker;
use crate::http::service::handler::Handler;
use crate::http::service::remote::swap;
use crate::http::service::value_upload::{ask_early, kept};
use crate::store::s3::{Gateway, NewRemoteUpload, RemoteResumable};
use crate::store::{
    BlockingPool, Digests, Directory, Error, Field, Key, NewUpload, Resumable, Store, UploadId,
    Wanted,
};

/// The claim on a resumable upload.
pub(super) enum Claimed<'a> {
    Directory(&'a Directory, Box<Resumable>),
    Remote(Gateway<'a>, Box<RemoteResumable>),
}

/// What uploads need of an S3 store.
const NOT_RESUMABLE: Error = Error::NotSupported {
    name: "no-resumable-uploads",
    what: "uploads are resumable only where the store keeps conditions on writes: send all of the value with one PUT",
};

impl Handler {
    /// Whether uploads to the store can be resumed.
    pub(super) fn resumes(&self) -> Result<(), Error> {
        let resumes = self.config.store_resumes;
        resumes.then_some(()).ok_or(NOT_RESUMABLE)
    }

    /// Makes an upload, which goes with the claim unless its client is told of it.
    pub(super) async fn begin_resumable(
        &self,
        key: Key<'static>,
        length: Option<u64>,
        fields: Vec<Field>,
        options: &PutOptions,
        asker: Asker<'_>,
    ) -> Result<Claimed<'_>, Outcome> {
        let preconditions = options.preconditions.as_ref();
        match &*self.store {
            Store::Directory(directory) => {
                ask_early(directory, &key, preconditions).await?;
                let new = NewUpload {
                    key,
                    length,
                    fields,
                    uploader: asker.uploader(),
                };
                let upload = directory.begin_resumable(new).await?;
                Ok(Claimed::Directory(directory, Box::new(upload)))
            }
            Store::S3(s3) => {
                self.resumes()?;
                let gateway = s3.gateway(self.reactor);
                if let Some(preconditions) = preconditions {
                    swap(preconditions, gateway.head(&key).await?.as_ref())?;
                }
                let media_type = options.media_type.as_deref();
                let new = NewRemoteUpload {
                    kept: kept(&key, media_type, options.fields.encode()),
                    key,
                    length,
                    fields,
                    uploader: asker.uploader(),
                };
                let upload = gateway.begin_resumable(new).await?;
                Ok(Claimed::Remote(gateway, Box::new(upload)))
            }
        }
    }

    /// What the upload `id` will be the value of; `None` where there is none. Nothing is done to it.
    pub(super) async fn key_of_upload(&self, id: UploadId) -> Result<Option<Key<'static>>, Error> {
        match &*self.store {
            Store::Directory(directory) => Ok(directory.key_of_upload(id)),
            Store::S3(s3) => {
                self.resumes()?;
                s3.gateway(self.reactor).key_of_upload(id).await
            }
        }
    }

    /// Claims the upload `id`; `None` where there is none.
    pub(super) async fn resume(&self, id: UploadId) -> Result<Option<Claimed<'_>>, Error> {
        match &*self.store {
            Store::Directory(directory) => {
                let upload = directory.resume(id).await?;
                Ok(upload.map(|upload| Claimed::Directory(directory, Box::new(upload))))
            }
            Store::S3(s3) => {
                self.resumes()?;
                let gateway = s3.gateway(self.reactor);
                let upload = gateway.resume(id).await?;
                Ok(upload.map(|upload| Claimed::Remote(gateway, Box::new(upload))))
            }
        }
    }
}

impl Claimed<'_> {
    /// Its identifier, for the client. It stays from now on.
    pub(super) fn announce(&mut self) -> UploadId {
        match self {
            Self::Directory(_, upload) => upload.announce(),
            Self::Remote(_, upload) => upload.announce(),
        }
    }

    /// The fields of its first request that are kept with it.
    pub(super) async fn headers(&self) -> Result<HeaderMap, Error> {
        Ok(match self {
            Self::Directory(_, upload) => kept_headers(&upload.fields().await?),
            Self::Remote(_, upload) => kept_headers(upload.fields()),
        })
    }

    /// The key that its value is to have.
    pub(super) fn key(&self) -> Result<Key<'static>, Error> {
        match self {
            Self::Directory(_, upload) => Ok(upload.key().clone()),
            Self::Remote(_, upload) => upload.key(),
        }
    }

    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Directory(_, upload) => upload.length(),
            Self::Remote(_, upload) => upload.length(),
        }
    }

    pub(super) fn offset(&self) -> u64 {
        match self {
            Self::Directory(_, upload) => upload.offset(),
            Self::Remote(_, upload) => upload.offset(),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Directory(_, upload) => upload.is_complete(),
            Self::Remote(_, upload) => upload.is_complete(),
        }
    }

    pub(super) async fn set_length(&mut self, length: u64) -> Result<(), Error> {
        match self {
            Self::Directory(_, upload) => upload.set_length(length).await,
            Self::Remote(_, upload) => {
                upload.set_length(length);
                Ok(())
            }
        }
    }

    /// Makes sure of what was received: only then may its length be answered.
    pub(super) async fn secure(&mut self) -> Result<(), Error> {
        match self {
            Self::Directory(_, upload) => upload.secure().await,
            Self::Remote(_, upload) => upload.keep().await,
        }
    }

    /// Keeps what came of a part that ended with `why`.
    pub(super) async fn rescue(&mut self, why: &Outcome) {
        // A file has it already.
        let Self::Remote(_, upload) = self else {
            return;
        };
        let is_lost = matches!(why, Outcome::Failed(Error::Taken));
        if !is_lost
            && upload.is_known()
            && let Err(error) = upload.keep().await
        {
            tracing::warn!(%error, "what was received of a part is lost");
        }
    }

    /// The digests of what was received from `offset` on, where this request began.
    pub(super) async fn digests(
        &mut self,
        offset: u64,
        wanted: Wanted,
        compute: &BlockingPool,
    ) -> Result<Digests, Error> {
        match self {
            Self::Directory(_, upload) => upload.digests(offset, wanted, compute).await,
            Self::Remote(_, upload) => upload.part_digests().await,
        }
    }

    /// Takes back what was received from `offset` on, where this request began.
    pub(super) async fn take_back(&mut self, offset: u64) -> Result<(), Error> {
        match self {
            Self::Directory(_, upload) => upload.take_back(offset).await,
            Self::Remote(_, upload) => upload.take_back().await,
        }
    }

    pub(super) async fn remove(&mut self) -> Result<(), Error> {
        match self {
            Self::Directory(_, upload) => upload.remove().await,
            Self::Remote(_, upload) => upload.remove().await,
        }
    }
}
