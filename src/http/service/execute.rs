//! The execution of operations: a future for each request, until its response is known.
//!
//! Promises that a panic costs only the request that it happened in, and that no response is begun whose first bytes
//! cannot be read.

use std::pin::pin;

use hyper::StatusCode;

use crate::failpoint;
use crate::http::body::request::{Received, RequestBody};
use crate::http::exchange::record::catch_panic_in;
use crate::http::listing::perform::{linked_folder_of, redirect};
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::refusal::kind::Kind;
use crate::http::request::{RequestContext, attach};
use crate::http::response::{Outcome, empty};
use crate::http::service::answer::ServiceResult;
use crate::http::service::operation::Operation;
use crate::http::values::get::{GetOptions, get};
use crate::http::values::put::put;
use crate::http::values::representation::stored;
use crate::http::values::symlinks;
use crate::http::verb::{BodyUse, Verb};
use crate::http::watch::feed::NO_WATCH;
use crate::store::Key;

const WITH_BODY: &Kind = &Kind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "folder-with-body");

/// The response to a request, once it is performed.
pub async fn perform(
    request: RequestContext,
    operation: Operation<'static>,
    body: RequestBody,
) -> ServiceResult {
    let (service, exchange) = (&*request.service, &*request.guard.exchange);
    let record = &exchange.record;
    let mut response = {
        let max_body = service.config.limits.max_body;
        let limit = match &operation {
            // Each value of a form or an archive is held to the limit, not their sum.
            Operation::Other(verb) if verb.body() == BodyUse::Values => u64::MAX,
            Operation::Put(put) => put.most.unwrap_or(max_body).min(max_body),
            _ => max_body,
        };
        record.begin_store();
        let mut body = Received::new(body, limit, exchange);
        let performed = pin!(execute(&request, operation, &mut body));
        let result = catch_panic_in(performed).await.unwrap_or_else(|_| {
            let (method, path) = (&request.method, &*request.path);
            Err(service.panicked(exchange, request.client, method, path, None))
        });
        failpoint::reach("respond", &request.path);
        let peer = request.client.peer;
        service.conclude(result, &request.context, exchange, peer, Some(&request))
    };
    if request.is_head() {
        attach(&mut response, request.guard);
        return Ok(response);
    }
    service
        .finish(response, &request.context, request.guard)
        .await
}

/// The reply to `operation`. All but GET and PUT of a directory are boxed: a future is copied once where it is begun,
/// and would be longer with them.
async fn execute(
    request: &RequestContext,
    operation: Operation<'static>,
    body: &mut Received<'_>,
) -> Outcome {
    match operation {
        Operation::Put(_) if request.service.config.discard => {
            body.discard().await?;
            Ok(empty(StatusCode::OK).into())
        }
        Operation::Get {
            key,
            options,
            by_browser,
        } => {
            failpoint::reach("work", &request.path);
            if let Some(found) = get(request, &key, options.as_deref(), None).await? {
                return Ok(found.into());
            }
            if by_browser.is_none() && !request.service.config.follows_symlinks {
                return Err(NO_SUCH_KEY);
            }
            Box::pin(answer_in_place(
                request,
                &key,
                options.as_deref(),
                by_browser,
            ))
            .await
        }
        Operation::Put(asked) => {
            let has_date = asked.has_date();
            let published = put(request, asked, body).await?;
            Ok(stored(published, has_date))
        }
        Operation::Other(verb) => Box::pin(perform_verb(request, verb, body)).await,
        // The service itself subscribes, where the store has a feed.
        Operation::Watch(_) => Err(NO_WATCH.into()),
    }
}

/// The reply to a GET of `key`, which has no value: with the value that symbolic links lead to, or for a browser, at an
/// address of this depth, with the address of a folder.
async fn answer_in_place(
    request: &RequestContext,
    key: &Key<'_>,
    options: Option<&GetOptions>,
    by_browser: Option<usize>,
) -> Outcome {
    if let Some(found) = symlinks::value(request, key, options, None).await? {
        return Ok(found.into());
    }
    let depth = by_browser.ok_or(NO_SUCH_KEY)?;
    let query = options.and_then(|options| options.query.as_deref());
    let folder = linked_folder_of(request, key, depth, query).await?;
    folder.map(redirect).ok_or(NO_SUCH_KEY)
}

async fn perform_verb(
    request: &RequestContext,
    mut verb: Box<dyn Verb>,
    body: &mut Received<'_>,
) -> Outcome {
    if !body.has_ended && matches!(verb.body(), BodyUse::Ignored | BodyUse::Refused) {
        let has_body = body.ignore().await?;
        if has_body && verb.body() == BodyUse::Refused {
            return Err(WITH_BODY.because("a folder is made without a body: MKCOL takes none"));
        }
        // Its client may have lost the right to it meanwhile.
        request.permitted_now(|client| verb.permit(client))?;
    }
    verb.perform(request, body).await
}
