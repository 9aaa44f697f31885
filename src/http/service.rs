//! Performs operations on the store: what a request becomes once it is understood.
//!
//! One service for all connections of a reactor. It decides no status and reads no header; what it promises is that a
//! refused upload is not read, and that a body that breaks off is never stored.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};

use super::access_log::{Line, Sampling};
use super::admin::Admin;
use super::body::Body;
use super::caught::{Asked, caught, caught_in};
use super::digest_fields::Algorithm;
use super::encode::{Encoded, WORTH_IT};
use super::exchange::Exchange;
use super::hot::{self, Recent};
use super::identity::Ids;
use super::link::Link;
use super::listing::next_link;
use super::meter::{Notes, Timing};
use super::put::condition;
use super::receive::{Arriving, Received};
use super::representation::representation;
use super::request::{Audience, Intent, Operation, Refusal, Wishes, understand};
use super::response::{Outcome, Sending, close, render, value, whole};
use super::rules::Rules;
use super::select::{Selection, select};
use super::short;
use super::subscription::{Ask, Subscribers, Upgraded};
use crate::failpoint;
use crate::store::{Changes, Digest, Directory, Error, Key, Object};

/// The service of one reactor.
#[derive(Debug)]
pub struct Service {
    pub(super) store: Arc<Directory>,
    rules: Rules,
    reactor: usize,
    admin: Arc<Admin>,
    ids: Ids,
    logged: Cell<u32>,
    /// Every request has notes, not only one that asks for them.
    is_noted: bool,
    /// Hot requests, and small uploads, can be answered the short way.
    pub(super) knows_hot: bool,
    pub(super) knows_short: bool,
    pub(super) recent: Recent,
    subscribers: Subscribers,
}

