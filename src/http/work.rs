//! Requests that take work: performed in a future, until the answer is known.
//!
//! Promises that a panic costs the request it happened in alone, and that no answer is begun whose first bytes cannot be
//! read.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::Response;

use super::body::Body;
use super::caught::{Asked, caught_in};
use super::exchange::Exchange;
use super::link::Link;
use super::listing::next_link;
use super::meter::Notes;
use super::operation::{Audience, Operation};
use super::outcome::Outcome;
use super::put::condition;
use super::receive::{Arriving, Received};
use super::service::Service;
use crate::failpoint;

/// A request that takes work.
pub(super) struct Task {
    pub(super) operation: Operation<'static>,
    pub(super) audience: Audience,
    pub(super) body: Arriving,
    pub(super) asked: Asked,
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

impl Service {
    pub(super) fn work(self: &Rc<Self>, task: Task, link: &Rc<Link>, exchange: Exchange) -> Answer {
        let (service, link) = (Rc::clone(self), Rc::clone(link));
        Answer::Working(Box::pin(async move {
            let body = Received::new(task.body, service.rules().max_body, &link);
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
    pub(super) fn when_at_hand(
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
            Operation::Put { .. } if self.rules().discard => {
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
}
