//! Writing an object by one request, whose body is in memory or comes piece by piece.
//!
//! A write is sent again only where the store says that it was not made, which is not always so. Each one carries a nonce of its own,
//! which is kept with the object: it tells whether the write was made. Where that stays unknown, the error says so.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{ETAG, HeaderMap, HeaderName};
use tokio::time::{Instant, sleep, timeout};

use crate::s3::contract::{WriteCondition, Written};
use crate::s3::transport::answer::{
    Answer, Failure, Refusal, Tries, doubted, says_undone, text, unclear,
};
use crate::s3::transport::body::{BodySender, Framing, SendBody, feed};
use crate::s3::transport::call::{Call, NONCE};
use crate::s3::transport::sign::hex;
use crate::s3::transport::{Client, ReadOutcome};
use crate::transfer::{COPIED, random};
use crate::value::Error;

/// The object of a write whose outcome is asked for.
enum CurrentObject {
    /// The write itself.
    Ours(Written),
    /// The object that the write was to replace, or any object where the write has no condition.
    Replaceable,
    /// An object that may be older or newer than the write, or one that cannot be read.
    Unknown,
}

/// A write of an object, under a condition.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    pub client: &'a Arc<Client>,
    /// The request, with its nonce and without the condition.
    pub call: &'a Call,
    pub condition: &'a WriteCondition,
}

impl Write<'_> {
    /// The request, under the condition.
    pub fn conditional(&self) -> Result<Call, Error> {
        self.call.clone().under(self.condition)
    }

    /// Writes `body`, whose digest is `sha256`.
    pub async fn put(&self, body: &Bytes, sha256: &[u8; 32]) -> Result<Written, Error> {
        let checksum = HeaderName::from_static("x-amz-checksum-sha256");
        let signed = self.conditional()?;
        let signed = signed.with(checksum, &BASE64_STANDARD.encode(sha256))?;
        let payload = hex(sha256);
        let mut tries = self.client.tries();
        loop {
            let body = SendBody::Whole(body.clone());
            let asked = self.client.ask(&signed, body, &payload, tries.until).await;
            if let Some(ended) = self.ended(&mut tries, asked).await {
                return ended;
            }
        }
    }

    /// The end of the write, which was `asked` for whole; `None` where it is to be sent again.
    pub async fn ended(
        &self,
        tries: &mut Tries<'_>,
        asked: Result<Answer, Failure>,
    ) -> Option<Result<Written, Error>> {
        match asked {
            Ok(answer) => Some(self.made(tries.until, &answer).await),
            Err(failure) => self.failed(tries, failure).await,
        }
    }

    /// The end of the write, which was sent whole and failed; `None` where it is to be sent again.
    pub async fn failed(
        &self,
        tries: &mut Tries<'_>,
        failure: Failure,
    ) -> Option<Result<Written, Error>> {
        let error = match failure {
            Failure::Refused(refusal) => refused(refusal, self.condition),
            failure => match tries.retry_change(failure).await {
                Ok(()) => return None,
                Err(error) => error,
            },
        };
        Some(self.settle(tries.until, tries.may_be_made, error).await)
    }

    /// Ends the one request that `sending` is.
    pub async fn end(self, sending: Sending) -> Result<Written, Error> {
        let until = self.client.deadline();
        let failure = match sending.finish().await {
            Ok(answer) => return self.made(until, &answer).await,
            Err(failure) => failure,
        };
        let may_be_made = failure.may_be_made();
        let error = match failure {
            Failure::Refused(refusal) => refused(refusal, self.condition),
            failure => failure.outcome(),
        };
        self.settle(until, may_be_made, error).await
    }

    /// The end of the write, which the store says that it has made. One without an entity tag may be the word of another program.
    async fn made(&self, until: Instant, answer: &Answer) -> Result<Written, Error> {
        match written(&answer.headers) {
            Ok(written) => Ok(written),
            Err(error) => self.settle(until, true, doubted(error)).await,
        }
    }

    /// Finds the outcome of the write, whose last try ended with `error`, where a try `may_be_made`. The object's nonce proves that the
    /// write was made. `error` proves that it was not made while the object is still one that the write may replace; otherwise the
    /// write may have been made and then replaced.
    pub async fn settle(
        &self,
        until: Instant,
        may_be_made: bool,
        error: Error,
    ) -> Result<Written, Error> {
        if !may_be_made {
            return Err(error);
        }
        let written = match self.find(until).await {
            CurrentObject::Ours(written) => Some(written),
            CurrentObject::Replaceable if says_undone(&error) => return Err(error),
            CurrentObject::Replaceable | CurrentObject::Unknown => None,
        };
        let counters = &self.client.counters;
        counters.unknown.add(1);
        counters.resolved.add(u64::from(written.is_some()));
        written.ok_or(doubted(error))
    }

    /// Looks for what the object is now.
    async fn find(&self, until: Instant) -> CurrentObject {
        let call = Call::named(Method::HEAD, self.call.object.clone());
        let Ok(found) = self.client.look(&call, until).await else {
            return CurrentObject::Unknown;
        };
        let headers = match &found {
            ReadOutcome::Answer(answer) => Some(&answer.headers),
            ReadOutcome::Missing | ReadOutcome::Changed => None,
        };
        let nonce = headers.and_then(|headers| headers.get(NONCE));
        if let Some(headers) = headers.filter(|_| nonce == self.call.headers.get(NONCE)) {
            return written(headers).map_or(CurrentObject::Unknown, CurrentObject::Ours);
        }
        let is_replaceable = match self.condition {
            WriteCondition::Any => true,
            WriteCondition::Create => headers.is_none(),
            WriteCondition::Swap(etag) => {
                headers.and_then(|headers| text(headers, &ETAG)) == Some(etag)
            }
        };
        if is_replaceable {
            CurrentObject::Replaceable
        } else {
            CurrentObject::Unknown
        }
    }
}

