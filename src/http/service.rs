//! The service of a reactor, one for all its connections: from a request to its response.
//!
//! Every request, of HTTP/1 and HTTP/2, goes through [`Service::call`]: authenticate, parse, perform, respond. A rejection and a value in
//! the cache have their response at once, all else is performed by [`perform`](execute::perform). Decides no status and reads no header.

pub mod execute;
pub mod handler;
pub mod operation;
pub mod parse;

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::http::request::Parts;
use hyper::{Method, Request, Response};

use crate::access::Access;
use crate::failpoint;
use crate::http::admin::Admin;
use crate::http::auth::credentials::Principal;
use crate::http::auth::{Guard, Identified, Unchecked};
use crate::http::body::request::RequestBody;
use crate::http::body::response::Body;
use crate::http::client::Client;
use crate::http::exchange::ConnectionState;
use crate::http::exchange::record::{Panicked, RequestInfo, RequestRecord, caught};
use crate::http::exchange::request_log::IdGenerator;
use crate::http::head::CommonHeaders;
use crate::http::head::accept::prefers_problem;
use crate::http::head::framing::accept_fields;
use crate::http::head::syntax::FramingError;
use crate::http::refusal::Refusal;
use crate::http::response::Encoder;
use crate::http::response::outcome::Outcome;
use crate::http::service::execute::{RequestContext, perform};
use crate::http::service::handler::{Handler, attach_record};
use crate::http::service::operation::{Operation, ResponseContext};
use crate::http::service::parse::{RequestHead, identify, parse_request};
use crate::http::service_config::ServiceConfig;
use crate::http::watch::{Session, Subscribers, subscribe};
use crate::log::Throttle;
use crate::store::{Found, Store};

/// The service of one reactor.
#[derive(Debug)]
pub struct Service {
    handler: Rc<Handler>,
    /// `None` where the store has no feed of changes.
    subscribers: Option<Rc<Subscribers>>,
    /// The encoder of heads that a connection sends itself.
    pub encoder: Encoder,
}

/// The parts of a service. They go to the thread of a reactor, which a service itself cannot.
#[derive(Debug)]
pub struct ServiceBuilder {
    /// The store of the values.
    pub store: Arc<Store>,
    /// The configuration of the service.
    pub config: ServiceConfig,
    /// The number of the reactor.
    pub reactor: usize,
    /// The state that the server's own pages tell.
    pub admin: Arc<Admin>,
    /// The rules of access, where there are any.
    pub access: Option<Arc<Access>>,
}

impl ServiceBuilder {
    /// The service, for the thread that this is called on.
    pub fn build(self) -> Service {
        let changes = self.store.changes().map(Arc::clone);
        let handler = Handler {
            store: self.store,
            reactor: self.reactor,
            config: self.config,
            admin: self.admin,
            ids: IdGenerator::default(),
            throttle: Throttle::default(),
            guard: Guard::new(self.access.clone()),
        };
        Service {
            handler: Rc::new(handler),
            subscribers: changes.map(|changes| Rc::new(Subscribers::new(changes, self.access))),
            encoder: Encoder::default(),
        }
    }
}

/// The response to a request, as a future with a name.
pub enum Responding {
    /// The response, until it is taken.
    Ready(Option<Response<Body>>),
    /// The work on the response.
    Later(Pin<Box<dyn Future<Output = Response<Body>>>>),
}

impl Future for Responding {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(response) => response
                .take()
                .map_or(Poll::Pending, |it| Poll::Ready(Ok(it))),
            Self::Later(work) => work.as_mut().poll(cx).map(Ok),
        }
    }
}

/// The protocol that follows a response, which the connection takes when hyper has sent it.
pub type Upgrade = Cell<Option<Box<Session>>>;

/// A request without its body, and its connection.
struct Arrived<'a> {
    connection: &'a Rc<ConnectionState>,
    client: Client,
    head: &'a Parts,
    /// The length of the body, where the framing tells it.
    len: Option<u64>,
    /// `None` where no other protocol can follow.
    upgrade: Option<&'a Rc<Upgrade>>,
}

