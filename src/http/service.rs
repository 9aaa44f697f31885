//! Performs operations on the store: what a request becomes once it is understood.
//!
//! One service for all connections of a reactor. It decides no status and reads no header; what it promises is that a
//! refused upload is not read, and that a body that breaks off is never stored.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};

use super::body::Body;
use super::conditional::{Current, Preconditions};
use super::digest_fields::{Algorithm, Expected};
use super::encode::{Coding, Encoded, WORTH_IT, variant};
use super::exchange::Exchange;
use super::link::Link;
use super::listing::next_link;
use super::receive::Received;
use super::representation::{etag, representation};
use super::request::{Audience, Operation, Refusal, Terms, Wishes, understand};
use super::response::{Outcome, Sending, close, render, value, whole};
use super::select::{Selection, select};
use crate::store::{Condition, Digest, Digests, Directory, Error, Key, Meta, Object, Wanted};

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
    /// Compress answers for clients that ask for it.
    pub compress: bool,
    /// Origins whose pages may use this server; `*` is all.
    pub cors_origins: Vec<String>,
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

    /// Answers one request of the connection of `link`: at once what takes no work (a refusal, a hot value), which so
    /// costs no allocation of its own, and everything else in a future.
    pub fn answer(
        self: &Rc<Self>,
        link: &Rc<Link>,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> Answer {
        let mut exchange = Exchange::begin(link);
        if self.rules.access_log {
            exchange.log(&request, peer, self.reactor);
        }
        let (head, body) = request.into_parts();
        let len = body.size_hint().exact();
        let (audience, mut understood) = understand(&head, len, &self.rules);
        if let Some(fault) = link.fault() {
            link.leave_unread();
            understood = Err(Refusal::Fault(fault));
        }
        let outcome = match understood {
            Err(refusal) => Outcome::Refused(refusal),
            Ok(operation) => {
                let Some(outcome) = self.at_once(&operation, link) else {
                    let operation = operation.into_owned();
                    return self.work(operation, audience, body, link, exchange);
                };
                outcome
            }
        };
        if !body.is_end_stream() {
            link.leave_unread();
        }
        Answer::Ready(Some(self.finish(outcome, &audience, link, exchange)))
    }

    /// What can be answered without waiting for anything.
    fn at_once(&self, operation: &Operation<'_>, link: &Rc<Link>) -> Option<Outcome> {
        match operation {
            Operation::Get { key, wishes: None } => {
                let object = self.store.get_cached(key)?;
                let compress = self.rules.compress;
                Some(Outcome::Value(whole(object, key, compress, link)))
            }
            Operation::Get { key, wishes } => {
                let wishes = wishes.as_deref();
                if wishes.is_some_and(|wishes| wishes.digest.is_some()) {
                    return None;
                }
                let object = self.store.get_cached(key)?;
                Some(self.found(object, key, wishes, None, link))
            }
            &Operation::Options { preflight } => Some(Outcome::Options { preflight }),
            _ => None,
        }
    }

    fn work(
        self: &Rc<Self>,
        operation: Operation<'static>,
        audience: Audience,
        body: Incoming,
        link: &Rc<Link>,
        exchange: Exchange,
    ) -> Answer {
        let (service, link) = (Rc::clone(self), Rc::clone(link));
        Answer::Working(Box::pin(async move {
            let body = Received::new(body, service.rules.max_body, &link);
            let outcome = service.perform(operation, body, &link).await;
            let outcome = outcome.unwrap_or_else(|failure| failure);
            service.finish(outcome, &audience, &link, exchange)
        }))
    }

    async fn perform(
        &self,
        operation: Operation<'static>,
        mut body: Received<'_>,
        link: &Rc<Link>,
    ) -> Result<Outcome, Outcome> {
        match operation {
            Operation::Get { key, wishes } => self.get(&key, wishes.as_deref(), link).await,
            Operation::Put { .. } if self.rules.discard => {
                body.discard().await?;
                Ok(Outcome::Discarded)
            }
            Operation::Put { key, len, terms } => self.put(key, len, *terms, &mut body).await,
            Operation::Delete { key, preconditions } => {
                let deleted = self.store.delete(key, preconditions.map(condition)).await?;
                Ok(if deleted {
                    Outcome::Deleted
                } else {
                    Outcome::NoValue
                })
            }
            Operation::List { page, form } => {
                let listing = self.store.list(page.clone()).await?;
                let next = next_link(&page, &listing);
                Ok(Outcome::Listed {
                    listing,
                    form,
                    next,
                })
            }
            Operation::Options { preflight } => Ok(Outcome::Options { preflight }),
        }
    }

    async fn get(
        &self,
        key: &Key<'_>,
        wishes: Option<&Wishes>,
        link: &Rc<Link>,
    ) -> Result<Outcome, Outcome> {
        let Some(object) = self.store.get(key).await? else {
            return Ok(Outcome::NoValue);
        };
        let digest = match wishes.and_then(|wishes| wishes.digest) {
            Some(algorithm) => Some(self.digest(&object, algorithm).await?),
            None => None,
        };
        Ok(self.found(object, key, wishes, digest, link))
    }

    /// The digest of `object` as a field: kept with it, or computed where that keeps no reactor busy.
    async fn digest(&self, object: &Arc<Object>, algorithm: Algorithm) -> Result<String, Error> {
        let (object, keep) = (Arc::clone(object), self.store.is_writable());
        let sha512 = algorithm == Algorithm::Sha512;
        let job = move || object.digest_blocking(sha512, keep);
        Ok(match self.store.compute().run(job).await? {
            Digest::Sha256(digest) => Algorithm::Sha256.field(&digest),
            Digest::Sha512(digest) => Algorithm::Sha512.field(&digest),
        })
    }

    /// The answer with `object`, the value of `key`.
    fn found(
        &self,
        object: Arc<Object>,
        key: &Key<'_>,
        wishes: Option<&Wishes>,
        digest: Option<String>,
        link: &Rc<Link>,
    ) -> Outcome {
        let shared = Arc::clone(&object);
        let representation = representation(&shared, key, self.rules.compress);
        let selection = wishes.map_or(Ok(Selection::Whole), |wishes| {
            let (len, now) = (object.meta().len, SystemTime::now());
            representation.current(|current| select(wishes, current, len, now))
        });
        let selection = match selection {
            Ok(selection) => selection,
            Err(refusal) => return refusal.into(),
        };
        let coding = wishes
            .and_then(|wishes| wishes.coding)
            .filter(|_| representation.is_compressible && object.meta().len > WORTH_IT)
            // The digest would be that of the value as it is.
            .filter(|_| selection == Selection::Whole && digest.is_none());
        let encoded = coding.map(|coding| {
            let encoded = Encoded::new(Arc::clone(&object), coding, self.store.compute().clone());
            encoded.map(|encoded| (coding, encoded))
        });
        match encoded.transpose() {
            Ok(encoded) => Outcome::Value(value(
                Sending {
                    object,
                    representation,
                    selection,
                    digest,
                    encoded,
                },
                link,
            )),
            Err(error) => error.into(),
        }
    }

    async fn put(
        &self,
        key: Key<'static>,
        len: Option<u64>,
        terms: Terms,
        body: &mut Received<'_>,
    ) -> Result<Outcome, Outcome> {
        if let Some(preconditions) = &terms.preconditions {
            // Decided when the value is published; asked here too, so that what must fail is not received first.
            let current = self.store.get(&key).await?;
            if !holds(preconditions, current.map(|object| object.meta())) {
                return Err(Refusal::Precondition.into());
            }
        }
        let mut upload = self.store.upload(len).await?;
        if let Some(media_type) = &terms.media_type {
            upload.set_media_type(media_type);
        }
        let wanted = wanted(&terms);
        if !wanted.is_none() {
            upload.hash(wanted, self.store.compute().clone());
        }
        while let Some(data) = body.next().await? {
            upload.push(data).await?;
        }
        let trailers = body.trailers().map(Expected::of).transpose();
        let trailers = trailers.map_err(Refusal::from)?.unwrap_or_default();
        let expected = terms.expected.and(trailers).map_err(Refusal::from)?;
        // A trailer that was not announced asks for digests only now.
        let wanted = wanted.and(wanted_by(&expected));
        if !wanted.is_none() {
            let digests = upload.digests(wanted, self.store.compute()).await?;
            verify(&expected, &digests)?;
        }
        let condition = terms.preconditions.map(condition);
        Ok(Outcome::Stored(
            self.store.put(key, upload, condition).await?,
        ))
    }

    fn finish(
        &self,
        outcome: Outcome,
        audience: &Audience,
        link: &Link,
        mut exchange: Exchange,
    ) -> Response<Body> {
        if let Outcome::Failed(error) = &outcome {
            log_failure(error);
        }
        let mut response = render(outcome, audience, &self.rules);
        if link.left_unread() {
            close(&mut response);
        }
        exchange.answered(response.status().as_u16());
        response.map(|body| body.ends(exchange))
    }
}

