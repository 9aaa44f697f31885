//! Changes of a value under the preconditions of a request.
//!
//! A condition that the store can decide goes there with the change. Any other is decided here, for the version that a
//! HEAD shows, and the change names that version; where the value is another one by then, all begins again.

use super::Gateway;
use super::upload::{RemoteUpload, is_long};
use crate::s3::contract::{RemoteMeta, WriteCondition};
use crate::transfer::UploadHead;
use crate::value::{CONTENDED, Error, Key, Preconditions, TRIES, guessed_type};

/// A value that the store receives, under preconditions.
pub struct ConditionalUpload {
    /// The bytes on their way.
    pub upload: RemoteUpload,
    /// The condition of publishing, where the store decides it, else what is decided here.
    condition: Result<WriteCondition, Preconditions>,
}

/// The refusal of a value with an end: the store would keep it for ever.
const KEEPS_NO_END: Error = Error::NotSupported {
    name: "no-expiry",
    what: "an S3 store keeps no end of a value: a lifecycle rule of the bucket removes objects, by their prefix or tags, after some days",
};

impl Gateway {
    /// Begins to receive the value of `key` that `head` announces, unless its preconditions fail already.
    pub async fn put(
        &self,
        key: &Key<'_>,
        mut head: UploadHead,
    ) -> Result<ConditionalUpload, Error> {
        if head.attributes.end().is_some() {
            return Err(KEEPS_NO_END);
        }
        let condition = match head.preconditions.take() {
            None => Ok(WriteCondition::Any),
            Some(preconditions) => {
                self.shared.promises.for_put()?;
                let exact = preconditions.exact();
                // A store that refuses a long value hangs up before it has all of it, and its answer may be lost.
                if exact.is_none() || is_long(head.len) {
                    swap(&preconditions, self.head(key).await?.as_ref())?;
                }
                exact.ok_or(preconditions)
            }
        };
        // Other clients of the store then see the type that this server would guess.
        let media_type = &mut head.attributes.media_type;
        media_type.get_or_insert_with(|| guessed_type(key.as_str()).into());
        Ok(ConditionalUpload {
            upload: self.upload(key, head, condition.as_ref().ok()).await?,
            condition,
        })
    }

    /// Removes the value of `key`, if the preconditions hold at that moment; false where there was none.
    pub async fn remove(
        &self,
        key: &Key<'_>,
        preconditions: Option<Preconditions>,
    ) -> Result<bool, Error> {
        let Some(preconditions) = preconditions else {
            return self.delete(key, None).await;
        };
        self.shared.promises.for_delete()?;
        for _ in 0..TRIES {
            let Some(meta) = self.head(key).await? else {
                return Ok(false);
            };
            swap(&preconditions, Some(&meta))?;
            match self.delete(key, Some(&meta.etag)).await {
                Err(Error::Precondition) => {}
                deleted => return deleted,
            }
        }
        Err(CONTENDED)
    }
}

impl ConditionalUpload {
    /// Publishes what was received as the value of `key`, if the preconditions hold at that moment.
    pub async fn publish(mut self, key: &Key<'_>) -> Result<String, Error> {
        let preconditions = match &self.condition {
            Ok(condition) => return self.upload.publish(condition).await,
            Err(preconditions) => preconditions,
        };
        for _ in 0..TRIES {
            let current = self.upload.gateway.head(key).await?;
            let condition = swap(preconditions, current.as_ref())?;
            match self.upload.publish(&condition).await {
                Err(Error::Precondition) => {}
                written => return written,
            }
        }
        Err(CONTENDED)
    }
}

/// The condition under which a write replaces `current` and nothing else, if `preconditions` allow that.
fn swap(
    preconditions: &Preconditions,
    current: Option<&RemoteMeta>,
) -> Result<WriteCondition, Error> {
    if !preconditions.for_write(current.map(RemoteMeta::current)) {
        return Err(Error::Precondition);
    }
    Ok(current.map_or(WriteCondition::Create, |meta| {
        WriteCondition::Swap(meta.etag.clone())
    }))
}
