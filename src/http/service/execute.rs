//! The execution of operations: a future for each request, until its response is known.
//!
//! Promises that a panic costs only the request that it happened in, and that no response is begun whose first bytes cannot be read.

use std::pin::pin;
use std::rc::Rc;

use hyper::Response;

use crate::failpoint;
use crate::http::auth::authorize::Asker;
use crate::http::body::request::{Received, RequestBody};
use crate::http::body::response::Body;
use crate::http::exchange::ConnectionState;
use crate::http::exchange::record::{RequestInfo, RequestRecord, caught_in};
use crate::http::exchange::request_metrics::LogContext;
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;
use crate::http::service::handler::{Handler, attach_record};
use crate::http::service::operation::{Operation, ResponseContext};
use crate::http::watch::feed::NO_WATCH;

/// A request while it is performed.
pub struct RequestContext {
    pub handler: Rc<Handler>,
    pub connection: Rc<ConnectionState>,
    pub info: RequestInfo,
    pub context: ResponseContext,
    pub record: RequestRecord,
}

/// The response to a request, once it is performed.
pub async fn perform(
    request: RequestContext,
    operation: Operation<'static>,
    body: RequestBody,
) -> Response<Body> {
    let RequestContext {
        handler,
        connection,
        info,
        context,
        record,
    } = request;
    let mut response = {
        let max_body = handler.config.limits.max_body;
        let limit = match &operation {
            // Each value of a form is held to the limit, not their sum.
            Operation::Form(_) => u64::MAX,
            Operation::Put { options, .. } => options.most.unwrap_or(max_body).min(max_body),
            _ => max_body,
        };
        record.asks();
        if operation.changes() {
            record.begin_change();
        }
        let mut body = Received::new(body, limit, &connection);
        let performed = pin!(async {
            failpoint::reach("work", &info.path);
            let asker = Asker {
                proof: context.proof.as_deref(),
                peer: info.peer,
            };
            handler
                .perform(
                    operation,
                    info.wants_head_alone(),
                    &mut body,
                    &connection,
                    asker,
                )
                .await
        });
        let result = match caught_in(performed).await {
            Ok(result) => result,
            Err(panicked) => {
                let id = record.request_id(|| LogContext {
                    ids: handler.ids.anonymous(),
                    entry: None,
                    timing: None,
                });
                info.panicked(panicked, &id, &connection);
                Err(Refusal::Panicked)
            }
        };
        failpoint::reach("respond", &info.path);
        handler.conclude(result, &context, &record, info.peer, Some(&info))
    };
    if !info.wants_head_alone() {
        response = handler.wait_for_first_bytes(response, &context).await;
    }
    attach_record(&mut response, &connection, record);
    response
}

impl Handler {
    /// The outcome of `operation`. All but GET, PUT and DELETE of a directory are boxed: a future is copied once where it is begun, and
    /// would be longer with them.
    async fn perform(
        &self,
        operation: Operation<'static>,
        is_head: bool,
        body: &mut Received<'_>,
        connection: &ConnectionState,
        asker: Asker<'_>,
    ) -> Result<Outcome, Refusal> {
        let proof = asker.proof;
        match operation {
            Operation::Put { .. } if self.config.discard => {
                body.discard().await?;
                Ok(Outcome::Discarded)
            }
            Operation::Get {
                key,
                options,
                by_browser,
            } => {
                let options = options.as_deref();
                let folder = by_browser.map(|depth| (key.clone(), depth));
                match (self.get(&key, options, is_head).await?, folder) {
                    (Outcome::NoValue, Some((key, depth))) => {
                        Box::pin(self.folder_of(&key, depth, proof)).await
                    }
                    (found, _) => Ok(found),
                }
            }
            Operation::Put {
                key,
                len,
                mut options,
            } => {
                let counters = connection.metrics().counters();
                let is_only_new = options.is_only_new;
                let stored = if let Some(creation) = options.creation.take() {
                    let create = self.create_upload(key, *creation, options, body, counters, asker);
                    Box::pin(create).await
                } else {
                    self.put(key, len, options, body, counters, asker).await
                };
                if is_only_new {
                    return self.without_replacing(stored, proof);
                }
                stored
            }
            Operation::Upload(id, request) => {
                let counters = connection.metrics().counters();
                Box::pin(self.upload(id, request, body, counters, proof)).await
            }
            Operation::Form(request) => {
                let counters = connection.metrics().counters();
                Box::pin(self.form(*request, body, counters, asker)).await
            }
            Operation::Delete { key, preconditions } => {
                let deleted = self.store.delete(self.reactor, key, preconditions);
                Ok(if deleted.await? {
                    Outcome::Deleted
                } else {
                    Outcome::NoValue
                })
            }
            Operation::List(place) => Box::pin(self.list(*place)).await,
            Operation::Home(request) => Box::pin(self.home(*request, proof)).await,
            Operation::Moved { to } | Operation::SignIn { to } => Ok(Outcome::Redirect { to }),
            Operation::Options {
                preflight,
                fields,
                of,
            } => Ok(Outcome::Options {
                preflight,
                fields,
                of,
            }),
            Operation::Page(page, format) => Ok(Outcome::Page(
                Box::pin(self.admin.answer(page, format)).await,
            )),
            // The service itself subscribes, where the store has a feed.
            Operation::Watch(_) => Err(NO_WATCH.into()),
        }
    }
}
