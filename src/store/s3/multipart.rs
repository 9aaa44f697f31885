//! A value that is longer than one request may carry: sent in parts, which the store joins when the last has arrived.
//!
//! Until then there is nothing but parts, and those are removed on every way out: dropped, it has the store forget them. A
//! part is sent once.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;

use super::super::error::Error;
use super::answer::Failure;
use super::call::Call;
use super::client::Client;
use super::contract::{Exact, Written};
use super::joining::{Part, forget, initiate, join};
use super::sending::Sending;
use super::tries::error;

/// The most bytes that one request may carry.
pub(super) const ONE_REQUEST: u64 = 5 << 30;

/// The most parts of a value.
const MOST_PARTS: u64 = 10_000;

/// The longest value: the most parts of the greatest length.
pub(super) const LONGEST: u64 = MOST_PARTS * ONE_REQUEST;

/// The shortest part, but for the last: a failure of the store costs the upload, so there is no gain in short ones.
const SHORTEST: u64 = 256 << 20;

/// An upload in parts.
#[derive(Debug)]
pub(super) struct Multipart {
    client: Arc<Client>,
    object: String,
    /// What the store calls it; `None` once the store has joined its parts or was told to forget them.
    id: Option<String>,
    part_len: u64,
    /// How many bytes of the value do not belong to a part yet.
    left: u64,
    sending: Option<Sending>,
    sent: Vec<Part>,
}

impl Multipart {
    /// Begins a value of `len` bytes with what `call`, a PUT of all of it, says is kept.
    pub(super) async fn begin(client: &Arc<Client>, call: &Call, len: u64) -> Result<Self, Error> {
        Self::with_parts_of(part_len(len), client, call, len).await
    }

    /// As [`Multipart::begin`], with parts of `part_len` bytes.
    pub(super) async fn with_parts_of(
        part_len: u64,
        client: &Arc<Client>,
        call: &Call,
        len: u64,
    ) -> Result<Self, Error> {
        let begin = call
            .clone()
            .with_static("x-amz-checksum-algorithm", "CRC64NVME")
            .with_static("x-amz-checksum-type", "FULL_OBJECT");
        let id = initiate(client, &begin).await?;
        Ok(Self {
            client: Arc::clone(client),
            object: call.object.clone(),
            id: Some(id),
            part_len,
            left: len,
            sending: None,
            sent: Vec::new(),
        })
    }

    /// Sends the next bytes, waiting while the store is slower than the sender.
    pub(super) async fn push(&mut self, mut data: Bytes) -> Result<(), Failure> {
        while !data.is_empty() {
            let sending = match &mut self.sending {
                Some(sending) => sending,
                None => self.next_part().map_err(Failure::Unfit)?,
            };
            let room = usize::try_from(sending.left()).unwrap_or(usize::MAX);
            let part = data.split_to(room.min(data.len()));
            sending.push(part).await?;
            if sending.left() == 0 && self.left > 0 {
                self.end_part().await?;
            }
        }
        Ok(())
    }

    /// Has the store join the parts, if `condition` holds.
    pub(super) async fn finish(mut self, condition: &Exact) -> Result<Written, Error> {
        self.end_part().await.map_err(error)?;
        if self.left > 0 {
            return Err(Error::Incomplete);
        }
        let call = self.call(Method::POST, &[])?;
        let joining = join(&self.client, call, &self.sent, condition).await;
        if joining.is_ok() {
            self.id = None;
        }
        joining
    }

    fn next_part(&mut self) -> Result<&mut Sending, Error> {
        let len = self.part_len.min(self.left);
        let number = (self.sent.len() + 1).to_string();
        let call = self.call(Method::PUT, &[("partNumber", &number)])?;
        self.left -= len;
        let sending = Sending::begin(&self.client, &call, len, None)?;
        Ok(self.sending.insert(sending))
    }

    async fn end_part(&mut self) -> Result<(), Failure> {
        let Some(sending) = self.sending.take() else {
            return Ok(());
        };
        let number = u32::try_from(self.sent.len() + 1).unwrap_or(u32::MAX);
        self.sent.push(Part::of(number, &sending.finish().await?)?);
        Ok(())
    }

    fn call(&self, method: Method, parameters: &[(&str, &str)]) -> Result<Call, Error> {
        let id = self.id.as_deref().ok_or(Error::Incomplete)?;
        let parameters = [parameters, &[("uploadId", id)]].concat();
        Ok(Call::named(method, self.object.clone()).with_query(&parameters))
    }
}

impl Drop for Multipart {
    fn drop(&mut self) {
        let Ok(call) = self.call(Method::DELETE, &[]) else {
            return;
        };
        self.sending = None;
        let client = Arc::clone(&self.client);
        // Without a runtime the process is about to end, and the parts stay.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { forget(&client, &call).await });
        }
    }
}

/// How long the parts of a value of `len` bytes are.
fn part_len(len: u64) -> u64 {
    len.div_ceil(MOST_PARTS).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_has_too_many_parts_and_none_is_too_long() {
        for len in [1, ONE_REQUEST, 5 << 40] {
            assert!(len.div_ceil(part_len(len)) <= MOST_PARTS);
            assert!(part_len(len) <= ONE_REQUEST);
        }
    }
}
