//! Uploads in parts: a value that comes in several requests, and is published by the last as one that came in one. Each
//! door says in its own words what comes of them.
//!
//! The received bytes of a truncated part are kept; a part with a wrong digest is removed. The preconditions and
//! digests of the first request are decided when the value is published. An upload serves one request at a time: a
//! later request ends the earlier one (draft-ietf-httpbis-resumable-upload, "Concurrency").

use hyper::StatusCode;

use crate::access::Right;
use crate::http::audit::AuditEvent;
use crate::http::body::request::Received;
use crate::http::head::path::path_of;
use crate::http::locks::Scope;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{TOO_LARGE, too_large};
use crate::http::refusal::kind::Kind;
use crate::http::request::{RequestContext, Service};
use crate::http::uploads::{
    INCONSISTENT_LENGTH, NO_SUCH_UPLOAD, UploadPart, UploadState, kept_headers,
};
use crate::http::values::put::{PutRequest, compare, count_upload, verify};
use crate::store::{
    self, Digests, Error, Field, Key, NoPlace, Published, Resumable, UploadId, check,
};

const COMPLETE: &Kind = &Kind::new(StatusCode::CONFLICT, "upload-complete");
const TAKEN: &Kind = &Kind::new(StatusCode::CONFLICT, "upload-taken");
/// One of the two types of problems that the draft defines.
const MISMATCHING_OFFSET: &Kind = &Kind::new(
    StatusCode::CONFLICT,
    "https://iana.org/assignments/http-problem-types#mismatching-upload-offset",
);

impl UploadState {
    pub fn of(upload: &Resumable) -> Self {
        Self {
            complete: upload.is_complete(),
            offset: Some(upload.offset()),
            length: upload.length(),
        }
    }

    /// The state of an `upload` whose value is, or could not be, published.
    pub fn published(upload: &Resumable) -> Self {
        Self {
            complete: true,
            length: None,
            ..Self::of(upload)
        }
    }
}

/// The refusal of a request for an upload.
#[derive(Debug)]
pub struct RefusedUpload {
    pub why: Refusal,
    /// The state in which the upload stays, or was removed, where it is known.
    pub state: Option<UploadState>,
}

impl<E: Into<Refusal>> From<E> for RefusedUpload {
    fn from(why: E) -> Self {
        let (why, state) = (why.into(), None);
        Self { why, state }
    }
}

/// Begins an upload of a value, of this `length` where that is known. The `fields` of its request are kept until the
/// value is published. Where there is no place for it, a value that is all there is still put like any other.
pub async fn begin(
    request: &RequestContext,
    put: &PutRequest,
    length: Option<u64>,
    fields: Vec<Field>,
) -> Result<Result<Resumable, NoPlace>, Refusal> {
    let _changing = request.begin_change(&[Scope::one(put.key.as_str())])?;
    let directory = request.service.store.resumable()?;
    if let Some(preconditions) = &put.preconditions {
        let checked = check(directory, &put.key, preconditions).await;
        request.narrowed(put.existing, checked.map_err(Refusal::from))?;
    }
    let begun = directory.begin_resumable(put.key.clone(), length, fields, request.uploader());
    Ok(begun.await?)
}

/// The upload of this identifier, if the client may go on with it.
pub async fn resume(request: &RequestContext, id: UploadId) -> Result<Resumable, Refusal> {
    // The client's right may have been revoked since, and another client may have the identifier. A client that is
    // refused claims nothing: the claim would end another request for the upload.
    let directory = request.service.store.resumable()?;
    if let Some(principal) = request.principal() {
        let key = directory.key_of_upload(id).ok_or(NO_SUCH_UPLOAD)?;
        principal.need(Right::Create, key.as_str())?;
    }
    (directory.resume(id).await?).ok_or(NO_SUCH_UPLOAD)
}

/// Gives `upload` up, with all that was received of it.
pub async fn cancel(request: &RequestContext, upload: &mut Resumable) -> Result<(), Refusal> {
    request.begin_change(&[])?;
    upload.remove().await?;
    changed(request, upload);
    Ok(())
}

/// The audit log has that the `upload` was published or removed.
fn changed(request: &RequestContext, upload: &Resumable) {
    let event = AuditEvent::Changed(Some(path_of(upload.key())));
    request.guard.exchange.record.audit(event);
}