impl<'a> Arrived<'a> {
    fn head(&self, common: &'a CommonHeaders<'a>) -> RequestHead<'a> {
        RequestHead {
            head: self.head,
            len: self.len,
            client: self.client,
            common,
        }
    }
}

/// The outcome of a request that is known at once, or the operation that is left to perform.
type Started = Result<Result<Outcome, Refusal>, Operation<'static>>;

impl Service {
    /// True where a log tells fields that nothing else reads.
    pub fn tells_of_client(&self) -> bool {
        self.handler.config.logs.tell_of_client()
    }

    /// The response to one request of `connection`, or of one of its streams. With an `upgrade`, another protocol may follow it.
    pub fn call(
        self: &Rc<Self>,
        connection: &Rc<ConnectionState>,
        mut client: Client,
        request: Request<RequestBody>,
        upgrade: Option<&Rc<Upgrade>>,
    ) -> Responding {
        let trusted = &self.handler.config.trusted_proxies;
        if !trusted.is_empty() {
            client.peer = trusted.client(client.peer, request.headers());
        }
        failpoint::reach("connection", request.uri().path());
        let record = RequestRecord::begin(connection, request.method());
        let (head, body) = request.into_parts();
        let mut context = ResponseContext::default();
        let arrived = Arrived {
            connection,
            client,
            head: &head,
            len: body.len(),
            upgrade,
        };
        let begun = caught(|| self.authenticate_and_begin(&arrived, &record, &mut context));
        let begun = match begun {
            Ok(Ok(begun)) => Ok(begun),
            Ok(Err(unchecked)) => {
                let (service, connection) = (Rc::clone(self), Rc::clone(connection));
                let upgrade = upgrade.cloned();
                return Responding::Later(Box::pin(async move {
                    let Handler { guard, store, .. } = &*service.handler;
                    let proof = guard.check(*unchecked, connection.proven(), store.compute());
                    let who = proof.await.map(Some);
                    let arrived = Arrived {
                        connection: &connection,
                        client,
                        head: &head,
                        len: body.len(),
                        upgrade: upgrade.as_ref(),
                    };
                    let begun = caught(|| {
                        let common = CommonHeaders::of(&head);
                        let request = arrived.head(&common);
                        service.begin(request, who, &connection, &record, &mut context)
                    });
                    let responding = service.answer(&arrived, begun, body, record, context);
                    drop(head);
                    match responding.await {
                        Ok(response) => response,
                    }
                }));
            }
            Err(panicked) => Err(panicked),
        };
        self.answer(&arrived, begun, body, record, context)
    }

    /// Authenticates the client and begins with its request; unless a password has to be checked first.
    fn authenticate_and_begin(
        &self,
        arrived: &Arrived<'_>,
        record: &RequestRecord,
        context: &mut ResponseContext,
    ) -> Result<Started, Box<Unchecked>> {
        let Arrived {
            connection, head, ..
        } = *arrived;
        failpoint::reach("answer", head.uri.path());
        let Handler { config, guard, .. } = &*self.handler;
        let common = CommonHeaders::of(head);
        let request = arrived.head(&common);
        *context = ResponseContext::of(head, &common, config);
        let who = match identify(request, config, guard, connection.proven(), context) {
            Ok(Identified::Unchecked(unchecked)) => return Err(unchecked),
            Ok(Identified::Known(proof)) => Ok(proof),
            Err(rejection) => Err(rejection),
        };
        Ok(self.begin(request, who, connection, record, context))
    }

    /// Begins with the request of an authenticated client: parses it, and has a value in the cache at once.
    fn begin(
        &self,
        request: RequestHead<'_>,
        who: Result<Option<Rc<Principal>>, Refusal>,
        connection: &ConnectionState,
        record: &RequestRecord,
        context: &mut ResponseContext,
    ) -> Started {
        let Handler { config, guard, .. } = &*self.handler;
        let understood = who.and_then(|who| parse_request(request, who, config, guard, context));
        let client = request.client;
        if config.logs.any() || config.server_timing || context.identified {
            let proof = context.proof.as_deref();
            record.note(self.handler.log_context(Some(request.head), client, proof));
        }
        if context.closes {
            connection.close_after_response();
        }
        match understood {
            Err(refusal) => Ok(Err(refusal)),
            Ok(operation) => {
                let found = self.try_now(&operation, connection, record);
                found.ok_or_else(|| operation.into_owned())
            }
        }
    }

