//! Resumable uploads: a PUT that comes in several requests, and is published by the last as one that came in one.
//!
//! Promises that what has been received of a part is kept when the part breaks off, and that the preconditions and digests
//! given with the first request are decided when the value is published. One request at a time has an upload: a later one
//! ends it (draft-ietf-httpbis-resumable-upload, "Concurrency").

use hyper::header::HeaderMap;

use crate::access::Right;
use crate::http::exchange::proven::Proof;
use crate::http::request::body::Received;
use crate::http::request::operation::PutOptions;
use crate::http::request::rejection::Rejection;
use crate::http::request::uploads::{Part, UploadAddress, UploadRequest};
use crate::http::response::interim::{in_http1, in_http2, resumption_supported};
use crate::http::response::outcome::{Outcome, Published, UploadState};
use crate::http::semantics::conditional::Preconditions;
use crate::http::semantics::digest_fields::Expected;
use crate::http::service::asker::Asker;
use crate::http::service::claimed::Claimed;
use crate::http::service::handler::Handler;
use crate::http::service::part::state;
use crate::http::service::put::{describe, verify, wanted_by};
use crate::http::service::remote::publish_under;
use crate::http::service::value_upload::condition;
use crate::metrics::ReactorCounters;
use crate::store::s3::{Exact, Gateway, RemoteResumable};
use crate::store::{self, BlockingPool, Directory, Error, Key, Resumable, UploadId};

impl Handler {
    /// Performs a PUT that creates an upload.
    pub(super) async fn create_upload(
        &self,
        key: Key<'static>,
        mut options: Box<PutOptions>,
        body: &mut Received<'_>,
        counters: &ReactorCounters,
        asker: Asker<'_>,
    ) -> Result<Outcome, Outcome> {
        let proof = asker.proof;
        let Some(creation) = options.creation.take() else {
            return self.put(key, None, options, body, counters, asker).await;
        };
        let part = creation.part;
        let can_tell = creation.takes_interim && body.has_interim() && self.resumes().is_ok();
        if part.is_last && !can_tell {
            // The client never learns where it could resume: this is a PUT like any other.
            let stored = self
                .put(key, part.len, options, body, counters, asker)
                .await;
            return of_value(stored);
        }
        let begun = self
            .begin_resumable(key.clone(), part.length, creation.fields, &options, asker)
            .await;
        let mut upload = match begun {
            // All of the value is here: it needs no place among the unfinished ones.
            Err(Outcome::Failed(Error::Exhausted { .. })) if part.is_last => {
                let stored = self
                    .put(key, part.len, options, body, counters, asker)
                    .await;
                return of_value(stored);
            }
            begun => begun?,
        };
        let announce = |upload: &mut Claimed<'_>| UploadAddress {
            id: upload.announce(),
            depth: creation.depth,
        };
        if can_tell {
            let fields = resumption_supported(announce(&mut upload), &self.config);
            let bytes = in_http1(&fields);
            body.announce(in_http2(fields), bytes);
        }
        self.receive_part(&mut upload, &part, body, counters)
            .await?;
        if part.is_last {
            return self.publish(&mut upload, part.of_value, proof).await;
        }
        let state = UploadState {
            location: Some(announce(&mut upload)),
            ..state(&upload)
        };
        Ok(Outcome::Upload(Box::new(Outcome::UploadCreated), state))
    }

    /// Performs what is asked of the upload resource of `id`.
    pub(super) async fn upload(
        &self,
        id: UploadId,
        request: UploadRequest,
        body: &mut Received<'_>,
        counters: &ReactorCounters,
        proof: Option<&Proof>,
    ) -> Result<Outcome, Outcome> {
        // Rights may have been revoked since it began, and its identifier may have reached another client. One that is refused
        // touches nothing: the claim would end what another request does with the upload.
        if proof.is_some() {
            let key = self.key_of_upload(id).await?;
            let key = key.ok_or(Rejection::NoSuchUpload)?;
            self.guard.allow(proof, Right::Create, key.as_str())?;
        }
        let claimed = self.resume(id).await?;
        let mut upload = claimed.ok_or(Rejection::NoSuchUpload)?;
        match request {
            UploadRequest::Offset => {
                upload.secure().await?;
                Ok(Outcome::Upload(Box::new(Outcome::Nothing), state(&upload)))
            }
            UploadRequest::Append(offset, part) => {
                self.append(&mut upload, offset, *part, body, counters, proof)
                    .await
            }
            UploadRequest::Cancel => {
                let key = upload.key()?;
                upload.remove().await?;
                Ok(Outcome::Cancelled(key))
            }
        }
    }

    async fn append(
        &self,
        upload: &mut Claimed<'_>,
        offset: u64,
        part: Part,
        body: &mut Received<'_>,
        counters: &ReactorCounters,
        proof: Option<&Proof>,
    ) -> Result<Outcome, Outcome> {
        let of_upload = |why: Rejection, state| Outcome::Upload(Box::new(why.into()), state);
        if upload.is_complete() {
            let state = UploadState {
                complete: false,
                ..state(upload)
            };
            return Err(of_upload(Rejection::UploadComplete, state));
        }
        if offset != upload.offset() {
            upload.secure().await?;
            let why = Rejection::MismatchingOffset {
                expected: upload.offset(),
                provided: offset,
            };
            return Err(of_upload(why, state(upload)));
        }
        if let Some(length) = part.length {
            let limit = self.config.limits.max_body;
            match upload.length() {
                None if length > limit => {
                    let why = Rejection::TooLarge { limit };
                    return Err(of_upload(why, state(upload)));
                }
                None => upload.set_length(length).await?,
                Some(known) if known == length => {}
                Some(_) => return Err(of_upload(Rejection::InconsistentLength, state(upload))),
            }
        }
        self.receive_part(upload, &part, body, counters).await?;
        if part.is_last {
            return self.publish(upload, part.of_value, proof).await;
        }
        Ok(Outcome::Upload(Box::new(Outcome::Nothing), state(upload)))
    }

    /// Publishes `upload`, all of which has been received.
    async fn publish(
        &self,
        upload: &mut Claimed<'_>,
        of_value: Expected,
        proof: Option<&Proof>,
    ) -> Result<Outcome, Outcome> {
        let offset = upload.offset();
        match upload.length() {
            None => upload.set_length(offset).await?,
            Some(length) if length == offset => {}
            Some(_) => {
                let why = Rejection::InconsistentLength;
                return Err(Outcome::Upload(Box::new(why.into()), state(upload)));
            }
        }
        let headers = upload.headers().await?;
        let stored = self.publish_with(upload, &headers, of_value, proof).await;
        if let Err(why) = &stored
            && let Outcome::Failed(error) = why
            && may_be_mended(error)
        {
            // The upload stays: the client may ask again.
            upload.rescue(why).await;
            return stored;
        }
        let state = UploadState {
            complete: true,
            length: None,
            ..state(upload)
        };
        if stored.is_err() {
            upload.remove().await?;
        }
        let of_upload = |outcome| Outcome::Upload(Box::new(outcome), state);
        stored.map(of_upload).map_err(of_upload)
    }

    async fn publish_with(
        &self,
        upload: &mut Claimed<'_>,
        headers: &HeaderMap,
        of_value: Expected,
        proof: Option<&Proof>,
    ) -> Result<Outcome, Outcome> {
        let mut options = PutOptions::of(headers, &self.config)?;
        let key = upload.key()?;
        self.permit_put(proof, &key, &mut options)?;
        let is_only_new = options.is_only_new;
        let expected = options.expected.and(of_value).map_err(Rejection::from)?;
        let published = match upload {
            Claimed::Directory(directory, upload) => {
                let compute = self.store.compute();
                publish_file(directory, upload, options, &expected, compute).await
            }
            Claimed::Remote(gateway, upload) => {
                let preconditions = options.preconditions.as_ref();
                publish_remote(*gateway, upload, preconditions, &expected).await
            }
        };
        let stored = published.map(|published| Outcome::Completed(key, published));
        if is_only_new {
            return self.without_replacing(stored, proof);
        }
        stored
    }
}

