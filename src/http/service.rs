//! The service of a reactor, one for all its connections: what a request becomes once it is understood.
//!
//! Answers at once what takes no work, and has the rest performed. Decides no status and reads no header.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};

use super::access_log::{Line, Sampling};
use super::admin::Admin;
use super::body::Body;
use super::caught::{Asked, caught};
use super::exchange::Exchange;
use super::hot::{self, Recent};
use super::identity::Ids;
use super::link::Link;
use super::meter::{Notes, Timing};
use super::operation::{Audience, Intent, Operation};
use super::outcome::Outcome;
use super::receive::Arriving;
use super::refusal::Refusal;
use super::request::understand;
use super::response::{close, render, whole};
use super::rules::Rules;
use super::short;
use super::subscription::{Ask, Subscribers, Upgraded};
use super::work::{Answer, Task};
use crate::failpoint;
use crate::store::{Changes, Directory, Error};

/// The service of one reactor.
#[derive(Debug)]
pub struct Service {
    pub(super) store: Arc<Directory>,
    rules: Rules,
    reactor: usize,
    pub(super) admin: Arc<Admin>,
    pub(super) ids: Ids,
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
