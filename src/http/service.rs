//! The service of a reactor, one for all its connections: from a request to its response.
//!
//! Every request comes through [`Service::call`], whatever brings it. What takes no work (a rejection, a value in the
//! cache) is answered at once; everything else is performed in a future. Decides no status and reads no header.

pub(super) mod execute;
mod get;
mod handler;
mod put;
mod subscribe;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::EXPECT;
use hyper::http::request::Parts;
use hyper::http::response;
use hyper::{Method, Request, Response};

use crate::failpoint;
use crate::http::admin::Admin;
use crate::http::exchange::access_log::{Line, Sampling};
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::panics::{RequestInfo, caught};
use crate::http::exchange::record::RequestRecord;
use crate::http::exchange::request_metrics::{Notes, Timing};
use crate::http::request::body::Frames;
use crate::http::request::head::{FramingError, accept_fields};
use crate::http::request::identity::Ids;
use crate::http::request::operation::{Intent, Operation, ResponseContext};
use crate::http::request::rejection::Rejection;
use crate::http::request::rejection_log::RejectionLog;
use crate::http::request::understand::understand;
use crate::http::request::watch_request::WatchRequest;
use crate::http::response::body::Body;
use crate::http::response::head_encoder::Encoder;
use crate::http::response::outcome::Outcome;
use crate::http::semantics::accept::prefers_problem;
use crate::http::service::execute::{RequestContext, Task, Work};
use crate::http::service::handler::{Handler, seal};
use crate::http::service::subscribe::subscribe;
use crate::http::service_config::ServiceConfig;
use crate::http::watch::{Subscribers, Subscription, Upgraded};
use crate::store::Store;

/// The service of one reactor.
#[derive(Debug)]
pub struct Service {
    handler: Rc<Handler>,
    reactor: usize,
    logged: Cell<u32>,
    subscribers: Rc<Subscribers>,
    encoder: Encoder,
}

/// What a request comes to.
pub enum Answer {
    /// The response is known.
    Ready(Response<Body>),
    /// It is being worked on.
    Working(Work),
    /// The body of a PUT decides, and has not been touched: it can be received in more than one way.
    Upload(Box<Task>),
}

/// What a service is made of. It goes to the thread of a reactor, which a service itself cannot.
#[derive(Debug)]
pub struct ServiceBuilder {
    /// What keeps the values.
    pub store: Arc<Store>,
    /// How requests are answered.
    pub config: ServiceConfig,
    /// The number of the reactor.
    pub reactor: usize,
    /// What the server's own pages tell of.
    pub admin: Arc<Admin>,
}

impl ServiceBuilder {
    /// The service, for the thread that this is called on.
    pub fn build(self) -> Service {
        let subscribers = Subscribers::new(Arc::clone(self.store.changes()));
        let handler = Handler {
            store: self.store,
            config: self.config,
            admin: self.admin,
            ids: Ids::default(),
            rejection_log: RejectionLog::default(),
        };
        Service {
            handler: Rc::new(handler),
            reactor: self.reactor,
            logged: Cell::new(0),
            subscribers: Rc::new(subscribers),
            encoder: Encoder::default(),
        }
    }
}

impl Service {
    /// The head of a response, for a connection that sends it itself, with a body of `len` bytes.
    pub fn encode(&self, parts: &response::Parts, len: u64) -> Vec<u8> {
        self.encoder.encode(parts, len)
    }

    /// Answers one request of `connection`. A session left in `upgraded` takes the connection over once the response has
    /// been sent.
    pub fn call(
        self: &Rc<Self>,
        connection: &Rc<ConnectionState>,
        peer: SocketAddr,
        request: Request<Incoming>,
        upgraded: &Upgraded,
    ) -> Answer {
        failpoint::reach("connection", request.uri().path());
        let record = RequestRecord::begin(connection, request.method());
        let (head, body) = request.into_parts();
        let body = Frames::new(body);
        let begun = caught(|| self.begin(&head, body.len(), peer, connection, &record));
        let (context, begun) = begun.unwrap_or_else(|panicked| {
            let id = record.request_id(|| self.notes(Some(&head), peer));
            RequestInfo::new(&head, peer).panicked(panicked, &id, connection);
            (ResponseContext::default(), Begun::Done(Outcome::Panicked))
        });
        // Only work reads what comes with a request.
        if !matches!(begun, Begun::Work(_)) && !body.is_empty() {
            connection.leave_unread();
        }
        match begun {
            Begun::Done(outcome) => {
                let mut response = self.handler.render(outcome, &context);
                if head.method == Method::HEAD || response.body_mut().is_resident() {
                    return Answer::Ready(seal(response, connection, record));
                }
                Answer::Working(self.when_resident(response, context, connection, record))
            }
            Begun::Watch(ask) => {
                // Before there is a response, so that a client that acts on the response misses nothing.
                let subscription =
                    Subscription::new(&self.subscribers, connection, ask.prefix, ask.since);
                Answer::Ready(subscribe(
                    &self.handler,
                    subscription,
                    ask.transport,
                    &context,
                    connection,
                    record,
                    upgraded,
                ))
            }
            Begun::Work(operation) => {
                let context = RequestContext {
                    handler: Rc::clone(&self.handler),
                    connection: Rc::clone(connection),
                    info: RequestInfo::new(&head, peer),
                    context,
                    expects_continue: head.headers.contains_key(EXPECT),
                    record,
                };
                let is_upload = matches!(operation, Operation::Put { .. });
                let task = Task::new(context, operation, body);
                if is_upload {
                    Answer::Upload(Box::new(task))
                } else {
                    Answer::Working(task.with_frames())
                }
            }
        }
    }