async fn publish_file(
    directory: &Directory,
    upload: &Resumable,
    options: PutOptions,
    expected: &Expected,
    compute: &BlockingPool,
) -> Result<Published, Outcome> {
    let mut value = upload.append(None)?;
    describe(&mut value, &options);
    let wanted = wanted_by(expected);
    if !wanted.is_none() {
        let digests = value.digests(wanted, compute).await?;
        verify(expected, &digests)?;
    }
    let condition = options.preconditions.map(condition);
    let key = upload.key().clone();
    Ok(Published::Version(
        directory.put(key, value, condition).await?,
    ))
}

async fn publish_remote(
    gateway: Gateway<'_>,
    upload: &mut RemoteResumable,
    preconditions: Option<&Preconditions>,
    expected: &Expected,
) -> Result<Published, Outcome> {
    if !wanted_by(expected).is_none() {
        verify(expected, &upload.digests().await?)?;
    }
    let key = upload.key()?;
    let publish = async |condition: &Exact| upload.publish(condition).await;
    let published = publish_under(gateway, &key, preconditions, publish).await;
    let is_refused = matches!(
        published,
        Err(Outcome::Refused(Rejection::Precondition) | Outcome::Failed(Error::Precondition))
    );
    // Perhaps it holds no longer because an earlier request has published the same, and its answer was lost.
    if is_refused && let Some(made) = upload.made().await {
        return Ok(Published::Tag(made.etag));
    }
    published
}

/// The answer to a PUT that could have become an upload and did not.
fn of_value(stored: Result<Outcome, Outcome>) -> Result<Outcome, Outcome> {
    let state = UploadState {
        location: None,
        complete: true,
        offset: None,
        length: None,
    };
    stored.map(|outcome| Outcome::Upload(Box::new(outcome), state))
}

/// Whether the same upload may be published later.
fn may_be_mended(error: &Error) -> bool {
    use store::Error as E;
    match error {
        E::NoSpace { .. }
        | E::ReadOnly
        | E::Exhausted { .. }
        | E::Displaced { .. }
        | E::Forbidden { .. }
        | E::Unreachable { .. }
        | E::Busy { .. }
        | E::Taken
        | E::TimedOut
        | E::OutcomeUnknown { .. }
        | E::Refused { .. }
        | E::BadGateway { .. }
        | E::Failed { .. } => true,
        E::TooLarge
        | E::Occupied(_)
        | E::Precondition
        | E::Incomplete
        | E::Truncated
        | E::NotSupported { .. }
        | E::BadKey(_)
        // Its bytes, or its name, may not be on the disk, and a later sync would not tell.
        | E::Unsynced(_) => false,
    }
}
