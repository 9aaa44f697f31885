//! The service of a reactor, one for all its connections: from a request to its response.
//!
//! Every request comes through [`Service::call`], whatever brings it. What takes no work (a rejection, a value in the
//! cache) is answered at once; everything else is performed in a future. Decides no status and reads no header.

pub mod builder;
pub mod execute;
pub mod handler;
pub mod notes;
pub mod operation;
pub mod understand;

use std::rc::Rc;

use hyper::header::EXPECT;
use hyper::http::request::Parts;
use hyper::http::response;
use hyper::{Method, Request, Response};

use crate::failpoint;
use crate::http::auth::proving::{Arrived, Check, Proving};
use crate::http::body::request::Frames;
use crate::http::body::response::Body;
use crate::http::client::Client;
use crate::http::exchange::access_log::AccessFormat;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::panics::{RequestInfo, caught};
use crate::http::exchange::record::RequestRecord;
use crate::http::head::accept::prefers_problem;
use crate::http::head::raw::{FramingError, accept_fields};
use crate::http::refusal::rejection::Rejection;
use crate::http::response::head_encoder::Encoder;
use crate::http::response::outcome::Outcome;
use crate::http::service::execute::{RequestContext, Task, Work};
use crate::http::service::handler::{Handler, seal};
use crate::http::service::operation::{Intent, Operation, ResponseContext};
use crate::http::service::understand::understand;
use crate::http::watch::request::WatchRequest;
use crate::http::watch::subscribe::{NO_WATCH, subscribe};
use crate::http::watch::{Asked, Permission, Subscribers, Subscription, Upgraded};

/// The service of one reactor.
#[derive(Debug)]
pub struct Service {
    handler: Rc<Handler>,
    /// `None` where changes are not told.
    subscribers: Option<Rc<Subscribers>>,
    encoder: Encoder,
}

/// What a request comes to.
pub enum Answer {
    /// The response is known.
    Ready(Response<Body>),
    /// It is being worked on.
    Working(Work),
    /// The body of an upload decides, and has not been touched: it can be received in more than one way.
    Upload(Box<Task>),
    /// It is being found out who asks; then the request goes on by [`Service::go_on`].
    Proving(Proving),
}

impl Service {
    /// Whether a log tells of fields that nothing else reads.
    pub fn tells_of_client(&self) -> bool {
        let format = self.handler.config.access_log;
        format.is_some_and(|format| format != AccessFormat::Fields)
    }

    /// The head of a response, for a connection that sends it itself, with a body of `len` bytes.
    pub fn encode(&self, parts: &response::Parts, len: u64) -> Vec<u8> {
        self.encoder.encode(parts, len)
    }

    /// The head of a response over HTTP/2, with a body of `len` bytes where that is known.
    pub fn complete(&self, parts: response::Parts, len: Option<u64>) -> Response<()> {
        self.encoder.complete(parts, len)
    }

    /// Answers one request of `connection`, or of one of its streams. A session left in `upgraded` takes the connection
    /// over once the response has been sent.
    pub fn call(
        self: &Rc<Self>,
        connection: &Rc<ConnectionState>,
        mut client: Client,
        request: Request<Frames>,
        upgraded: &Upgraded,
    ) -> Answer {
        let trusted = &self.handler.config.trusted_proxies;
        if !trusted.is_empty() {
            client.peer = trusted.client(client.peer, request.headers());
        }
        failpoint::reach("connection", request.uri().path());
        let record = RequestRecord::begin(connection, request.method());
        let (head, body) = request.into_parts();
        self.answer(connection, client, head, body, record, upgraded)
    }

    /// Goes on with a request when it is known who asks, as [`Service::call`] does.
    pub fn go_on(self: &Rc<Self>, arrived: Box<Arrived>, upgraded: &Upgraded) -> Answer {
        let Arrived {
            connection,
            client,
            head,
            body,
            record,
        } = *arrived;
        self.answer(&connection, client, head, body, record, upgraded)
    }

