//! The end of a resumable upload: what makes the value of its key of it.

use bytes::Bytes;
use hyper::Method;
use tokio::time::Instant;

use super::super::super::error::Error;
use super::super::super::limits::SMALL;
use super::super::call::Call;
use super::super::contract::{Exact, Written};
use super::super::joining::join;
use super::super::nonce;
use super::super::publish::publish_spool;
use super::super::put::{joined, put, settle};
use super::RemoteResumable;
use super::info::Standing;
use super::sums::Hashers;

impl RemoteResumable {
    /// Publishes what was received, if `condition` holds at that moment. After [`Error::Precondition`] it may be called
    /// again.
    pub async fn publish(&mut self, condition: &Exact) -> Result<Written, Error> {
        self.shared.promises.check(condition)?;
        let hashers = self.all().await?;
        self.compared();
        let call = self.value_call()?;
        let published = if self.progress.parts.is_empty() {
            self.publish_file(&call, &hashers, condition).await
        } else {
            self.publish_parts(&call, condition).await
        };
        let written = published?;
        self.complete().await;
        Ok(written)
    }

    /// Whether it is the value of its key already: by an earlier request, whose answer was lost.
    pub async fn made(&mut self) -> Option<Written> {
        let call = self.value_call().ok()?;
        let made = nonce::find(&self.client, &call, Instant::now()).await?;
        self.complete().await;
        Some(made)
    }

    /// Publishes a value of which nothing is in parts.
    async fn publish_file(
        &self,
        call: &Call,
        hashers: &Hashers,
        condition: &Exact,
    ) -> Result<Written, Error> {
        let (spool, sha256) = (self.spool()?, hashers.sha256());
        let (client, len) = (&self.client, spool.len());
        let Some(digest) = sha256.filter(|_| len <= SMALL) else {
            return publish_spool(client, call, spool, sha256, condition).await;
        };
        let mut runs = Vec::new();
        let mut read = 0;
        while read < len {
            let run: Bytes = spool.read(read, len).await?;
            read += run.len() as u64;
            runs.push(run);
        }
        put(client, call, &joined(runs), &digest, condition).await
    }

    /// Sends the last part, and has all of them joined.
    async fn publish_parts(&mut self, call: &Call, condition: &Exact) -> Result<Written, Error> {
        if self.spool()?.len() > 0 {
            self.send_part(false).await?;
        }
        self.commit().await?;
        let id = self.info.multipart.as_deref().ok_or(Error::Incomplete)?;
        let joining = Call::named(Method::POST, self.value_object());
        let joining = joining.with_query(&[("uploadId", id)]);
        let until = Instant::now() + self.client.timeout();
        match join(&self.client, joining, &self.progress.parts, condition).await {
            Err(error) => settle(&self.client, call, until, error).await,
            made => made,
        }
    }

    /// Keeps that it was published, for a client that has lost the answer.
    async fn complete(&mut self) {
        self.info.length = Some(self.offset());
        self.progress.offset = self.offset();
        self.progress.parts.clear();
        self.progress.tail = None;
        self.receiving = None;
        self.info.standing = Standing::Complete;
        self.info.multipart = None;
        self.info.progress = self.progress.clone();
        match self.save().await {
            Ok(()) => {
                self.has_ended();
                self.drop_tails();
            }
            Err(error) => tracing::warn!(%error, "an upload that was published stays unfinished"),
        }
    }
}