    /// The outcome of a GET of a value in the cache.
    fn try_now(
        &self,
        operation: &Operation<'_>,
        connection: &ConnectionState,
        record: &RequestRecord,
    ) -> Option<Result<Outcome, Refusal>> {
        let Operation::Get { key, options, .. } = operation else {
            return None;
        };
        record.asks();
        let options = options.as_deref();
        if options.is_some_and(|options| options.digest.is_some()) {
            return None;
        }
        let Handler { store, .. } = &*self.handler;
        let counters = connection.metrics().counters();
        let found = Found::File(store.get_cached(key, counters)?);
        Some(self.handler.found(found, key, options))
    }

    /// The response to a request that has `begun`.
    fn answer(
        self: &Rc<Self>,
        arrived: &Arrived<'_>,
        begun: Result<Started, Panicked>,
        body: RequestBody,
        record: RequestRecord,
        mut context: ResponseContext,
    ) -> Responding {
        let Arrived {
            connection,
            client,
            head,
            upgrade,
            ..
        } = *arrived;
        let begun = begun.unwrap_or_else(|panicked| {
            let id = record.request_id(|| self.handler.log_context(Some(head), client, None));
            RequestInfo::new(head, client.peer).panicked(panicked, &id, connection);
            context = ResponseContext::default();
            Ok(Err(Refusal::Panicked))
        });
        let operation = match begun {
            Ok(outcome) => {
                leave_unread(connection, &body);
                failpoint::reach("respond", head.uri.path());
                let mut response =
                    self.handler
                        .conclude(outcome, &context, &record, client.peer, None);
                if head.method == Method::HEAD || response.body_mut().is_resident() {
                    attach_record(&mut response, connection, record);
                    return ready(response);
                }
                let (handler, connection) = (Rc::clone(&self.handler), Rc::clone(connection));
                return Responding::Later(Box::pin(async move {
                    let mut response = handler.wait_for_first_bytes(response, &context).await;
                    attach_record(&mut response, &connection, record);
                    response
                }));
            }
            Err(operation) => operation,
        };
        let operation = match (operation, &self.subscribers) {
            (Operation::Watch(request), Some(subscribers)) => {
                leave_unread(connection, &body);
                let handler = &self.handler;
                let (response, session) =
                    subscribe(handler, subscribers, request, &context, connection, record);
                if let Some(upgrade) = upgrade {
                    upgrade.set(session);
                }
                return ready(response);
            }
            (operation, _) => operation,
        };
        let request = RequestContext {
            handler: Rc::clone(&self.handler),
            connection: Rc::clone(connection),
            info: RequestInfo::new(head, client.peer),
            context,
            record,
        };
        Responding::Later(Box::pin(perform(request, operation, body)))
    }

    /// The response to an invalid or late head, which `received` begins with.
    pub fn reject(
        &self,
        connection: &Rc<ConnectionState>,
        client: Client,
        why: FramingError,
        received: &[u8],
    ) -> Response<Body> {
        let record = RequestRecord::begin(connection, &Method::CONNECT);
        if self.handler.config.logs.any() {
            record.note(self.handler.log_context(None, client, None));
        }
        connection.leave_unread();
        let context = ResponseContext {
            problem: prefers_problem(&accept_fields(received)),
            ..ResponseContext::default()
        };
        let refused = Err(Refusal::FramingError(why));
        let mut response = self.handler.render(refused, &context);
        attach_record(&mut response, connection, record);
        response
    }
}

fn ready(response: Response<Body>) -> Responding {
    Responding::Ready(Some(response))
}

/// Has the connection close where a body is left unread: only [`perform`] reads one.
fn leave_unread(connection: &ConnectionState, body: &RequestBody) {
    if !body.is_empty() {
        connection.leave_unread();
    }
}
