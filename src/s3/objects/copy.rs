//! Copies and moves of objects.
//!
//! A short value goes through this server, as a GET of one version and a PUT, whose preconditions are kept as those of
//! any PUT. A longer one is copied by the store itself (`CopyObject`), without a condition on what it replaces: no copy
//! waits for one connection to the store while it holds another. A move is a copy and a removal of the version that was
//! copied.

use std::future::poll_fn;

use hyper::Method;

use super::Gateway;
use super::multipart::{MAX_ANSWER, ONE_REQUEST, joined};
use super::put::{Write, nonce};
use super::upload::is_long;
use super::value::RemoteValue;
use crate::s3::contract::WriteCondition;
use crate::s3::transport::call::{Call, NONCE};
use crate::transfer::UploadHead;
use crate::value::{Attributes, Error, Key, dated};

const TOO_LONG: Error = Error::NotSupported {
    name: "no-long-copy",
    what: "an S3 store copies values of up to 5 GiB: read and store a longer one",
};

const UNCONDITIONAL: Error = Error::NotSupported {
    name: "no-conditional-copy",
    what: "an S3 store keeps no condition on what a copy of more than 64 KiB replaces: allow it to overwrite",
};

/// Bytes of fields beside which a store may have no room for a date.
const FULL: usize = 1900;

impl Gateway {
    /// Copies `value` to the key `to`, under the preconditions of `head`: its entity tag there, and whether the key had
    /// no value just before; `None` where the value is another one by now.
    pub async fn copy(
        &self,
        value: &mut RemoteValue,
        to: &Key<'_>,
        mut head: UploadHead,
    ) -> Result<Option<(String, bool)>, Error> {
        let meta = &value.meta;
        head.len = Some(meta.len);
        head.sha256 = meta.sha256;
        let mut fields: Box<[u8]> = meta.fields.as_slice().into();
        // The store takes no more than a little over the fields that a client may have kept.
        if meta.fields.len() < FULL {
            fields = dated(&fields, meta.modified);
        }
        head.attributes = Attributes {
            media_type: meta.media_type.as_deref().map(Into::into),
            fields: Some(fields),
        };
        let is_new = self.head(to).await?.is_none();
        let etag = if is_long(head.len) {
            self.copy_at_store(value, to, &head).await?
        } else {
            self.copy_through(value, to, head).await?
        };
        Ok(etag.map(|etag| (etag, is_new)))
    }

    /// Refuses a move where the store has no removal under a condition: it could remove what is written meanwhile.
    pub fn may_move(&self) -> Result<(), Error> {
        self.shared.promises.for_delete()
    }

    async fn copy_through(
        &self,
        value: &mut RemoteValue,
        to: &Key<'_>,
        head: UploadHead,
    ) -> Result<Option<String>, Error> {
        let whole = 0..value.meta.len;
        if !value.open_range(whole.clone()).await? {
            return Ok(None);
        }
        let mut body = value.part(whole);
        let mut bytes = Vec::new();
        while value.meta.len > 0
            && let Some(data) = poll_fn(|cx| body.poll_next(cx)).await
        {
            bytes.extend_from_slice(&data?);
        }
        let mut upload = self.put(to, head).await?;
        upload.upload.push(bytes.into()).await?;
        upload.publish(to).await.map(Some)
    }

    async fn copy_at_store(
        &self,
        value: &RemoteValue,
        to: &Key<'_>,
        head: &UploadHead,
    ) -> Result<Option<String>, Error> {
        if value.meta.len > ONE_REQUEST {
            return Err(TOO_LONG);
        }
        if head.preconditions.is_some() {
            return Err(UNCONDITIONAL);
        }
        let client = &self.client;
        let source = format!("/{}/{}", client.place.bucket, value.call.object);
        // The fields are sent again, for the number of this write is one of them.
        let call = Call::object(Method::PUT, &client.place, to)?
            .keeping(&head.attributes)?
            .with(NONCE, &nonce()?)?
            .with("x-amz-copy-source", &source)?
            .with("x-amz-copy-source-if-match", &value.meta.etag)?
            .with_static("x-amz-metadata-directive", "REPLACE");
        let write = Write {
            client,
            call: &call,
            condition: &WriteCondition::Any,
        };
        let copied = write.make(async |tries| {
            let answer = client.ask(&call, tries.until).await?;
            joined(&answer.whole(MAX_ANSWER, client.timeout).await?)
        });
        match copied.await {
            Ok(etag) => Ok(Some(etag)),
            Err(Error::Precondition) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