impl Service {
    /// A service over `store`, for the reactor of this number.
    pub fn new(store: Arc<Directory>, rules: Rules, reactor: usize, admin: Arc<Admin>) -> Self {
        Self {
            is_noted: rules.access_log.is_some() || rules.server_timing,
            knows_hot: hot::is_possible(&rules),
            knows_short: hot::is_possible(&rules) && short::is_possible(&rules, &store),
            recent: Recent::default(),
            store,
            rules,
            reactor,
            admin,
            ids: Ids::default(),
            logged: Cell::new(0),
            subscribers: Subscribers::default(),
        }
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn changes(&self) -> &Changes {
        self.store.changes()
    }

    pub(super) fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// Answers one request of the connection of `link`: at once what takes no work (a refusal, a hot value), which so
    /// costs no allocation of its own, and everything else in a future. A session left in `upgraded` takes the connection
    /// over once the answer has been sent.
    pub fn answer(
        self: &Rc<Self>,
        link: &Rc<Link>,
        peer: SocketAddr,
        request: Request<Incoming>,
        upgraded: &Upgraded,
    ) -> Answer {
        let exchange = Exchange::begin(link, request.method());
        let (head, body) = request.into_parts();
        let body = Arriving::new(body, link.take_inflow());
        let begun = caught(|| self.begin(&head, &body, peer, link, &exchange));
        let (audience, begun) = begun.unwrap_or_else(|panicked| {
            let id = exchange.request_id(|| self.notes(&head, peer, link.fault().is_some()));
            let outcome = Asked::new(&head, peer).panicked(panicked, &id, link);
            (Audience::default(), Begun::Done(outcome))
        });
        // Only work reads what comes with a request.
        if !matches!(begun, Begun::Work(_)) && !body.is_empty() {
            link.leave_unread();
        }
        match begun {
            Begun::Done(outcome) => {
                Answer::Ready(Some(self.finish(outcome, &audience, link, exchange)))
            }
            Begun::Awaited(outcome) => self.when_at_hand(outcome, audience, link, exchange),
            Begun::Watch(ask) => self.subscribe(ask, &audience, link, exchange, upgraded),
            Begun::Work(operation) => {
                let task = Task {
                    operation,
                    audience,
                    body,
                    asked: Asked::new(&head, peer),
                };
                self.work(task, link, exchange)
            }
        }
    }

    fn begin(
        &self,
        head: &Parts,
        body: &Arriving,
        peer: SocketAddr,
        link: &Rc<Link>,
        exchange: &Exchange,
    ) -> (Audience, Begun) {
        failpoint::reach("answer", head.uri.path());
        let len = body.len();
        let (audience, mut understood) = understand(head, len, &self.rules);
        let fault = link.fault();
        if let Some(fault) = fault {
            link.leave_unread();
            understood = Err(Refusal::Fault(fault));
        }
        if self.is_noted || audience.identified {
            exchange.note(self.notes(head, peer, fault.is_some()));
        }
        if audience.closes {
            link.end_after_answer();
        }
        let begun = match understood {
            Err(refusal) => Begun::Done(Outcome::Refused(refusal)),
            Ok(Intent::Watch(ask)) => Begun::Watch(ask),
            Ok(Intent::Operation(operation)) => {
                exchange.asks();
                match self.at_once(&operation, link) {
                    Some(mut outcome) => {
                        if head.method == Method::HEAD || outcome.is_at_hand() {
                            Begun::Done(outcome)
                        } else {
                            Begun::Awaited(outcome)
                        }
                    }
                    None => Begun::Work(operation.into_owned()),
                }
            }
        };
        (audience, begun)
    }

    /// With `stands_in`, `head` is not what the client sent: that could not be understood, and is not told.
    fn notes(&self, head: &Parts, peer: SocketAddr, stands_in: bool) -> Notes {
        let (method, target) = if stands_in {
            ("-", "-")
        } else {
            (head.method.as_str(), head.uri.path())
        };
        let line = self.rules.access_log.map(|Sampling { one_of }| {
            let turn = self.logged.get();
            self.logged.set((turn + 1) % one_of);
            Line {
                peer,
                reactor: self.reactor,
                method: method.to_owned(),
                target: target.to_owned(),
                is_sampled: turn == 0,
                bytes: 0,
            }
        });
        Notes {
            identity: self.ids.identify(&head.headers),
            line,
            timing: self.rules.server_timing.then(Timing::default),
        }
    }

    /// What can be answered without waiting for anything.
    fn at_once(&self, operation: &Operation<'_>, link: &Rc<Link>) -> Option<Outcome> {
        match operation {
            Operation::Get { key, wishes: None } => {
                let object = self.cached(key, link)?;
                let compress = self.rules.compress;
                Some(Outcome::Value(whole(object, key, compress, link)))
            }
            Operation::Get { key, wishes } => {
                let wishes = wishes.as_deref();
                if wishes.is_some_and(|wishes| wishes.digest.is_some()) {
                    return None;
                }
                let object = self.cached(key, link)?;
                Some(self.found(object, key, wishes, None, link))
            }
            &Operation::Home { is_known } => Some(Outcome::Home { is_known }),
            &Operation::Options { preflight } => Some(Outcome::Options { preflight }),
            _ => None,
        }
    }

    fn cached(&self, key: &Key<'_>, link: &Link) -> Option<Arc<Object>> {
        let found = self.store.get_cached(key);
        let counters = link.meter().counters();
        match found {
            Some(_) => counters.hits.add(1),
            None => counters.misses.add(1),
        }
        found
    }

    fn work(self: &Rc<Self>, task: Task, link: &Rc<Link>, exchange: Exchange) -> Answer {
        let (service, link) = (Rc::clone(self), Rc::clone(link));
        Answer::Working(Box::pin(async move {
            let body = Received::new(task.body, service.rules.max_body, &link);
            let performed = pin!(async {
                failpoint::reach("work", task.asked.path());
                let outcome = service.perform(task.operation, body, &link).await?;
                if task.asked.wants_head_alone() {
                    return Ok(outcome);
                }
                Ok(outcome.at_hand().await)
            });
            let outcome = service
                .survive(performed, &task.asked, &link, &exchange)
                .await;
            service.finish(outcome, &task.audience, &link, exchange)
        }))
    }

    /// What `performed` comes to; a panic is the end of this request alone.
    pub(super) async fn survive(
        &self,
        performed: Pin<&mut impl Future<Output = Result<Outcome, Outcome>>>,
        asked: &Asked,
        link: &Link,
        exchange: &Exchange,
    ) -> Outcome {
        match caught_in(performed).await {
            Ok(outcome) => outcome.unwrap_or_else(|failure| failure),
            Err(panicked) => {
                let id = exchange.request_id(|| Notes::of(self.ids.anonymous()));
                asked.panicked(panicked, &id, link)
            }
        }
    }

    /// The answer to a request whose outcome is known, once its first bytes are in memory.
    fn when_at_hand(
        self: &Rc<Self>,
        outcome: Outcome,
        audience: Audience,
        link: &Rc<Link>,
        exchange: Exchange,
    ) -> Answer {
        let (service, link) = (Rc::clone(self), Rc::clone(link));
        Answer::Working(Box::pin(async move {
            let outcome = outcome.at_hand().await;
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
            Operation::Put { key, len, terms } => {
                let counters = link.meter().counters();
                self.put(key, len, *terms, &mut body, counters).await
            }
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
            Operation::Home { is_known } => Ok(Outcome::Home { is_known }),
            Operation::Options { preflight } => Ok(Outcome::Options { preflight }),
            Operation::Page(page, form) => Ok(Outcome::Page(self.admin.answer(page, form).await)),
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
        let (sha512, keep) = (algorithm == Algorithm::Sha512, self.store.is_writable());
        let digest = object.digest(sha512, keep, self.store.compute());
        Ok(match digest.await? {
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

    pub(super) fn finish(
        &self,
        outcome: Outcome,
        audience: &Audience,
        link: &Link,
        exchange: Exchange,
    ) -> Response<Body> {
        if let Outcome::Failed(error) = &outcome {
            log_failure(error);
        }
        let mut response = render(outcome, audience, &self.rules);
        if link.is_last() {
            close(&mut response);
        }
        exchange.answered(&mut response);
        response.map(|body| body.ends(exchange))
    }
}

/// What became of a request at once.
enum Begun {
    Done(Outcome),
    /// Known, but its first bytes are not in memory yet.
    Awaited(Outcome),
    Watch(Ask),
    Work(Operation<'static>),
}

/// A request that takes work.
struct Task {
    operation: Operation<'static>,
    audience: Audience,
    body: Arriving,
    asked: Asked,
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
    Working(Work),
}

/// An answer being worked on.
pub type Work = Pin<Box<dyn Future<Output = Response<Body>>>>;

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
        Error::Occupied | Error::Precondition | Error::BrokenOff => {}
    }
}
