//! The dispatcher of a reactor, one for all its connections: from a request to its response.
//!
//! Every request, of HTTP/1 and HTTP/2, goes through [`Dispatcher::call`]: authenticate, parse, perform, respond. A
//! rejection and a value in the cache have their response at once, all else is performed by [`execute::perform`].
//! Decides no status and reads no header.

pub mod answer;
pub mod execute;
pub mod operation;
pub mod parse;
mod respond;

use std::cell::{Cell, RefCell};
use std::future::{Ready, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::Either;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::failpoint;
use crate::http::admin::Admin;
use crate::http::auth::credentials::FolderLink;
use crate::http::auth::credentials::Principal;
use crate::http::auth::{CHECKS_BUSY, Guard, Identified};
use crate::http::body::request::{RequestBody, content_length};
use crate::http::body::response::Body;
use crate::http::exchange::record::{Panicked, catch_panic};
use crate::http::exchange::request_log::IdGenerator;
use crate::http::exchange::{Exchange, RequestGuard};
use crate::http::head::accept::prefers_problem;
use crate::http::head::client::{Client, Door};
use crate::http::head::encode::Encoder;
use crate::http::head::framing::accept_fields;
use crate::http::head::syntax::FramingError;
use crate::http::head::unread::OptionalFields;
use crate::http::locks::Locks;
use crate::http::refusal::Refusal;
use crate::http::request::head::RequestHead;
use crate::http::request::{RequestContext, ResponseContext, Service, attach};
use crate::http::service::execute::perform;
use crate::http::service::operation::Operation;
use crate::http::service_config::ServiceConfig;
use crate::http::values::get::found;
use crate::http::values::representation::{RepresentedValue, ValueResponse, answered};
use crate::http::watch::{Session, Subscribers, subscribe};
use crate::log::Throttle;
use crate::store::{Found, Store};

pub use answer::ServiceResult;

/// The most memory for the directories of zips while they are made, in bytes.
const MAX_DIRECTORIES: usize = 64 << 20;

/// The parts of a service. They go to the thread of a reactor, which a service itself cannot.
pub struct ServiceBuilder {
    /// The store of the values.
    pub store: Arc<Store>,
    /// The configuration of the service.
    pub config: ServiceConfig,
    /// The number of the reactor.
    pub reactor: usize,
    /// The state that the server's own pages report.
    pub admin: Arc<Admin>,
    /// The rules of access, where there are any.
    pub access: Option<Arc<Access>>,
    /// The locks of names, where clients can take some.
    pub locks: Option<Arc<Locks>>,
}

impl ServiceBuilder {
    /// The dispatcher, for the thread that this is called on.
    pub fn build(self) -> Dispatcher {
        let changes = self.store.changes().map(Arc::clone);
        let shared = Service {
            store: self.store,
            reactor: self.reactor,
            config: self.config,
            ids: IdGenerator::default(),
            throttle: Throttle::default(),
            directories: Arc::new(Semaphore::new(MAX_DIRECTORIES)),
            guard: self.access.clone().map(Guard),
            locks: self.locks,
        };
        Dispatcher {
            shared: Rc::new(shared),
            admin: self.admin,
            subscribers: changes.map(|changes| Rc::new(Subscribers::new(changes, self.access))),
            encoder: Encoder::default(),
        }
    }
}

/// The way of requests to the features of one reactor.
pub struct Dispatcher {
    /// What each request is performed with.
    pub(crate) shared: Rc<Service>,
    admin: Arc<Admin>,
    /// `None` where the store has no feed of changes.
    subscribers: Option<Rc<Subscribers>>,
    /// The encoder of heads that a connection sends itself.
    pub encoder: Encoder,
}

/// The response to a request, or the work on it.
pub type Responding = Either<Ready<ServiceResult>, Pin<Box<dyn Future<Output = ServiceResult>>>>;

/// A response that is known.
pub fn known(response: Response<Body>) -> Responding {
    Either::Left(ready(Ok(response)))
}

/// The protocol that follows a response, which the connection takes when hyper has sent it.
pub type Upgrade = Cell<Option<Box<Session>>>;

/// The value, or the refusal, of a request that is known at once, or the operation that is left to perform.
type Started = Result<Result<ValueResponse, Refusal>, Operation<'static>>;

impl Dispatcher {
    /// The fields of requests at this door that this configuration reads, and others do not.
    pub fn optional_fields(&self, door: Door) -> OptionalFields {
        let ServiceConfig {
            logs,
            trusted_proxies,
            ..
        } = &self.shared.config;
        OptionalFields {
            of_client: logs.have_client_fields(),
            of_trace: logs.access,
            of_proxies: !trusted_proxies.is_empty(),
            of_signatures: door == Door::S3,
        }
    }

    /// The response to the request of `exchange`. With an `upgrade`, another protocol may follow it.
    pub fn call(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        mut client: Client,
        request: Request<RequestBody>,
        upgrade: Option<&Rc<Upgrade>>,
    ) -> Responding {
        let service = &self.shared;
        let trusted = &service.config.trusted_proxies;
        if !trusted.is_empty()
            && let Some(peer) = trusted.client(client.peer, request.headers())
        {
            (client.peer, client.by_trusted) = (peer, true);
        }
        failpoint::reach("connection", request.uri().path());
        let guard = RequestGuard::new(exchange, request.method());
        let (mut head, body) = request.into_parts();
        let link = (service.guard.as_ref()).and_then(|_| FolderLink::take(&mut head.uri));
        let mut context = ResponseContext::default();
        let begun = catch_panic(|| {
            failpoint::reach("answer", head.uri.path());
            let mut request = RequestHead::new(&head, body.len(), client, &service.config);
            request.link = link.as_ref();
            context = request.response_context();
            let proven = &exchange.connection().proven;
            let principal = match request.identify(service.guard.as_ref(), proven, &context) {
                Ok(Identified::Unchecked(unchecked)) => return Err(unchecked),
                Ok(Identified::Known(principal)) => Ok(principal),
                Err(refusal) => Err(refusal),
            };
            Ok(self.begin(&request, principal, exchange, &mut context))
        });
        let begun = match begun {
            Ok(Ok(begun)) => Ok(begun),
            Ok(Err(unchecked)) => {
                let (dispatcher, upgrade) = (Rc::clone(self), upgrade.cloned());
                return Either::Right(Box::pin(async move {
                    let service = &dispatcher.shared;
                    let (proven, compute) =
                        (&guard.exchange.connection().proven, service.store.compute());
                    let principal = match &service.guard {
                        Some(of) => of.check(*unchecked, proven, compute).await,
                        None => Err(CHECKS_BUSY),
                    };
                    let begun = catch_panic(|| {
                        let request = RequestHead::new(&head, body.len(), client, &service.config);
                        let principal = principal.map(Some);
                        dispatcher.begin(&request, principal, &guard.exchange, &mut context)
                    });
                    let upgrade = upgrade.as_ref();
                    let responding =
                        dispatcher.answer(&head, client, begun, body, guard, context, upgrade);
                    drop(head);
                    responding.await
                }));
            }
            Err(panicked) => Err(panicked),
        };
        self.answer(&head, client, begun, body, guard, context, upgrade)
    }

    /// Begins with the request of an authenticated client: parses it, and has a value in the cache at once.
    fn begin(
        &self,
        request: &RequestHead<'_>,
        principal: Result<Option<Rc<Principal>>, Refusal>,
        exchange: &Exchange,
        context: &mut ResponseContext,
    ) -> Started {
        let (service, common) = (&*self.shared, &request.common);
        let config = &service.config;
        let operation_for = |principal| request.operation_for(principal, context, &self.admin);
        let understood = principal.and_then(operation_for);
        let tells_id = common.has_request_id || request.client.door == Door::S3;
        if config.logs.any() || config.server_timing || tells_id {
            let principal = context.principal.as_deref();
            let entry = service.log_entry(Some(request.head), request.client, principal);
            exchange.record.set_entry(entry);
        }
        if common.wants_close {
            exchange.close_after_response();
        }
        let operation = match understood {
            Err(refusal) => return Ok(Err(refusal)),
            Ok(operation) => operation,
        };
        if let Operation::Get { key, options, .. } = &operation {
            exchange.record.begin_store();
            let options = options.as_deref();
            if options.is_none_or(|options| options.digest.is_none())
                && let Some(value) = service.store.get_cached(key, exchange.counters())
            {
                let value = RepresentedValue::new(Found::File(value), key, &service.config);
                return Ok(found(service, value, options));
            }
        }
        Err(operation.into_owned())
    }

    /// The response to a request that has `begun`.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn answer(
        self: &Rc<Self>,
        head: &Parts,
        client: Client,
        begun: Result<Started, Panicked>,
        body: RequestBody,
        guard: RequestGuard,
        context: ResponseContext,
        upgrade: Option<&Rc<Upgrade>>,
    ) -> Responding {
        let (service, exchange) = (&self.shared, &guard.exchange);
        let begun = begun.unwrap_or_else(|_| {
            let (method, path) = (&head.method, head.uri.path());
            Ok(Err(service.panicked(
                exchange,
                client,
                method,
                path,
                Some(head),
            )))
        });
        let operation = match begun {
            Ok(found) => {
                leave_unread(exchange, &body);
                failpoint::reach("respond", head.uri.path());
                let mut response =
                    service.conclude(found.map(answered), &context, exchange, client.peer, None);
                if head.method == Method::HEAD || response.body_mut().is_resident() {
                    attach(&mut response, guard);
                    return known(response);
                }
                let service = Rc::clone(service);
                return Either::Right(Box::pin(async move {
                    service.finish(response, &context, guard).await
                }));
            }
            Err(operation) => operation,
        };
        let operation = match (operation, &self.subscribers) {
            (Operation::Watch(request), Some(subscribers)) => {
                leave_unread(exchange, &body);
                let (response, session) = subscribe(service, subscribers, request, &context, guard);
                if let Some(upgrade) = upgrade {
                    upgrade.set(session);
                }
                return known(response);
            }
            (operation, _) => operation,
        };
        let request = RequestContext {
            service: Rc::clone(service),
            guard,
            client,
            context,
            method: head.method.clone(),
            path: head.uri.path().into(),
            size: content_length(&head.headers),
            tokens: RefCell::default(),
        };
        Either::Right(Box::pin(perform(request, operation, body)))
    }

    /// The response to an invalid or late head, which `received` begins with.
    pub fn reject(
        &self,
        exchange: &Rc<Exchange>,
        client: Client,
        why: FramingError,
        received: &[u8],
    ) -> Response<Body> {
        let (service, guard) = (&self.shared, RequestGuard::new(exchange, &Method::CONNECT));
        if service.config.logs.any() {
            let entry = service.log_entry(None, client, None);
            exchange.record.set_entry(entry);
        }
        exchange.leave_unread();
        let mut context = ResponseContext::default();
        context.errors.problem = prefers_problem(&accept_fields(received));
        let refused = Err(why.into());
        let mut response = service.render(refused, &context);
        attach(&mut response, guard);
        response
    }
}

/// Has the connection close where a body is left unread: only [`perform`] reads one.
fn leave_unread(exchange: &Exchange, body: &RequestBody) {
    if !body.is_empty() {
        exchange.leave_unread();
    }
}
