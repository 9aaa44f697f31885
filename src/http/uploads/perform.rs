//! Resumable uploads: a PUT that comes in several requests, and is published by the last as one that came in one.
//!
//! The received bytes of a truncated part are kept; a part with a wrong digest is removed. The preconditions and
//! digests of the first request are decided when the value is published. An upload serves one request at a time: a
//! later request ends the earlier one (draft-ietf-httpbis-resumable-upload, "Concurrency").

use async_trait::async_trait;
use hyper::StatusCode;

use crate::access::Right;
use crate::http::audit::AuditEvent;
use crate::http::auth::authorize::not_allowed;
use crate::http::auth::credentials::AuthMethod;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::head::path::path_of;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{TOO_LARGE, too_large};
use crate::http::refusal::kind::Kind;
use crate::http::request::{RequestContext, Service};
use crate::http::response::{Outcome, Reply, empty};
use crate::http::service_config::ServiceConfig;
use crate::http::uploads::request::{CreateUpload, UseUpload};
use crate::http::uploads::state::{UploadState, address};
use crate::http::uploads::{
    INCONSISTENT_LENGTH, NO_SUCH_UPLOAD, UploadPart, UploadRequest, describe, kept_headers,
    resumption_supported,
};
use crate::http::values::content_names::named_sha256;
use crate::http::values::put::{PutOptions, compare, count_upload, permit_now, put, verify};
use crate::http::values::representation::{describe_stored, stored};
use crate::http::verb::Verb;
use crate::store::{self, Digests, Error, Resumable, check};

const COMPLETE: &Kind = &Kind::new(StatusCode::CONFLICT, "upload-complete");
const TAKEN: &Kind = &Kind::new(StatusCode::CONFLICT, "upload-taken");
/// One of the two types of problems that the draft defines.
const MISMATCHING_OFFSET: &Kind = &Kind::new(
    StatusCode::CONFLICT,
    "https://iana.org/assignments/http-problem-types#mismatching-upload-offset",
);

#[async_trait(?Send)]
impl Verb for CreateUpload {
    fn changes(&self) -> bool {
        true
    }

    fn needs(&self) -> Vec<Need<'_>> {
        self.options.needs(self.key.as_str()).collect()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.options.permit(self.key.as_str(), client)?;
        match client.by {
            // A link is for one request.
            AuthMethod::Link { .. } => Err(not_allowed(Right::Write)),
            _ => Ok(()),
        }
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let existing = self.options.existing;
        let created = create_upload(request, *self, body).await;
        request.narrowed(existing, created)
    }
}

#[async_trait(?Send)]
impl Verb for UseUpload {
    fn changes(&self) -> bool {
        !matches!(self.1, UploadRequest::Offset)
    }

    fn of_each(&self) -> Option<&'static str> {
        Some("PUT")
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self(id, asked) = *self;
        // The client's right may have been revoked since, and another client may have the identifier. A client that is
        // refused claims nothing: the claim would end another request for the upload.
        let directory = request.service.store.resumable()?;
        if let Some(principal) = request.principal() {
            let key = directory.key_of_upload(id).ok_or(NO_SUCH_UPLOAD)?;
            principal.need(Right::Create, key.as_str())?;
        }
        let mut upload = (directory.resume(id).await?).ok_or(NO_SUCH_UPLOAD)?;
        match asked {
            UploadRequest::Offset => {
                upload.secure().await?;
                Ok(goes_on(request, &upload))
            }
            UploadRequest::Append(offset, part) => {
                let of_value = append(request, &mut upload, offset, &part, body).await?;
                if !part.is_last {
                    return Ok(goes_on(request, &upload));
                }
                publish(request, &mut upload, None, of_value).await
            }
            UploadRequest::Cancel => {
                let key = upload.key().clone();
                upload.remove().await?;
                let cancelled = Reply::from(empty(StatusCode::NO_CONTENT));
                Ok(cancelled.told(AuditEvent::Changed(Some(path_of(&key)))))
            }
        }
    }
}