    /// The response to a request that never became one: its head, which `received` begins with, is invalid or late.
    pub fn reject(
        &self,
        connection: &Rc<ConnectionState>,
        peer: SocketAddr,
        why: FramingError,
        received: &[u8],
    ) -> Response<Body> {
        let record = RequestRecord::begin(connection, &Method::CONNECT);
        if self.handler.config.access_log.is_some() {
            record.note(self.notes(None, peer));
        }
        connection.leave_unread();
        let context = ResponseContext {
            problem: prefers_problem(&accept_fields(received)),
            ..ResponseContext::default()
        };
        let outcome = Outcome::Refused(Rejection::FramingError(why));
        let response = self.handler.render(outcome, &context);
        seal(response, connection, record)
    }

    fn begin(
        &self,
        head: &Parts,
        len: Option<u64>,
        peer: SocketAddr,
        connection: &ConnectionState,
        record: &RequestRecord,
    ) -> (ResponseContext, Begun) {
        failpoint::reach("answer", head.uri.path());
        let (context, understood) = understand(head, len, &self.handler.config);
        if self.handler.config.access_log.is_some()
            || self.handler.config.server_timing
            || context.identified
        {
            record.note(self.notes(Some(head), peer));
        }
        if context.closes {
            connection.close_after_response();
        }
        let begun = match understood {
            Err(rejection) => {
                self.handler.rejection_log.refused(&rejection, peer);
                Begun::Done(Outcome::Refused(rejection))
            }
            Ok(Intent::Watch(ask)) => Begun::Watch(ask),
            Ok(Intent::Operation(operation)) => {
                record.asks();
                match self.try_now(&operation, connection) {
                    Some(outcome) => Begun::Done(outcome),
                    None => Begun::Work(operation.into_owned()),
                }
            }
        };
        (context, begun)
    }

    /// What the log says of a request; without a `head`, it could not be understood.
    fn notes(&self, head: Option<&Parts>, peer: SocketAddr) -> Notes {
        let line = self.handler.config.access_log.map(|Sampling { one_of }| {
            let turn = self.logged.get();
            self.logged.set((turn + 1) % one_of);
            Line {
                peer,
                reactor: self.reactor,
                method: head.map_or("-", |head| head.method.as_str()).to_owned(),
                target: head.map_or("-", |head| head.uri.path()).to_owned(),
                is_sampled: turn == 0,
                bytes: 0,
            }
        });
        let identity = head.map(|head| self.handler.ids.identify(&head.headers));
        Notes {
            identity: identity.unwrap_or_else(|| self.handler.ids.anonymous()),
            line,
            timing: self.handler.config.server_timing.then(Timing::default),
        }
    }

    /// What can be answered without waiting for anything.
    fn try_now(&self, operation: &Operation<'_>, connection: &ConnectionState) -> Option<Outcome> {
        match operation {
            Operation::Get { key, options } => {
                let options = options.as_deref();
                if options.is_some_and(|options| options.digest.is_some()) {
                    return None;
                }
                let object = self.handler.cached(key, connection)?;
                Some(self.handler.found(object, key, options, None))
            }
            &Operation::Home { is_known } => Some(Outcome::Home { is_known }),
            &Operation::Options { preflight } => Some(Outcome::Options { preflight }),
            _ => None,
        }
    }

    fn when_resident(
        self: &Rc<Self>,
        response: Response<Body>,
        context: ResponseContext,
        connection: &Rc<ConnectionState>,
        record: RequestRecord,
    ) -> Work {
        let (handler, connection) = (Rc::clone(&self.handler), Rc::clone(connection));
        Box::pin(async move {
            let response = handler.begun(response, &context).await;
            seal(response, &connection, record)
        })
    }
}

/// What became of a request at once.
enum Begun {
    Done(Outcome),
    Watch(WatchRequest),
    Work(Operation<'static>),
}
