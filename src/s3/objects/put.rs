//! Writing an object by one request, whose body is in memory or comes piece by piece.
//!
//! A write is sent again only where the store says that it was not made, which is not always so. Each one carries a
//! nonce of its own, which is kept with the object and shows whether the write was made. Where that stays unknown, the
//! error says so.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::Method;
use hyper::header::ETAG;
use tokio::time::{Instant, timeout};

use crate::s3::contract::WriteCondition;
use crate::s3::transport::S3Client;
use crate::s3::transport::answer::{
    RequestError, StoreResponse, Tries, doubted, says_undone, text,
};
use crate::s3::transport::body::{BodyFraming, BodySender, feed};
use crate::s3::transport::call::{Call, NONCE};
use crate::transfer::{COPIED, random};
use crate::value::Error;

/// A write of an object, under a condition.
pub struct Write<'a> {
    pub client: &'a Arc<S3Client>,
    /// The request, with its nonce and without the condition.
    pub call: &'a Call,
    pub condition: &'a WriteCondition,
}

impl Write<'_> {
    /// The request, under the condition.
    pub fn conditional(&self) -> Result<Call, Error> {
        self.call.clone().under(self.condition)
    }

    /// Writes `body`, whose digest is `sha256`; its entity tag.
    pub async fn put(&self, body: Bytes, sha256: &[u8; 32]) -> Result<String, Error> {
        let call = Call {
            body: Either::Left(body.into()),
            ..self.conditional()?.proved(sha256)?
        };
        self.make(async |tries| written(&self.client.ask(&call, tries.until).await?))
            .await
    }

    /// Makes the write by `send`, which sends all of it, and again where the store says that it was not made.
    pub async fn make(
        &self,
        send: impl AsyncFnMut(&mut Tries<'_>) -> Result<String, RequestError>,
    ) -> Result<String, Error> {
        let mut tries = self.client.tries();
        match tries.change(send).await {
            Ok(etag) => Ok(etag),
            Err(failure) => self.settle(tries.until, tries.may_be_made, failure).await,
        }
    }

    /// Ends the one request that `sending` is.
    pub async fn end(&self, sending: Sending) -> Result<String, Error> {
        let until = self.client.deadline();
        match sending.finish().await.and_then(|answer| written(&answer)) {
            Ok(etag) => Ok(etag),
            Err(failure) => self.settle(until, failure.may_be_made(), failure).await,
        }
    }

    /// Finds the outcome of the write, whose last try ended with `failure`, where a try `may_be_made`. The object's
    /// nonce proves that the write was made. `failure` proves that it was not made while the object is still one that
    /// the write may replace; otherwise the write may have been made and then replaced.
    async fn settle(
        &self,
        until: Instant,
        may_be_made: bool,
        failure: RequestError,
    ) -> Result<String, Error> {
        let is_swap = matches!(self.condition, WriteCondition::Swap(_));
        let error = match failure {
            // Some stores say of a swap that there is nothing to be swapped.
            RequestError::Refused(refusal) if is_swap && refusal.is_missing() => {
                Error::Precondition
            }
            failure => failure.outcome(),
        };
        if !may_be_made {
            return Err(error);
        }
        let look = Call::named(Method::HEAD, self.call.object.clone());
        let (ours, is_replaceable) = match self.client.look(&look, until).await {
            Ok(Some(found)) => {
                let etag = text(&found.headers, ETAG).map(str::to_owned);
                let is_ours = found.headers.get(NONCE) == self.call.headers.get(NONCE);
                let is_old = match self.condition {
                    WriteCondition::Any => true,
                    WriteCondition::Create => false,
                    WriteCondition::Swap(old) => etag.as_ref() == Some(old),
                };
                (etag.filter(|_| is_ours), is_old && !is_ours)
            }
            Ok(None) => (None, !is_swap),
            Err(_) => (None, false),
        };
        if is_replaceable && says_undone(&error) {
            return Err(error);
        }
        let counters = &self.client.counters;
        counters.unknown.add(1);
        counters.resolved.add(u64::from(ours.is_some()));
        ours.ok_or(doubted(error))
    }
}

/// The entity tag of a write that the store says that it has made. An answer without one may be the word of another
/// program.
pub fn written(answer: &StoreResponse) -> Result<String, RequestError> {
    let etag = text(&answer.headers, &ETAG).map(str::to_owned);
    etag.ok_or_else(|| RequestError::MaybeDone("a write has no entity tag".to_owned()))
}

type Sent = Pin<Box<dyn Future<Output = Result<StoreResponse, RequestError>> + Send>>;

/// A body on its way to the store.
pub struct Sending {
    timeout: Duration,
    framing: BodyFraming,
    feed: BodySender,
    sent: Sent,
}

impl Sending {
    /// Begins to send `len` bytes as `call` says; their digest may be known.
    pub fn begin(
        client: &Arc<S3Client>,
        call: &Call,
        len: u64,
        sha256: Option<[u8; 32]>,
    ) -> Result<Self, Error> {
        let framing = BodyFraming::new(len, sha256);
        let (feed, taker) = feed(framing.body_len());
        let call = Call {
            body: Either::Right(taker.clone()),
            ..call.clone().framed(&framing)?
        };
        let to = Arc::clone(client);
        let sent = async move {
            let mut tries = to.tries();
            loop {
                let permit = to.permit(to.deadline()).await?;
                let failure = match to.send(&call, permit).await {
                    Ok(answer) => return answer.checked(to.timeout).await,
                    Err(failure) => failure,
                };
                // Bytes that a connection has taken are gone.
                if taker.is_taken() || !matches!(failure, RequestError::NotSent(_)) {
                    return Err(failure);
                }
                tries.retry(failure).await?;
            }
        };
        Ok(Self {
            timeout: client.timeout,
            framing,
            feed,
            sent: Box::pin(sent),
        })
    }

    /// Bytes of the value that are still to be pushed.
    pub fn remaining(&self) -> u64 {
        self.framing.remaining()
    }

    /// Sends the next bytes, waiting while the store is slower than the sender. The write is not made whatever comes.
    pub async fn push(&mut self, data: Bytes) -> Result<(), RequestError> {
        // A short run would keep all that was received with it.
        let data = if data.len() < COPIED {
            Bytes::copy_from_slice(&data)
        } else {
            data
        };
        let runs = self.framing.frame(data).map_err(RequestError::NotTried)?;
        let push = async {
            for run in runs {
                self.feed.push(run).await;
            }
        };
        tokio::select! {
            biased;
            early = &mut self.sent => Err(match early {
                Ok(_) => RequestError::MaybeDone("an answer before the end".to_owned()),
                Err(failure) => failure,
            }),
            pushed = timeout(self.timeout, push) => pushed.map_err(|_| RequestError::Late),
        }
    }

    /// Sends the end, and waits for the answer.
    pub async fn finish(self) -> Result<StoreResponse, RequestError> {
        self.feed
            .end(self.framing.end().map_err(RequestError::NotTried)?);
        // The whole body is in the connection's hands or in the queue: both move within the time.
        let sent = timeout(self.timeout, self.sent).await;
        sent.map_err(|_| RequestError::Late)?
    }
}

/// A number that no other write has: 128 bits, drawn at random.
pub fn nonce() -> Result<String, Error> {
    let number = random().map_err(|errno| Error::new("draw a number", errno))?;
    Ok(format!("{number:032x}"))
}