/// Performs a PUT that creates an upload.
async fn create_upload(
    request: &RequestContext,
    asked: CreateUpload,
    body: &mut Received<'_>,
) -> Outcome {
    let CreateUpload {
        key,
        options,
        creation,
    } = asked;
    let Service { config, store, .. } = &*request.service;
    let part = creation.part;
    let can_tell = creation.wants_104 && body.can_send_interim() && config.store_resumes;
    let begun = if part.is_last && !can_tell {
        // The client never learns where it could resume.
        None
    } else {
        let directory = store.resumable()?;
        if let Some(preconditions) = &options.preconditions {
            check(directory, &key, preconditions).await?;
        }
        let (fields, uploader) = (creation.fields, request.uploader());
        let begun = directory.begin_resumable(key.clone(), part.length, fields, uploader);
        match begun.await {
            // All of the value is here: it needs no place among the unfinished ones.
            Err(Error::Exhausted { .. }) if part.is_last => None,
            begun => Some(begun?),
        }
    };
    let Some(mut upload) = begun else {
        // A PUT like any other.
        let state = UploadState {
            complete: true,
            ..UploadState::default()
        };
        let published = put(request, key, part.len, options, body).await?;
        return Ok(stored(published).with(|headers| describe(headers, &state, config)));
    };
    if can_tell {
        let address = address(upload.announce(), creation.depth);
        body.announce(resumption_supported(address, config)).await;
    }
    let of_value = append(request, &mut upload, 0, &part, body).await?;
    if part.is_last {
        return publish(request, &mut upload, Some(options), of_value).await;
    }
    let mut state = state(&upload);
    state.location = Some(address(upload.announce(), creation.depth));
    let created = Reply::from(empty(StatusCode::CREATED));
    Ok(created.with(|headers| describe(headers, &state, config)))
}

/// Appends `part`, if the upload is at its `offset`: the bytes that arrive, unless they do not have the digests that
/// come with them. Returns the digests of the whole value that come with the part.
async fn append(
    request: &RequestContext,
    upload: &mut Resumable,
    offset: u64,
    part: &UploadPart,
    body: &mut Received<'_>,
) -> Result<Digests, Refusal> {
    if upload.is_complete() {
        let mut state = state(upload);
        state.complete = false;
        let why = COMPLETE.because("the upload is complete: nothing can be appended");
        return Err(in_state(why, &state, &request.service.config));
    }
    let start = upload.offset();
    if offset != start {
        let mut why = MISMATCHING_OFFSET.because(format!(
            "the upload goes on at offset {start}, and this part begins at {offset}"
        ));
        why.more().members = [("expected-offset", start), ("provided-offset", offset)].into();
        return Err(refused(request, upload, why).await);
    }
    let Service { config, store, .. } = &*request.service;
    let limit = config.limits.max_body;
    match (part.length, upload.length()) {
        (Some(length), None) if length > limit => {
            return Err(refused(request, upload, too_large(limit)).await);
        }
        (Some(length), None) => upload.set_length(length).await?,
        (Some(length), Some(known)) if length != known => {
            return Err(refused(request, upload, INCONSISTENT_LENGTH).await);
        }
        _ => {}
    }
    let _in_flight = count_upload(request.counters());
    // The bytes that may still be received, and the refusal of more.
    let length = upload.length().filter(|&length| length <= limit);
    let room = length.unwrap_or(limit).saturating_sub(start);
    let too_long = || length.map_or_else(|| too_large(limit), |_| INCONSISTENT_LENGTH);
    if part.len.is_some_and(|len| len > room) {
        return Err(refused(request, upload, too_long()).await);
    }
    let received = append_body(upload, part.len, body, room, too_long).await;
    if let Err(why) = &received
        && [INCONSISTENT_LENGTH.kind, TOO_LARGE].contains(&why.kind)
    {
        // "Length": an upload that goes beyond its length can never be completed.
        upload.remove().await?;
    }
    received?;
    let compared = match part.digests(body.trailers.as_ref()) {
        Ok((expected, of_value)) if expected.wanted().is_none() => Ok(of_value),
        Ok((expected, of_value)) => {
            let wanted = expected.wanted();
            let digests = upload.digests(start, wanted, store.compute()).await?;
            verify(&expected, &digests).map(|()| of_value)
        }
        Err(why) => Err(why),
    };
    if let Err(why) = compared {
        upload.take_back(start).await?;
        return Err(refused(request, upload, why).await);
    }
    if !part.is_last {
        upload.secure().await?;
    }
    compared
}

