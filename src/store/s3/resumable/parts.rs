//! The parts of a resumable upload: each has a number that no other request uses, and is sent from the file that it waits in.

use std::sync::Arc;

use hyper::Method;
use hyper::header::HeaderName;
use tokio::time::Instant;

use super::super::super::error::Error;
use super::super::answer::{Answer, Failure};
use super::super::call::{Call, NONCE};
use super::super::escape;
use super::super::joining::{Part, forget, initiate};
use super::super::publish::fill;
use super::super::sending::Sending;
use super::super::tries::{Tries, error};
use super::RemoteResumable;

/// The shortest part but for the last, as S3 has it; a longer one, the more parts there are.
const SHORTEST: u64 = 5 << 20;

/// The most parts of a value.
const MOST_PARTS: u32 = 10_000;

impl RemoteResumable {
    /// Sends what waits in the file as the next part; `more` may follow.
    pub(super) async fn send_part(&mut self, more: bool) -> Result<(), Error> {
        let number = self.reserve().await?;
        let hashers = self.settled(false).await?;
        let call = Call::named(Method::PUT, self.value_object());
        let id = self.info.multipart.as_deref().ok_or(Error::Incomplete)?;
        let call = call.with_query(&[("partNumber", &number.to_string()), ("uploadId", id)]);
        let answer = self.send(&call, hashers.sha256()).await?;
        let part = Part::of(number, &answer).map_err(error)?;
        self.settled(true).await?;
        let receiving = self.receiving.as_mut().ok_or(Error::Incomplete)?;
        receiving.base += receiving.spool.len();
        receiving.known = 0;
        receiving.spool.rewind();
        self.progress.offset = receiving.base;
        self.progress.parts.push(part);
        self.progress.tail = None;
        self.progress.digests = hashers.whole.state();
        if more && !receiving.waits {
            self.reserved = Some(self.info.next);
            self.info.next += 1;
            self.info.progress = self.progress.clone();
            self.save().await?;
        }
        Ok(())
    }

    /// Sends the bytes of a part, again where that came to nothing: the same number stands for the same bytes.
    async fn send(&self, call: &Call, sha256: Option<[u8; 32]>) -> Result<Answer, Error> {
        let spool = self.spool()?;
        let until = Instant::now() + self.client.timeout();
        let mut tries = Tries::until(until, self.client.counters());
        loop {
            let mut sending = Sending::begin(&self.client, call, spool.len(), sha256)?;
            let failure = match fill(&mut sending, spool).await {
                Ok(()) => match sending.finish().await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            match failure {
                // It was published or given up by another request.
                Failure::Refused(refusal) if refusal.is_no_upload() => return Err(Error::Taken),
                failure => tries.again_after(failure).await?,
            }
        }
    }

    /// The number of the next part, which no other request uses.
    async fn reserve(&mut self) -> Result<u32, Error> {
        if let Some(number) = self.reserved.take() {
            return Ok(number);
        }
        let number = self.info.next;
        if number > MOST_PARTS {
            return Err(Error::TooLarge);
        }
        let is_first = self.info.multipart.is_none();
        if is_first {
            let call = self.value_call()?;
            self.info.multipart = Some(initiate(&self.client, &call).await?);
        }
        self.info.next = number + 1;
        let saved = self.save().await;
        if let (Err(Error::Taken), true) = (&saved, is_first) {
            self.forget_parts();
        }
        saved.map(|()| number)
    }

    /// Has the store forget the upload in parts, which nothing else knows of.
    fn forget_parts(&mut self) {
        let Some(id) = self.info.multipart.take() else {
            return;
        };
        let call = Call::named(Method::DELETE, self.value_object());
        let call = call.with_query(&[("uploadId", &id)]);
        let client = Arc::clone(&self.client);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { forget(&client, &call).await });
        }
    }

    /// The write of the value.
    pub(super) fn value_call(&self) -> Result<Call, Error> {
        let call = Call::named(Method::PUT, self.value_object());
        let call = call.keeping(&self.info.kept())?;
        call.with(HeaderName::from_static(NONCE), &self.info.nonce)
    }

    /// The encoded name of the object that the value will be.
    pub(super) fn value_object(&self) -> String {
        escape::path(&format!("{}{}", self.client.place().prefix, self.info.key))
    }
}

/// How long the part with this number is at least: the more there are, the longer, so that 10,000 reach 5 TiB.
pub(super) fn shortest(number: u32) -> u64 {
    SHORTEST << (number / 950).min(9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_parts_reach_the_longest_object() {
        let all: u64 = (1..=MOST_PARTS).map(shortest).sum();
        assert!(all >= 5 << 40);
        assert!(shortest(MOST_PARTS) <= 5 << 30);
    }
}
