//! Requests that take work: performed in a future, until the response is known.
//!
//! Promises that a panic costs the request it happened in alone, and that no response is begun whose first bytes cannot be
//! read.

use std::pin::{Pin, pin};
use std::rc::Rc;

use bytes::Bytes;
use hyper::Response;

use crate::failpoint;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::panics::{RequestInfo, caught_in};
use crate::http::exchange::record::RequestRecord;
use crate::http::exchange::request_metrics::Notes;
use crate::http::request::body::{Frames, Received, RequestBody};
use crate::http::request::operation::{Operation, ResponseContext};
use crate::http::response::body::Body;
use crate::http::response::outcome::Outcome;
use crate::http::semantics::listing::{ListFormat, next_link};
use crate::http::service::handler::{Handler, seal};
use crate::http::service::put::condition;
use crate::store::{BodySource, Page};

/// A listing of more keys than this takes a reactor too long to write.
const WRITTEN_AT_ONCE: usize = 50;

/// A response being worked on.
pub type Work = Pin<Box<dyn Future<Output = Response<Body>>>>;

/// A request while it is performed: who asks, for whom the response is, and its record.
pub(in crate::http) struct RequestContext {
    pub(in crate::http) handler: Rc<Handler>,
    pub(in crate::http) connection: Rc<ConnectionState>,
    pub(in crate::http) info: RequestInfo,
    pub(in crate::http) context: ResponseContext,
    pub(in crate::http) expects_continue: bool,
    pub(in crate::http) record: RequestRecord,
}

/// A request that takes work, and its body, of which nothing has been read.
pub struct Task {
    context: RequestContext,
    operation: Operation<'static>,
    body: Frames,
}

impl Task {
    pub(in crate::http) fn new(
        context: RequestContext,
        operation: Operation<'static>,
        body: Frames,
    ) -> Self {
        Self {
            context,
            operation,
            body,
        }
    }

    /// The length of the body in bytes, where the head tells.
    pub fn body_len(&self) -> Option<u64> {
        self.body.len()
    }

    /// Whether the client waits to be told to send the body (RFC 9110, section 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.context.expects_continue
    }

    /// The bytes of the body that hyper had passed on when it was dropped.
    pub fn take_early(&mut self) -> Bytes {
        self.body.take_early()
    }

    /// Performs it with the body as hyper brings it.
    pub fn with_frames(self) -> Work {
        perform(self.context, self.operation, RequestBody::Frames(self.body))
    }

    /// Performs it with the body that `source` brings.
    pub fn with_source(self, source: Box<dyn BodySource>) -> Work {
        perform(self.context, self.operation, RequestBody::Source(source))
    }
}

fn perform(context: RequestContext, operation: Operation<'static>, body: RequestBody) -> Work {
    Box::pin(async move {
        let RequestContext {
            handler,
            connection,
            info,
            context,
            record,
            ..
        } = context;
        let response = {
            let body = Received::new(body, handler.config.max_body, &connection);
            let performed = pin!(async {
                failpoint::reach("work", info.path());
                handler.perform(operation, body, &connection).await
            });
            let outcome = handler
                .survive(performed, &info, &connection, &record)
                .await;
            handler.render(outcome, &context)
        };
        let response = if info.wants_head_alone() {
            response
        } else {
            handler.begun(response, &context).await
        };
        seal(response, &connection, record)
    })
}

impl Handler {
    /// What `performed` comes to; a panic is the end of this request alone.
    async fn survive(
        &self,
        performed: Pin<&mut impl Future<Output = Result<Outcome, Outcome>>>,
        info: &RequestInfo,
        connection: &ConnectionState,
        record: &RequestRecord,
    ) -> Outcome {
        match caught_in(performed).await {
            Ok(outcome) => outcome.unwrap_or_else(|failure| failure),
            Err(panicked) => {
                let id = record.request_id(|| Notes::of(self.ids.anonymous()));
                info.panicked(panicked, &id, connection);
                Outcome::Panicked
            }
        }
    }

    async fn list(&self, page: Page, format: ListFormat) -> Result<Outcome, Outcome> {
        let listing = self.store.list(page.clone()).await?;
        let next = next_link(&page, &listing);
        let text = if listing.keys.len() <= WRITTEN_AT_ONCE {
            format.render(&page, &listing)
        } else {
            let render = move || Ok(format.render(&page, &listing));
            self.store.compute().run(render).await?
        };
        Ok(Outcome::Listed { text, format, next })
    }

    async fn perform(
        &self,
        operation: Operation<'static>,
        mut body: Received<'_>,
        connection: &ConnectionState,
    ) -> Result<Outcome, Outcome> {
        match operation {
            Operation::Get { key, options } => self.get(&key, options.as_deref()).await,
            Operation::Put { .. } if self.config.discard => {
                body.discard().await?;
                Ok(Outcome::Discarded)
            }
            Operation::Put { key, len, options } => {
                let counters = connection.metrics().counters();
                self.put(key, len, *options, &mut body, counters).await
            }
            Operation::Delete { key, preconditions } => {
                let deleted = self.store.delete(key, preconditions.map(condition)).await?;
                Ok(if deleted {
                    Outcome::Deleted
                } else {
                    Outcome::NoValue
                })
            }
            Operation::List { page, format } => self.list(page, format).await,
            Operation::Home { is_known } => Ok(Outcome::Home { is_known }),
            Operation::Options { preflight } => Ok(Outcome::Options { preflight }),
            Operation::Page(page, format) => {
                Ok(Outcome::Page(self.admin.answer(page, format).await))
            }
        }
    }
}
