//! One part of a resumable upload: received, held to its lengths, compared with its digests.
//!
//! Promises that what arrived of a part that breaks off is kept, and that a part that does not have its digest is taken back.

use std::pin::pin;

use crate::http::body::request::Received;
use crate::http::refusal::rejection::Rejection;
use crate::http::response::outcome::{Outcome, UploadState};
use crate::http::service::handler::Handler;
use crate::http::uploads::request::Part;
use crate::http::values::digest_fields::Expected;
use crate::http::values::put::{InFlight, verify, wanted_by};
use crate::metrics::ReactorCounters;
use crate::store::{self, Resumable, Upload};

impl Handler {
    /// Receives `part`, and appends what arrives of it.
    pub async fn receive_part(
        &self,
        upload: &mut Resumable,
        part: &Part,
        body: &mut Received<'_>,
        counters: &ReactorCounters,
    ) -> Result<(), Outcome> {
        let _in_flight = InFlight::begin(counters);
        let (start, room) = (upload.offset(), self.room(upload));
        if part.len.is_some_and(|len| len > room.bytes) {
            return Err(Outcome::Upload(Box::new(room.why.into()), state(upload)));
        }
        let received = append(upload, part.len, body, &room).await;
        if let Err(Outcome::Refused(Rejection::InconsistentLength | Rejection::TooLarge { .. })) =
            &received
        {
            // "Length": an upload that goes beyond its length can never be completed.
            upload.remove().await?;
            return received;
        }
        received?;
        self.compare(upload, part, start, body).await?;
        if !part.is_last {
            upload.secure().await?;
        }
        Ok(())
    }

    /// Compares what was received from `start` on with the digests that came with it.
    async fn compare(
        &self,
        upload: &mut Resumable,
        part: &Part,
        start: u64,
        body: &Received<'_>,
    ) -> Result<(), Outcome> {
        let trailers = body.trailers();
        let expected = trailers.map(Expected::of_content).transpose();
        let expected = expected.map_err(Rejection::from)?.unwrap_or_default();
        let expected = part.expected.and(expected).map_err(Rejection::from)?;
        let wanted = wanted_by(&expected);
        if wanted.is_none() {
            return Ok(());
        }
        let digests = upload.digests(start, wanted, self.store.compute()).await?;
        if let Err(mismatch) = verify(&expected, &digests) {
            upload.take_back(start).await?;
            return Err(Outcome::Upload(Box::new(mismatch.into()), state(upload)));
        }
        Ok(())
    }

    /// How much more of `upload` may be received.
    fn room(&self, upload: &Resumable) -> Room {
        let limit = self.config.limits.max_body;
        let (most, why) = match upload.length() {
            Some(length) if length <= limit => (length, Rejection::InconsistentLength),
            _ => (limit, Rejection::TooLarge { limit }),
        };
        Room {
            bytes: most.saturating_sub(upload.offset()),
            why,
        }
    }
}

/// How much may be received, and why no more.
struct Room {
    bytes: u64,
    why: Rejection,
}

/// Appends all of `body` to the file of `upload`; what arrives of it is there also when it breaks off.
async fn append(
    upload: &mut Resumable,
    len: Option<u64>,
    body: &mut Received<'_>,
    room: &Room,
) -> Result<(), Outcome> {
    if let Some(len) = len.filter(|&len| store::is_large(len)) {
        upload.has_space(len).await?;
    }
    let mut appending = upload.append(len)?;
    let received = {
        let receiving = pin!(receive(&mut appending, body, room));
        tokio::select! {
            biased;
            () = upload.is_wanted() => Err(Rejection::UploadTaken.into()),
            received = receiving => received,
        }
    };
    let paused = appending.pause().await;
    upload.appended()?;
    received?;
    Ok(paused?)
}

/// Receives all of `body`.
async fn receive(upload: &mut Upload, body: &mut Received<'_>, room: &Room) -> Result<(), Outcome> {
    if let Some(source) = body.source() {
        // Its length was held to the room before.
        return Ok(upload.receive(source).await?);
    }
    let mut left = room.bytes;
    while let Some(data) = body.next().await? {
        let rest = left.checked_sub(data.len() as u64);
        left = rest.ok_or_else(|| room.why.clone())?;
        upload.push(data).await?;
    }
    Ok(())
}

/// The state of `upload`, as a response tells it.
pub fn state(upload: &Resumable) -> UploadState {
    UploadState {
        location: None,
        complete: upload.is_complete(),
        offset: Some(upload.offset()),
        length: upload.length(),
    }
}