/// Publishes `upload`, all of which has been received, with these `options`, or else the options of the request that
/// created it.
async fn publish(
    request: &RequestContext,
    upload: &mut Resumable,
    options: Option<Box<PutOptions>>,
    of_value: Digests,
) -> Outcome {
    let offset = upload.offset();
    match upload.length() {
        None => upload.set_length(offset).await?,
        Some(length) if length == offset => {}
        Some(_) => return Err(refused(request, upload, INCONSISTENT_LENGTH).await),
    }
    let stored = publish_file(request, upload, options, of_value).await;
    let is_transient = |why: &Refusal| why.cause().is_some_and(Error::is_transient);
    if stored.as_ref().is_err_and(is_transient) {
        // The upload stays: the client may try again.
        return stored;
    }
    let mut state = state(upload);
    state.complete = true;
    state.length = None;
    match stored {
        Ok(reply) => Ok(reply.with(|headers| describe(headers, &state, &request.service.config))),
        Err(why) => {
            upload.remove().await?;
            Err(in_state(why, &state, &request.service.config))
        }
    }
}

async fn publish_file(
    request: &RequestContext,
    upload: &Resumable,
    options: Option<Box<PutOptions>>,
    of_value: Digests,
) -> Outcome {
    let key = upload.key().clone();
    let (mut options, expected) = if let Some(options) = options {
        (*options, of_value)
    } else {
        let headers = kept_headers(&upload.fields().await?);
        let mut options = PutOptions::of(&headers, &request.service.config)?;
        permit_now(request, &key, &mut options)?;
        let expected = options.expected.and(of_value)?;
        (options, expected)
    };
    let named = named_sha256(&key, &request.service.config)?;
    let expected = expected.and(Digests::of_sha256(named))?;
    let store = &request.service.store;
    let mut value = store.publish_resumable(upload, options.head())?;
    compare(&mut value, &expected, expected.wanted()).await?;
    let published = value.publish(key.clone()).await.map_err(Refusal::from);
    let published = request.narrowed(options.existing, published)?;
    let reply = Reply::from(empty(StatusCode::OK)).told(AuditEvent::Changed(Some(path_of(&key))));
    Ok(reply.with(|headers| describe_stored(headers, published)))
}

/// Appends all of `body` to the file of `upload`, `len` bytes where that is known, and `room` at most. The bytes that
/// arrived stay there when it breaks off.
async fn append_body(
    upload: &mut Resumable,
    len: Option<u64>,
    body: &mut Received<'_>,
    room: u64,
    too_long: impl Fn() -> Refusal,
) -> Result<(), Refusal> {
    let mut appending = upload.append(len)?;
    if let Some(len) = len.filter(|&len| store::is_large(len)) {
        upload.may_append(len).await?;
    }
    let receiving = async {
        if let Some(source) = body.source() {
            // Its length was held to the room before.
            return Ok(appending.receive(source).await?);
        }
        let mut left = room;
        while let Some(data) = body.next().await? {
            let rest = left.checked_sub(data.len() as u64);
            left = rest.ok_or_else(&too_long)?;
            appending.push(data).await?;
        }
        Ok(())
    };
    let received: Result<(), Refusal> = tokio::select! {
        biased;
        () = upload.is_wanted() => Err(TAKEN.because("another request has taken the upload over")),
        received = receiving => received,
    };
    let paused = appending.write_out().await;
    drop(appending);
    upload.appended()?;
    received?;
    Ok(paused?)
}

/// The refusal `why` of a request for `upload`. It has the offset, which is on the disk where the durability promises
/// this.
async fn refused(request: &RequestContext, upload: &mut Resumable, why: Refusal) -> Refusal {
    match upload.secure().await {
        Ok(()) => in_state(why, &state(upload), &request.service.config),
        Err(error) => error.into(),
    }
}

/// The refusal `why` with the fields of an upload in this `state`.
fn in_state(mut why: Refusal, state: &UploadState, config: &ServiceConfig) -> Refusal {
    describe(&mut why.more().fields, state, config);
    why
}

/// The reply to a request for an `upload` that is not complete.
fn goes_on(request: &RequestContext, upload: &Resumable) -> Reply {
    let reply = Reply::from(empty(StatusCode::NO_CONTENT));
    reply.with(|headers| describe(headers, &state(upload), &request.service.config))
}

/// The state of `upload`, as responses report it.
fn state(upload: &Resumable) -> UploadState {
    UploadState {
        complete: upload.is_complete(),
        offset: Some(upload.offset()),
        length: upload.length(),
        location: None,
    }
}
