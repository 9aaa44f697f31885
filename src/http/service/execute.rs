//! The execution of operations: a future for each request, until its response is known.
//!
//! Promises that a panic costs only the request that it happened in, and that no response is begun whose first bytes
//! cannot be read.

use std::pin::pin;
use std::sync::Arc;

use hyper::StatusCode;

use crate::failpoint;
use crate::http::admin::Admin;
use crate::http::archives::pack::archive;
use crate::http::archives::unpack::unpack;
use crate::http::auth::credentials::Principal;
use crate::http::body::request::{Received, RequestBody};
use crate::http::exchange::record::catch_panic_in;
use crate::http::folders::{copy_folder, make_folder, move_folder, remove_folder};
use crate::http::forms::perform::store_form;
use crate::http::listing::perform::{folder_of, list, redirect, ui_page};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::refusal::kind::Kind;
use crate::http::request::{RequestContext, attach};
use crate::http::response::{Reply, empty};
use crate::http::service::answer::Answer;
use crate::http::service::operation::Operation;
use crate::http::service::respond::options;
use crate::http::share::sign::sign;
use crate::http::sites::perform::site;
use crate::http::uploads::perform::{create_upload, use_upload};
use crate::http::values::get::get;
use crate::http::values::moves::perform::relocate;
use crate::http::values::put::put;
use crate::http::values::representation::stored;
use crate::http::watch::feed::NO_WATCH;
use crate::store::{Error, Key, Purpose};

const WITH_BODY: &Kind = &Kind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "folder-with-body");

/// The response to a request, once it is performed.
pub async fn perform(
    request: RequestContext,
    operation: Operation<'static>,
    body: RequestBody,
    admin: Arc<Admin>,
) -> Answer {
    let (service, exchange) = (&*request.service, &*request.guard.exchange);
    let record = &exchange.record;
    let mut response = {
        let max_body = service.config.limits.max_body;
        let limit = match &operation {
            // Each value of a form or an archive is held to the limit, not their sum.
            Operation::Form(_) | Operation::Unpack(_) => u64::MAX,
            Operation::Put { options, .. } => options.most.unwrap_or(max_body).min(max_body),
            _ => max_body,
        };
        record.begin_store();
        if operation.changes() {
            record.begin_change();
        }
        let mut body = Received::new(body, limit, exchange);
        let performed = pin!(async {
            failpoint::reach("work", &request.path);
            execute(&request, operation, &mut body, &admin).await
        });
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

/// The reply to `operation`. All but GET, PUT and DELETE of a directory are boxed: a future is copied once where it
/// is begun, and would be longer with them.
async fn execute(
    request: &RequestContext,
    mut operation: Operation<'static>,
    body: &mut Received<'_>,
    admin: &Admin,
) -> Result<Reply, Refusal> {
    let service = &*request.service;
    if !body.has_ended && operation.takes_no_body() {
        Box::pin(pass_over(request, &mut operation, body)).await?;
    }
    match operation {
        Operation::Put { .. } if service.config.discard => {
            body.discard().await?;
            Ok(empty(StatusCode::OK).into())
        }
        Operation::Get {
            key,
            options,
            by_browser,
        } => {
            if let Some(found) = get(request, &key, options.as_deref(), None).await? {
                return Ok(found.into());
            }
            let Some(depth) = by_browser else {
                return Err(NO_SUCH_KEY);
            };
            let folder = Box::pin(folder_of(request, &key, depth, options.as_deref())).await?;
            folder.map(redirect).ok_or(NO_SUCH_KEY)
        }
        Operation::Put { key, len, options } => {
            let existing = options.existing;
            let put = put(request, key, len, options, body).await;
            request.narrowed(existing, put.map(stored))
        }
        Operation::CreateUpload {
            key,
            options,
            creation,
        } => {
            let existing = options.existing;
            let created = Box::pin(create_upload(request, key, *creation, options, body));
            request.narrowed(existing, created.await)
        }
        Operation::Upload(id, asked) => Box::pin(use_upload(request, id, asked, body)).await,
        Operation::Form(form) => Box::pin(store_form(request, *form, body)).await,
        Operation::Delete { key, preconditions } => {
            let name = key.clone();
            let deleted = service.store.delete(service.reactor, key, preconditions);
            if deleted.await? {
                return Ok(Reply::from(empty(StatusCode::OK)).changed());
            }
            Box::pin(without_value(request, name)).await
        }
        Operation::Move(asked) => {
            let name = asked.from.clone();
            match Box::pin(relocate(request, *asked, Purpose::Use)).await? {
                None => Box::pin(without_value(request, name)).await,
                Some(relocated) => Ok(relocated.into()),
            }
        }
        Operation::MoveFolder(asked) => Box::pin(move_folder(service, *asked)).await,
        Operation::CopyFolder(asked) => {
            request.guard.exchange.record.end_with_client();
            Box::pin(copy_folder(request, *asked)).await
        }
        Operation::MakeFolder(folder) => Box::pin(make_folder(service, folder)).await,
        Operation::RemoveFolder { folder, is_deep } => {
            request.guard.exchange.record.end_with_client();
            Box::pin(remove_folder(request, folder, is_deep)).await
        }
        Operation::List(target) => Box::pin(list(service, *target)).await,
        Operation::Site(asked) => Box::pin(site(request, *asked)).await,
        Operation::Archive(asked) => Box::pin(archive(request, *asked)).await,
        Operation::Unpack(asked) => Box::pin(unpack(request, *asked, body)).await,
        Operation::Share(asked) => sign(request.principal(), &asked),
        Operation::Ui(asked) => Box::pin(ui_page(request, *asked)).await,
        Operation::Redirect(to) | Operation::SignIn(to) => Ok(redirect(to)),
        Operation::Options(asked) => {
            let has_origin = request.context.origin.is_some();
            Ok(options(asked, has_origin, &service.config))
        }
        Operation::Page(page, format) => {
            let page = Box::pin(admin.answer(page, format)).await;
            Ok(page.into())
        }
        // The service itself subscribes, where the store has a feed.
        Operation::Watch(_) => Err(NO_WATCH.into()),
    }
}

/// Receives the body of an `operation` that has no use for it. Its client may have lost the right to it meanwhile.
async fn pass_over(
    request: &RequestContext,
    operation: &mut Operation<'static>,
    body: &mut Received<'_>,
) -> Result<(), Refusal> {
    let has_body = body.ignore().await?;
    if has_body && matches!(operation, Operation::MakeFolder(_)) {
        return Err(WITH_BODY.because("a folder is made without a body: MKCOL takes none"));
    }
    let permit = |client: &Principal| operation.permit(client);
    request.permitted_now(permit).map(drop)
}

/// What is answered to a DELETE, MOVE or COPY of `key`, which has no value. Clients of `WebDAV` leave out the `/` of a
/// folder and take 404 for gone already, so a folder that the client may see is named.
async fn without_value(request: &RequestContext, key: Key<'static>) -> Result<Reply, Refusal> {
    let service = &*request.service;
    if !service.config.compat
        && service.store.has_folder(&key).await?
        && folder_of(request, &key, 0, None).await?.is_some()
    {
        let why = "a folder, whose path ends with '/', has this name";
        return Err(Error::Occupied(why.to_owned()).into());
    }
    Err(NO_SUCH_KEY)
}
