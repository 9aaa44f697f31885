//! The body of a request as it arrives: counted, held to the limit, and never taken as whole when it breaks off.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::HeaderMap;

use super::link::Link;
use super::request::Refusal;

/// The body of a request as it arrives, counted and held to the limit.
pub(super) struct Received<'a> {
    body: Incoming,
    left: u64,
    limit: u64,
    ended: bool,
    trailers: Option<HeaderMap>,
    link: &'a Link,
}

impl<'a> Received<'a> {
    pub(super) fn new(body: Incoming, limit: u64, link: &'a Link) -> Self {
        let ended = body.is_end_stream();
        Self {
            body,
            left: limit,
            limit,
            ended,
            trailers: None,
            link,
        }
    }

    /// The next bytes, or `None` once all have arrived; a body that breaks off is an error.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        while let Some(frame) = self.frame().await {
            let data = match frame.map_err(|_| Refusal::CutOff)?.into_data() {
                Ok(data) => data,
                Err(other) => {
                    self.trailers = other.into_trailers().ok();
                    continue;
                }
            };
            self.link.count(data.len());
            let left = self.left.checked_sub(data.len() as u64);
            self.left = left.ok_or(Refusal::TooLarge { limit: self.limit })?;
            return Ok(Some(data));
        }
        self.ended = true;
        Ok(None)
    }

    /// What followed the body, once that has ended.
    pub(super) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        self.link.set_receiving(true);
        let waits = self.link.meter().waits();
        let frame = self.body.frame().await;
        self.link.meter().waited(waits);
        self.link.set_receiving(false);
        frame
    }

    /// Receives all of it and keeps nothing.
    pub(super) async fn discard(&mut self) -> Result<(), Refusal> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.link.leave_unread();
        }
    }
}