    fn answer(
        self: &Rc<Self>,
        connection: &Rc<ConnectionState>,
        client: Client,
        head: Parts,
        body: Frames,
        record: RequestRecord,
        upgraded: &Upgraded,
    ) -> Answer {
        let begun = caught(|| self.begin(&head, body.len(), client, connection, &record));
        let (context, begun) = begun.unwrap_or_else(|panicked| {
            let id = record.request_id(|| self.notes(Some(&head), client, None));
            RequestInfo::new(&head, client.peer).panicked(panicked, &id, connection);
            (ResponseContext::default(), Begun::Done(Outcome::Panicked))
        });
        // Only work reads what comes with a request.
        if matches!(begun, Begun::Done(_) | Begun::Watch(..)) && !body.is_empty() {
            connection.leave_unread();
        }
        match begun {
            Begun::Done(outcome) => {
                failpoint::reach("respond", head.uri.path());
                let mut response = self.handler.conclude(outcome, &context, &record);
                if head.method == Method::HEAD || response.body_mut().is_resident() {
                    return Answer::Ready(seal(response, connection, record));
                }
                Answer::Working(self.when_resident(response, context, connection, record))
            }
            Begun::Proving(check) => {
                let connection = Rc::clone(connection);
                let arrived = Arrived {
                    connection,
                    client,
                    head,
                    body,
                    record,
                };
                Answer::Proving(Proving::new(check, arrived))
            }
            Begun::Watch(ask, subscribers) => {
                // Before there is a response, so that a client that acts on the response misses nothing.
                let access = self.handler.guard.access();
                let asked = Asked {
                    prefix: ask.prefix,
                    since: ask.since,
                    permission: Permission::new(access, context.proof.as_ref()),
                };
                let subscription = Subscription::new(&subscribers, connection, asked);
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
                    info: RequestInfo::new(&head, client.peer),
                    context,
                    expects_continue: head.headers.contains_key(EXPECT),
                    record,
                };
                let is_upload = operation.takes_body();
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
        client: Client,
        why: FramingError,
        received: &[u8],
    ) -> Response<Body> {
        let record = RequestRecord::begin(connection, &Method::CONNECT);
        if self.handler.config.logs_requests() {
            record.note(self.notes(None, client, None));
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
        client: Client,
        connection: &ConnectionState,
        record: &RequestRecord,
    ) -> (ResponseContext, Begun) {
        failpoint::reach("answer", head.uri.path());
        let Handler { config, guard, .. } = &*self.handler;
        let proven = connection.proven();
        let (context, understood) = understand(head, len, client, config, guard, proven);
        let is_noted = config.logs_requests() || config.server_timing || context.identified;
        // A request that is asked again is noted then.
        if is_noted && !matches!(understood, Ok(Intent::Prove(_))) {
            record.note(self.notes(Some(head), client, context.proof.as_deref()));
        }
        if context.closes {
            connection.close_after_response();
        }
        let begun = match understood {
            Err(rejection) => {
                let log = &self.handler.rejection_log;
                log.rejected(&rejection, client.peer, config);
                Begun::Done(Outcome::Refused(rejection))
            }
            Ok(Intent::Prove(unchecked)) => {
                let compute = self.handler.store.compute();
                match guard.check(*unchecked, Rc::clone(proven), compute) {
                    Ok(check) => Begun::Proving(Box::pin(check)),
                    Err(rejection) => {
                        if is_noted {
                            record.note(self.notes(Some(head), client, None));
                        }
                        Begun::Done(Outcome::Refused(rejection))
                    }
                }
            }
            Ok(Intent::Watch(ask)) => match &self.subscribers {
                Some(subscribers) => Begun::Watch(ask, Rc::clone(subscribers)),
                None => Begun::Done(NO_WATCH.into()),
            },
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

    /// What can be answered without waiting for anything.
    fn try_now(&self, operation: &Operation<'_>, connection: &ConnectionState) -> Option<Outcome> {
        match operation {
            Operation::Get { key, options, .. } => {
                let options = options.as_deref();
                if options.is_some_and(|options| options.digest.is_some()) {
                    return None;
                }
                let object = self.handler.cached(key, connection)?;
                Some(self.handler.found(object, key, options, None))
            }
            Operation::Moved { to } | Operation::SignIn { to } => {
                Some(Outcome::Moved { to: to.clone() })
            }
            &Operation::Options { preflight, of } => Some(Outcome::Options { preflight, of }),
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
        Box::pin(async move { seal(handler.begun(response, &context).await, &connection, record) })
    }
}

/// What became of a request at once.
enum Begun {
    Done(Outcome),
    Proving(Check),
    Watch(WatchRequest, Rc<Subscribers>),
    Work(Operation<'static>),
}
