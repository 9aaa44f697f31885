//! The body of a request as it arrives: counted, held to the limit, and never taken as whole when it breaks off.
//!
//! It comes in frames from hyper, or, when it is large, from the socket itself ([`Inflow`]).

use std::future::poll_fn;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::HeaderMap;

use super::link::Link;
use super::refusal::Refusal;
use crate::store::{self, Inflow};

/// The body of a request that has just arrived.
#[derive(Debug)]
pub(super) enum Arriving {
    /// Hyper has it.
    Frames(Incoming),
    /// The socket has it.
    Large(Box<dyn Inflow>),
}

impl Arriving {
    /// All of it is in `inflow`, where there is one.
    pub(super) fn new(body: Incoming, inflow: Option<Box<dyn Inflow>>) -> Self {
        inflow.map_or(Self::Frames(body), Self::Large)
    }

    /// Its length in bytes, where that is known.
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            Self::Frames(body) => body.size_hint().exact(),
            Self::Large(inflow) => Some(inflow.left()),
        }
    }

    /// Whether there is nothing to receive.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Frames(body) => body.is_end_stream(),
            Self::Large(_) => false,
        }
    }
}

/// The body of a request as it arrives, counted and held to the limit.
pub(super) struct Received<'a> {
    body: Arriving,
    left: u64,
    limit: u64,
    ended: bool,
    trailers: Option<HeaderMap>,
    link: &'a Link,
}

impl<'a> Received<'a> {
    /// A large one was held to the limit when its length was announced.
    pub(super) fn new(body: Arriving, limit: u64, link: &'a Link) -> Self {
        Self {
            ended: body.is_empty(),
            body,
            left: limit,
            limit,
            trailers: None,
            link,
        }
    }

    /// The next bytes, or `None` once all have arrived; a body that breaks off is an error.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        if let Some(mut rest) = self.rest() {
            if rest.left() == 0 {
                return Ok(None);
            }
            let read = store::read(&mut rest).await;
            return read.map(Some).map_err(|_| Refusal::CutOff);
        }
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

    /// All of the body, to be taken from the socket, unless hyper has it.
    pub(super) fn rest(&mut self) -> Option<Rest<'_>> {
        let link = self.link;
        let Arriving::Large(inflow) = &mut self.body else {
            return None;
        };
        Some(Rest {
            inflow: &mut **inflow,
            link,
            since: None,
        })
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        let Arriving::Frames(body) = &mut self.body else {
            return None;
        };
        self.link.set_receiving(true);
        let waits = self.link.meter().waits();
        let frame = body.frame().await;
        self.link.meter().waited(waits);
        self.link.set_receiving(false);
        frame
    }

    /// Receives all of it and keeps nothing.
    pub(super) async fn discard(&mut self) -> Result<(), Refusal> {
        if let Some(mut rest) = self.rest() {
            rest.take_early();
            while rest.left() > 0 {
                let dropped = poll_fn(|cx| rest.poll_discard(cx)).await;
                dropped.ok_or(Refusal::CutOff)?;
            }
        }
        while self.next().await?.is_some() {}
        Ok(())
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.link.set_receiving(false);
        match &self.body {
            Arriving::Large(inflow) if inflow.left() == 0 => self.link.detour().end(),
            Arriving::Frames(_) if self.ended => {}
            _ => self.link.leave_unread(),
        }
    }
}

/// What is left of a large body; it tells the connection's [`Link`] when it waits and what it moved.
#[derive(Debug)]
pub(super) struct Rest<'a> {
    inflow: &'a mut dyn Inflow,
    link: &'a Link,
    since: Option<Instant>,
}

impl Rest<'_> {
    fn note(&mut self, polled: Poll<Option<usize>>) -> Poll<Option<usize>> {
        self.link.set_receiving(polled.is_pending());
        self.link.set_reading(polled.is_pending());
        match polled {
            Poll::Pending if self.since.is_none() => self.since = self.link.meter().waits(),
            Poll::Pending => {}
            Poll::Ready(moved) => {
                self.link.meter().waited(self.since.take());
                self.link.received(moved.unwrap_or(0));
                self.link.count(moved.unwrap_or(0));
            }
        }
        polled
    }
}

impl Inflow for Rest<'_> {
    fn left(&self) -> u64 {
        self.inflow.left()
    }

    fn take_early(&mut self) -> Bytes {
        let early = self.inflow.take_early();
        self.link.count(early.len());
        early
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<Option<usize>> {
        let polled = self.inflow.poll_read(cx, buf);
        self.note(polled)
    }

    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        is_empty: bool,
    ) -> Poll<Option<usize>> {
        let polled = self.inflow.poll_splice(cx, pipe, is_empty);
        self.note(polled)
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let polled = self.inflow.poll_discard(cx);
        self.note(polled)
    }

    fn source(&self) -> Option<OwnedFd> {
        self.inflow.source()
    }

    fn taken(&mut self, len: u64) {
        self.inflow.taken(len);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.link.received(len);
        self.link.count(len);
    }
}
