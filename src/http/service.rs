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

use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};

use super::body::Body;
use super::exchange::Exchange;
use super::link::Link;
use super::receive::Received;
use super::request::{Operation, understand};
use super::response::{Outcome, close, render};
use crate::store::{Directory, Error, Key};

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
        let outcome = match understand(&head, body.size_hint().exact(), &self.rules) {
            Err(refusal) => Outcome::Refused(refusal),
            Ok(operation) => match self.at_once(&operation, link) {
                Some(outcome) => outcome,
                None => return self.work(operation.into_owned(), body, link, exchange),
            },
        };
        if !body.is_end_stream() {
            link.leave_unread();
        }
        Answer::Ready(Some(self.finish(outcome, link, exchange)))
    }

    /// What can be answered without waiting for anything.
    fn at_once(&self, operation: &Operation<'_>, link: &Rc<Link>) -> Option<Outcome> {
        let Operation::Get(key) = operation else {
            return None;
        };
        let object = self.store.get_cached(key)?;
        Some(Outcome::Value {
            object,
            link: Rc::clone(link),
        })
    }

    fn work(
        self: &Rc<Self>,
        operation: Operation<'static>,
        body: Incoming,
        link: &Rc<Link>,
        exchange: Exchange,
    ) -> Answer {
        let (service, link) = (Rc::clone(self), Rc::clone(link));
        Answer::Working(Box::pin(async move {
            let body = Received::new(body, service.rules.max_body, &link);
            let outcome = service.perform(operation, body, &link).await;
            service.finish(outcome.unwrap_or_else(|failure| failure), &link, exchange)
        }))
    }

    async fn perform(
        &self,
        operation: Operation<'static>,
        mut body: Received<'_>,
        link: &Rc<Link>,
    ) -> Result<Outcome, Outcome> {
        match operation {
            Operation::Get(key) => self.get(&key, link).await,
            Operation::Put { .. } if self.rules.discard => {
                body.discard().await?;
                Ok(Outcome::Discarded)
            }
            Operation::Put { key, len } => self.put(key, len, &mut body).await,
            Operation::Delete(key) => {
                let deleted = self.store.delete(key, None).await?;
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
        let object = self.store.get(key).await?;
        Ok(object.map_or(Outcome::NoValue, |object| Outcome::Value {
            object,
            link: Rc::clone(link),
        }))
    }

    async fn put(
        &self,
        key: Key<'static>,
        len: Option<u64>,
        body: &mut Received<'_>,
    ) -> Result<Outcome, Outcome> {
        let mut upload = self.store.upload(len).await?;
        while let Some(data) = body.next().await? {
            upload.push(data).await?;
        }
        Ok(Outcome::Stored(self.store.put(key, upload, None).await?))
    }

    fn finish(&self, outcome: Outcome, link: &Link, mut exchange: Exchange) -> Response<Body> {
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