/// Refuses to go on with an `upload` whose value is published.
fn check_incomplete(upload: &Resumable) -> Result<(), RefusedUpload> {
    if !upload.is_complete() {
        return Ok(());
    }
    let why = COMPLETE.because("the upload is complete: nothing can be appended");
    let state = Some(UploadState {
        complete: false,
        ..UploadState::of(upload)
    });
    Err(RefusedUpload { why, state })
}

/// Appends `part`, if the upload is at its `offset`: the bytes that arrive, unless they do not have the digests that
/// come with them. Returns the digests of the whole value that come with the part.
pub async fn append(
    request: &RequestContext,
    upload: &mut Resumable,
    offset: u64,
    part: &UploadPart,
    body: &mut Received<'_>,
) -> Result<Digests, RefusedUpload> {
    request.begin_change(&[])?;
    check_incomplete(upload)?;
    let start = upload.offset();
    if offset != start {
        let mut why = MISMATCHING_OFFSET.because(format!(
            "the upload goes on at offset {start}, and this part begins at {offset}"
        ));
        why.more().members = [("expected-offset", start), ("provided-offset", offset)].into();
        return Err(refused(upload, why).await);
    }
    let Service { config, store, .. } = &*request.service;
    let limit = config.limits.max_body;
    match (part.length, upload.length()) {
        (Some(length), None) if length > limit => {
            return Err(refused(upload, too_large(limit)).await);
        }
        (Some(length), None) => upload.set_length(length).await?,
        (Some(length), Some(known)) if length != known => {
            return Err(refused(upload, INCONSISTENT_LENGTH).await);
        }
        _ => {}
    }
    let _in_flight = count_upload(request.counters());
    // The bytes that may still be received, and the refusal of more.
    let length = upload.length().filter(|&length| length <= limit);
    let room = length.unwrap_or(limit).saturating_sub(start);
    let too_long = || length.map_or_else(|| too_large(limit), |_| INCONSISTENT_LENGTH);
    if part.len.is_some_and(|len| len > room) {
        return Err(refused(upload, too_long()).await);
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
        return Err(refused(upload, why).await);
    }
    if !part.is_last {
        upload.secure().await?;
    }
    Ok(compared?)
}

/// Publishes `upload`, all of which has been received, as this `put` asks, or else as the request that created it.
pub async fn publish(
    request: &RequestContext,
    upload: &mut Resumable,
    put: Option<Box<PutRequest>>,
    of_value: Digests,
) -> Result<Published, RefusedUpload> {
    let name = upload.key().clone();
    let _changing = request.begin_change(&[Scope::one(name.as_str())])?;
    check_incomplete(upload)?;
    let offset = upload.offset();
    match upload.length() {
        None => upload.set_length(offset).await?,
        Some(length) if length == offset => {}
        Some(_) => return Err(refused(upload, INCONSISTENT_LENGTH).await),
    }
    let published = publish_file(request, upload, put, of_value).await;
    let is_transient = |why: &Refusal| why.cause().is_some_and(Error::is_transient);
    match published {
        // The upload stays: the client may try again.
        Err(why) if !is_transient(&why) => {
            let state = Some(UploadState::published(upload));
            upload.remove().await?;
            Err(RefusedUpload { why, state })
        }
        published => {
            let published = published?;
            changed(request, upload);
            Ok(published)
        }
    }
}

async fn publish_file(
    request: &RequestContext,
    upload: &Resumable,
    put: Option<Box<PutRequest>>,
    of_value: Digests,
) -> Result<Published, Refusal> {
    let Service { config, store, .. } = &*request.service;
    // An earlier start may have hidden other names.
    Key::new(upload.key().as_str())?;
    let mut by_key = PutRequest::of(upload.key().clone(), config)?;
    let (mut put, expected) = if let Some(put) = put {
        (*put, by_key.expected)
    } else {
        let headers = kept_headers(&upload.fields().await?);
        by_key.read(&headers, config)?;
        by_key.expect(Digests::of(&headers)?)?;
        request.permitted_now(|client| by_key.permit(client))?;
        let expected = by_key.expected;
        (by_key, expected)
    };
    let expected = expected.and(of_value)?;
    let mut value = store.publish_resumable(upload, put.head())?;
    compare(&mut value, &expected, expected.wanted()).await?;
    let published = value.publish(put.key).await.map_err(Refusal::from);
    request.narrowed(put.existing, published)
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
async fn refused(upload: &mut Resumable, why: Refusal) -> RefusedUpload {
    match upload.secure().await {
        Ok(()) => RefusedUpload {
            why,
            state: Some(UploadState::of(upload)),
        },
        Err(error) => error.into(),
    }
}
