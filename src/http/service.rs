//! Performs operations on the store: what a request becomes once it is understood.
//!
//! One service for all connections of a reactor. It decides no status and reads no header; what it promises is that a
//! refused upload is not read, and that a body that breaks off is never stored.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::{Request, Response};

use super::body::Body;
use super::exchange::Exchange;
use super::link::Link;
use super::request::{Operation, Refusal, understand};
use super::response::{Outcome, close, render};
use crate::store::{Directory, Error, Key};

/// Values up to this length are read into memory and leave with their head in one write.
const SMALL: u64 = 64 << 10;

/// How requests are answered.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Answer as the C server did, where that differs (README, "The contract").
    pub compat: bool,
    /// Receive PUT bodies and drop them.
    pub discard: bool,
    /// Refuse to change anything.
    pub read_only: bool,
    /// The longest value taken, in bytes.
    pub max_body: u64,
    /// Log a line for each exchange.
    pub access_log: bool,
}

/// The service of one reactor.
#[derive(Debug)]
pub struct Service {
    store: Arc<Directory>,
    rules: Rules,
    reactor: usize,
}

impl Service {
    /// A service over `store`, for the reactor of this number.
    pub fn new(store: Arc<Directory>, rules: Rules, reactor: usize) -> Self {
        Self {
            store,
            rules,
            reactor,
        }
    }

    /// Answers one request of the connection of `link`.
    pub async fn answer(
        &self,
        link: &Rc<Link>,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let mut exchange = Exchange::begin(link);
        if self.rules.access_log {
            exchange.log(&request, peer, self.reactor);
        }
        let outcome = self
            .perform(link, request)
            .await
            .unwrap_or_else(|failure| failure);
        if let Outcome::Failed(error) = &outcome {
            log_failure(error);
        }
        let mut response = render(outcome, self.rules.compat);
        if link.left_unread() {
            close(&mut response);
        }
        exchange.answered(response.status().as_u16());
        response.map(|body| body.ends(exchange))
    }

    async fn perform(
        &self,
        link: &Rc<Link>,
        request: Request<Incoming>,
    ) -> Result<Outcome, Outcome> {
        let (head, body) = request.into_parts();
        let mut body = Received::new(body, self.rules.max_body, link);
        match understand(&head, body.len(), &self.rules)? {
            Operation::Get(key) => self.get(&key, link).await,
            Operation::Put { .. } if self.rules.discard => body.discard().await,
            Operation::Put { key, len } => self.put(key, len, &mut body).await,
            Operation::Delete(key) => {
                let deleted = self.store.delete(key.into_owned()).await?;
                Ok(if deleted {
                    Outcome::Deleted
                } else {
                    Outcome::NoValue
                })
            }
            Operation::List(page) => Ok(Outcome::Listed(self.store.list(page).await?)),
        }
    }

    async fn get(&self, key: &Key<'_>, link: &Rc<Link>) -> Result<Outcome, Outcome> {
        let Some(object) = self.store.get(key).await? else {
            return Ok(Outcome::NoValue);
        };
        let meta = object.meta();
        let body = if meta.len <= SMALL {
            Body::bytes(object.read().await?)
        } else {
            Body::file(object, Rc::clone(link))
        };
        Ok(Outcome::Value { meta, body })
    }

    async fn put(
        &self,
        key: Key<'_>,
        len: Option<u64>,
        body: &mut Received<'_>,
    ) -> Result<Outcome, Outcome> {
        let mut upload = self.store.upload(len).await?;
        while let Some(data) = body.next().await? {
            upload.push(data).await?;
        }
        Ok(Outcome::Stored(
            self.store.put(key.into_owned(), upload).await?,
        ))
    }
}

/// The body of a request as it arrives, counted and held to the limit.
struct Received<'a> {
    body: Incoming,
    left: u64,
    limit: u64,
    ended: bool,
    link: &'a Link,
}

impl<'a> Received<'a> {
    fn new(body: Incoming, limit: u64, link: &'a Link) -> Self {
        let ended = body.is_end_stream();
        Self {
            body,
            left: limit,
            limit,
            ended,
            link,
        }
    }

    /// The length, where the framing tells it.
    fn len(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next bytes, or `None` once all have arrived; a body that breaks off is an error.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        while let Some(frame) = self.frame().await {
            // Trailers are not data; there is nothing else.
            let Ok(data) = frame.map_err(|_| Refusal::CutOff)?.into_data() else {
                continue;
            };
            self.link.count(data.len());
            let left = self.left.checked_sub(data.len() as u64);
            self.left = left.ok_or(Refusal::TooLarge { limit: self.limit })?;
            return Ok(Some(data));
        }
        self.ended = true;
        Ok(None)
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        self.link.set_receiving(true);
        let frame = self.body.frame().await;
        self.link.set_receiving(false);
        frame
    }

    /// Receives all of it and keeps nothing.
    async fn discard(&mut self) -> Result<Outcome, Outcome> {
        while self.next().await?.is_some() {}
        Ok(Outcome::Discarded)
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.link.leave_unread();
        }
    }
}

/// The client learns what happened; the log, why.
fn log_failure(error: &Error) {
    match error {
        Error::Failed { doing, source } => {
            tracing::error!(doing, cause = %source, "the store failed");
        }
        Error::Truncated => tracing::warn!(%error, "a read failed"),
        Error::NoSpace { .. } | Error::Exhausted { .. } | Error::TooLarge => {
            tracing::warn!(%error, "out of resources");
        }
        Error::Occupied => {}
    }
}
