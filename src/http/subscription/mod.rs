//! Subscribers: who is told of changes as they are acknowledged, in the order in which they were published.
//!
//! A [`Subscription`] is a place in the store's changes and a prefix; it has no queue. What a subscriber does not take
//! stays in the store, once for all, and when it is there no more the subscriber is told to resync. One task of each
//! reactor waits for changes and wakes the subscribers of that reactor, so that publishing costs no more for a thousand of
//! them than for one.

mod ask;
mod events;
#[cfg(test)]
mod testing;
mod websocket;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::Serialize;
use slab::Slab;

pub(super) use self::ask::{Ask, BadAsk, Form, ask};
pub(super) use self::events::Events;
pub use self::websocket::Session;
use super::exchange::Exchange;
use super::link::Link;
use super::operation::Audience;
use super::outcome::Outcome;
use super::representation::etag;
use super::response::render;
use super::service::Service;
use super::work::Answer;
use crate::store::{Change, Gap};

/// How often a subscriber hears that the connection is alive, and that none that does is forgotten.
const PULSE: Duration = Duration::from_secs(20);

/// Changes looked at together: no more are taken out of the store at once.
const LOOKED_AT: usize = 64;

/// Bytes of events that are given to a subscriber at once; the last event of a batch may pass it.
const BATCH: usize = 16 << 10;

/// Where a session is left that is to take a connection over.
pub type Upgraded = Cell<Option<Box<Session>>>;

/// The subscribers of one reactor.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    waiting: RefCell<Slab<Option<Waker>>>,
    is_relaying: Cell<bool>,
}

impl Subscribers {
    /// Wakes whoever waits.
    fn wake(&self) {
        for (_, waiting) in self.waiting.borrow_mut().iter_mut() {
            if let Some(waker) = waiting.take() {
                waker.wake();
            }
        }
    }

    fn wait(&self, place: usize, cx: &Context<'_>) {
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(place) {
            *waiting = Some(cx.waker().clone());
        }
    }
}

/// Passes on to the subscribers of this reactor that there are changes, as long as there are subscribers.
fn relay(service: &Rc<Service>) {
    if service.subscribers().is_relaying.replace(true) {
        return;
    }
    let mut latest = service.changes().latest();
    let service = Rc::clone(service);
    tokio::task::spawn_local(async move {
        let subscribers = service.subscribers();
        while !subscribers.waiting.borrow().is_empty() && latest.changed().await.is_ok() {
            latest.mark_unchanged();
            subscribers.wake();
        }
        subscribers.is_relaying.set(false);
    });
}

/// What a subscriber is told.
#[derive(Debug)]
pub(super) struct Event {
    /// Where it stands in the order of changes.
    seq: u64,
    /// Changes before it are missing.
    is_resync: bool,
    /// Its text.
    json: String,
}

#[derive(Serialize)]
struct Json<'a> {
    op: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    seq: u64,
}

impl Event {
    fn change(change: &Change) -> Self {
        Self::new(&Json {
            op: if change.value.is_some() {
                "put"
            } else {
                "delete"
            },
            key: Some(change.key.as_str()),
            etag: change.value.map(|value| etag(value.version)),
            size: change.value.map(|value| value.len),
            seq: change.seq,
        })
    }

    fn resync(Gap { latest }: Gap) -> Self {
        Self::new(&Json {
            op: "resync",
            key: None,
            etag: None,
            size: None,
            seq: latest,
        })
    }

    fn new(json: &Json<'_>) -> Self {
        Self {
            seq: json.seq,
            is_resync: json.key.is_none(),
            json: serde_json::to_string(json).unwrap_or_default(),
        }
    }
}

impl Service {
    /// Subscribes before there is an answer, so that nothing is missed by who acts on the answer.
    pub(super) fn subscribe(
        self: &Rc<Self>,
        ask: Ask,
        audience: &Audience,
        link: &Rc<Link>,
        exchange: Exchange,
        upgraded: &Upgraded,
    ) -> Answer {
        exchange.watches();
        let subscription = Subscription::new(self, link, ask.prefix, ask.since);
        let response = match ask.form {
            Form::Events => {
                let outcome = Outcome::Subscribed(Box::new(Events::new(subscription)));
                self.finish(outcome, audience, link, exchange)
            }
            Form::WebSocket(accept) => {
                let mut response = render(Outcome::Upgraded(accept), audience, self.rules());
                exchange.answered(&mut response);
                let session = Session::new(subscription, exchange);
                upgraded.set(Some(Box::new(session)));
                response
            }
        };
        Answer::Ready(Some(response))
    }
}

/// A subscriber's place in the order of changes.
pub(super) struct Subscription {
    service: Rc<Service>,
    link: Rc<Link>,
    place: usize,
    prefix: Box<str>,
    seen: u64,
}

impl Subscription {
    /// Subscribes to changes of keys that begin with `prefix`: those after the one numbered `since`, or from now on.
    pub(super) fn new(
        service: &Rc<Service>,
        link: &Rc<Link>,
        prefix: Box<str>,
        since: Option<u64>,
    ) -> Self {
        let place = service.subscribers().waiting.borrow_mut().insert(None);
        // Listens before changes are kept: none can come between.
        relay(service);
        let latest = service.changes().follow();
        Self {
            service: Rc::clone(service),
            link: Rc::clone(link),
            place,
            prefix,
            seen: since.unwrap_or(latest),
        }
    }

    /// The connection of the subscriber.
    fn link(&self) -> &Link {
        &self.link
    }

    /// The number of the last change that it has been told of, or that did not concern it.
    fn seen(&self) -> u64 {
        self.seen
    }

    /// The next events, at least one and about [`BATCH`] bytes at most; else has `cx` woken when there are more changes.
    fn poll_events(&mut self, cx: &Context<'_>) -> Poll<Vec<Event>> {
        loop {
            let changes = match self.service.changes().since(self.seen, LOOKED_AT) {
                Ok(changes) => changes,
                Err(gap) => {
                    self.seen = gap.latest;
                    return Poll::Ready(vec![Event::resync(gap)]);
                }
            };
            if changes.is_empty() {
                self.service.subscribers().wait(self.place, cx);
                return Poll::Pending;
            }
            let mut events = Vec::new();
            let mut bytes = 0;
            for change in changes {
                self.seen = change.seq;
                if change.key.as_str().starts_with(&*self.prefix) {
                    let event = Event::change(&change);
                    bytes += event.json.len();
                    events.push(event);
                }
                if bytes >= BATCH {
                    break;
                }
            }
            if !events.is_empty() {
                return Poll::Ready(events);
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let subscribers = self.service.subscribers();
        subscribers.waiting.borrow_mut().try_remove(self.place);
        self.service.changes().leave();
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("prefix", &self.prefix)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}