/// `preconditions` as the publisher asks them, at the moment of publishing.
fn condition(preconditions: Preconditions) -> Condition {
    Box::new(move |current| holds(&preconditions, current))
}

fn holds(preconditions: &Preconditions, current: Option<Meta>) -> bool {
    let Some(meta) = current else {
        return preconditions.for_write(None);
    };
    let etag = etag(meta.version);
    let variants = Coding::ALL.map(|coding| variant(&etag, coding));
    preconditions.for_write(Some(Current {
        etag: &etag,
        variants: &variants.each_ref().map(String::as_str),
        modified: meta.version.time(),
    }))
}

/// The digests to compute of an upload: those it is to be compared with, or all that might follow.
fn wanted(terms: &Terms) -> Wanted {
    if terms.digests_follow {
        return Wanted::ALL;
    }
    wanted_by(&terms.expected)
}

fn wanted_by(expected: &Expected) -> Wanted {
    Wanted {
        sha256: expected.sha256.is_some(),
        sha512: expected.sha512.is_some(),
        md5: expected.md5.is_some(),
    }
}

fn verify(expected: &Expected, digests: &Digests) -> Result<(), Refusal> {
    let same = (expected.sha256.is_none() || expected.sha256 == digests.sha256)
        && (expected.sha512.is_none() || expected.sha512 == digests.sha512)
        && (expected.md5.is_none() || expected.md5 == digests.md5);
    if same {
        Ok(())
    } else {
        Err(Refusal::DigestMismatch)
    }
}

/// An answer, now or later.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the common one, and has no allocation of its own"
)]
pub enum Answer {
    /// Known already; empty once it has been given.
    Ready(Option<Response<Body>>),
    /// Being worked on. Boxed, so that a connection between requests has no room set aside for it.
    Working(Pin<Box<dyn Future<Output = Response<Body>>>>),
}

impl Future for Answer {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut *self {
            Self::Ready(response) => response.take().map_or(Poll::Pending, Poll::Ready),
            Self::Working(work) => work.as_mut().poll(cx),
        };
        answer.map(Ok)
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
        Error::Occupied | Error::Precondition => {}
    }
}