/// The entity tag of a write that the store has made.
pub fn written(headers: &HeaderMap) -> Result<Written, Error> {
    let etag = text(headers, &ETAG);
    let etag = etag.ok_or_else(|| unclear("a write has no entity tag"))?;
    Ok(Written {
        etag: etag.to_owned(),
    })
}

/// The error that the refusal of a write under `condition` means.
pub fn refused(refusal: Refusal, condition: &WriteCondition) -> Error {
    // Some stores say of a swap that there is nothing to be swapped.
    if refusal.is_missing() && matches!(condition, WriteCondition::Swap(_)) {
        return Error::Precondition;
    }
    refusal.error()
}

/// The bytes of all `runs`, in one piece.
pub fn joined(mut runs: Vec<Bytes>) -> Bytes {
    match runs.len() {
        0 => Bytes::new(),
        1 => runs.remove(0),
        _ => runs.concat().into(),
    }
}

type Sent = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

/// A body on its way to the store.
pub struct Sending {
    timeout: Duration,
    framing: Framing,
    feed: BodySender,
    sent: Sent,
}

impl Sending {
    /// Begins to send `len` bytes as `call` says; their digest may be known.
    pub fn begin(
        client: &Arc<Client>,
        call: &Call,
        len: u64,
        sha256: Option<[u8; 32]>,
    ) -> Result<Self, Error> {
        let framing = Framing::new(len, sha256);
        let call = framing.describe(call.clone())?;
        let (payload, body_len) = (framing.payload(), framing.body_len());
        let (feed, taker) = feed();
        let to = Arc::clone(client);
        let sent = async move {
            let mut tries = to.tries();
            loop {
                let permit = to.permit(to.deadline()).await?;
                let body = SendBody::BodyReceiver(taker.clone(), body_len);
                let failure = match to.send(&call, body, &payload, permit).await {
                    Ok(answer) => return answer.checked(to.timeout).await,
                    Err(failure) => failure,
                };
                // Bytes that a connection has taken are gone.
                if taker.is_taken() || !matches!(failure, Failure::NotSent(_)) {
                    return Err(failure);
                }
                match tries.pause_after(&failure) {
                    Some(pause) => sleep(pause).await,
                    None => return Err(failure),
                }
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
    pub async fn push(&mut self, data: Bytes) -> Result<(), Failure> {
        // A short run would keep all that was received with it.
        let data = if data.len() < COPIED {
            Bytes::copy_from_slice(&data)
        } else {
            data
        };
        let runs = self.framing.frame(data).map_err(Failure::NotTried)?;
        let push = async {
            for run in runs {
                self.feed.push(run).await;
            }
        };
        tokio::select! {
            biased;
            early = &mut self.sent => Err(match early {
                Ok(_) => Failure::MaybeDone("an answer before the end".to_owned()),
                Err(failure) => failure,
            }),
            pushed = timeout(self.timeout, push) => pushed.map_err(|_| Failure::Late),
        }
    }

    /// Sends the end, and waits for the answer.
    pub async fn finish(self) -> Result<Answer, Failure> {
        self.feed
            .end(self.framing.end().map_err(Failure::NotTried)?);
        // The whole body is in the connection's hands or in the queue: both move within the time.
        let sent = timeout(self.timeout, self.sent).await;
        sent.map_err(|_| Failure::Late)?
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending")
            .field("left", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// A number that no other write has: 128 bits, drawn at random.
pub fn nonce() -> Result<String, Error> {
    let number = random().map_err(|errno| Error::new("draw a number", errno))?;
    Ok(format!("{number:032x}"))
}
