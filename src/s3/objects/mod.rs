//! Values as objects: the [`Gateway`] of a reactor reads, writes, removes and lists them.
//!
//! A value is read and listed as the store has it at that moment: nothing is cached. A condition is decided by the store, and
//! is refused where the store was not seen to keep it.

pub mod conditional;
pub mod get;
pub mod list;
pub mod multipart;
pub mod put;
pub mod upload;
pub mod value;

use std::sync::Arc;

use hyper::Method;
use hyper::header::{ETAG, IF_MATCH};

use self::get::{GetOutcome, RemoteBody, check_range, meta};
use self::upload::RemoteUpload;
use super::contract::{ReadRequest, RemoteMeta, S3Context, WriteCondition};
use super::transport::answer::{Answer, Failure, doubted, says_undone, text, unclear};
use super::transport::body::SendBody;
use super::transport::call::Call;
use super::transport::sign::NOTHING;
use super::transport::{Client, ReadOutcome};
use crate::transfer::UploadHead;
use crate::value::{Error, Key, Listing, Page};

/// The way of one reactor to the store.
#[derive(Clone, Copy, Debug)]
pub struct Gateway<'a> {
    pub(super) shared: &'a Arc<S3Context>,
    pub(super) client: &'a Arc<Client>,
}

impl Gateway<'_> {
    /// The value of `key`, or the part of it that `read` names.
    pub async fn get(&self, key: &Key<'_>, read: ReadRequest<'_>) -> Result<GetOutcome, Error> {
        let mut call = Call::object(Method::GET, &self.client.place, key)?;
        if let Some(etag) = read.only {
            call = call.with(IF_MATCH, etag)?;
        }
        let found = match &read.range {
            Some(range) => self.client.read(&call.ranged(range)?).await?,
            None => self.client.read(&call).await?,
        };
        let answer = match found {
            ReadOutcome::Answer(answer) => answer,
            ReadOutcome::Missing => return Ok(GetOutcome::Gone),
            ReadOutcome::Changed => return Ok(GetOutcome::Changed),
        };
        let meta = meta(&answer, read.only)?;
        // Some stores ignore the condition.
        if read.only.is_some_and(|etag| etag != meta.etag) {
            return Ok(GetOutcome::Changed);
        }
        let left = read.range.unwrap_or(0..meta.len);
        check_range(&answer, &left, meta.len)?;
        let body = RemoteBody::new(self.client, call, &meta.etag, left, answer);
        Ok(GetOutcome::Value(meta, body))
    }

    /// The length, the entity tag and the fields of the value of `key`; `None` when there is none.
    pub async fn head(&self, key: &Key<'_>) -> Result<Option<RemoteMeta>, Error> {
        let call = Call::object(Method::HEAD, &self.client.place, key)?;
        let call = call.with_static("x-amz-checksum-mode", "ENABLED");
        match self.client.read(&call).await? {
            ReadOutcome::Answer(answer) => meta(&answer, None).map(Some),
            ReadOutcome::Missing => Ok(None),
            ReadOutcome::Changed => Err(unclear("a condition failed that was not set")),
        }
    }

    /// One page of the keys, in byte order.
    pub async fn list(&self, page: &Page) -> Result<Listing, Error> {
        list::list(self.client, &self.shared.compute, page).await
    }

    /// Begins to receive the value of `key` that `head` announces, under this condition where it is known.
    pub async fn upload(
        &self,
        key: &Key<'_>,
        head: UploadHead,
        condition: Option<&WriteCondition>,
    ) -> Result<RemoteUpload, Error> {
        RemoteUpload::begin(self.shared, self.client, key, head, condition).await
    }

    /// Removes the value of `key`, of the version with the entity tag `only` where one is given; false when there was none.
    pub async fn delete(&self, key: &Key<'_>, only: Option<&str>) -> Result<bool, Error> {
        if only.is_some() {
            self.shared.promises.for_delete()?;
        }
        let client = self.client;
        let look = Call::object(Method::HEAD, &client.place, key)?;
        if let ReadOutcome::Missing = client.read(&look).await? {
            return Ok(false);
        }
        let mut call = Call::named(Method::DELETE, look.object.clone());
        if let Some(etag) = only {
            call = call.with(IF_MATCH, etag)?;
        }
        let mut tries = client.tries();
        let error = loop {
            let asked = client.ask(&call, SendBody::Empty, NOTHING, tries.until);
            let Err(failure) = asked.await else {
                return Ok(true);
            };
            match failure {
                Failure::Refused(refusal)
                    if refusal.is_missing() && (only.is_none() || !tries.may_be_made) =>
                {
                    return Ok(tries.may_be_made);
                }
                Failure::Refused(refusal) => break refusal.error(),
                failure => match tries.retry_change(failure).await {
                    Ok(()) => {}
                    Err(error) => break error,
                },
            }
        };
        if !tries.may_be_made {
            return Err(error);
        }
        let is_same =
            |found: &Answer| only.is_none_or(|etag| text(&found.headers, &ETAG) == Some(etag));
        match client.look(&look, tries.until).await {
            Ok(ReadOutcome::Missing) if only.is_none() => Ok(true),
            Ok(ReadOutcome::Answer(found)) if says_undone(&error) && is_same(&found) => Err(error),
            _ => {
                client.counters.unknown.add(1);
                Err(doubted(error))
            }
        }
    }
}
