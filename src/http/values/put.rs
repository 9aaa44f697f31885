//! PUT: from a body as it arrives to a value that is published.
//!
//! The body of a refused upload is not read. A body that breaks off, or does not have the digests sent with it, is
//! never stored.

use std::time::SystemTime;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use futures_util::future::{FutureExt as _, LocalBoxFuture, TryFutureExt as _};
use hyper::StatusCode;
use hyper::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use scopeguard::guard;

use crate::access::{Existing, Right};
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::fields::media;
use crate::http::fields::{AWS_CHUNKED, StoredFields};
use crate::http::head::path::check_depth;
use crate::http::head::syntax::append_field;
use crate::http::locks::Scope;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_PATH, too_large};
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::request::head::RequestHead;
use crate::http::request::{RequestContext, Service};
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::content_names::named_sha256;
use crate::http::values::digest_fields::{AMZ_CONTENT_SHA256, are_announced, checksums};
use crate::metrics::ReactorCounters;
use crate::store::{
    Attributes, Digests, Key, Preconditions, Published, Upload, UploadHead, Wanted, WriteCondition,
};

/// With `--compat` alone.
const NOTHING_TO_STORE: &Kind = &Kind::new(StatusCode::NOT_MODIFIED, "").flags(&[Flag::Empty]);

const NO_KEY: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "no-key")
        .compat(&Kind::new(StatusCode::NO_CONTENT, "").flags(&[Flag::Empty])),
    "PUT needs a key, as in PUT /key",
);

/// The PUT of a value, all of which is the body if that `is_whole`.
pub fn put_of(asked: &RequestHead<'_>, is_whole: bool) -> Result<Box<PutRequest>, Refusal> {
    let no_key = |why| if why == NO_SUCH_PATH { NO_KEY } else { why };
    let key = asked.changed_key().map_err(no_key)?;
    put_at(asked, key.into_owned(), is_whole)
}

/// The same of a value that gets this key.
pub fn put_at(
    asked: &RequestHead<'_>,
    key: Key<'static>,
    is_whole: bool,
) -> Result<Box<PutRequest>, Refusal> {
    let RequestHead {
        len, config, head, ..
    } = *asked;
    config.may_change()?;
    let mut put = Box::new(PutRequest::of(key, config)?);
    put.len = len;
    if config.compat && len.is_none_or(|len| len == 0) {
        return Err(
            NOTHING_TO_STORE.because("nothing was stored: PUT needs a Content-Length above 0")
        );
    }
    asked.needs_length()?;
    let limit = config.limits.max_body;
    if len.is_some_and(|len| len > limit) {
        return Err(too_large(limit));
    }
    if asked.common.has_stored_fields {
        asked.refuses_if()?;
        put.read(&head.headers, config)?;
        if is_whole {
            put.expect(Digests::of(&head.headers)?)?;
        }
    }
    Ok(put)
}

/// A value that is to be stored.
#[derive(Debug)]
pub struct PutRequest {
    pub key: Key<'static>,
    /// Its length in bytes, where that is known.
    pub len: Option<u64>,
    pub preconditions: Option<Preconditions>,
    pub media_type: Option<Box<str>>,
    fields: StoredFields,
    pub expected: Digests,
    /// The digests that may follow as trailers.
    pub following: Wanted,
    /// The checksums in its head that are kept with it, and those in its trailers, once they are verified; `None` where
    /// none are.
    pub checksums: Option<HeaderMap>,
    /// The most bytes that this client may store, where that is less than the limit of all.
    pub most: Option<u64>,
    /// The value is stored only where there is none, for the client may create and not replace; this is the answer
    /// otherwise.
    pub existing: Option<Existing>,
}

const PARTIAL_PUT: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "partial-put");
const MISMATCH: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "digest-mismatch");

impl PutRequest {
    /// A value of this `key`, if there can be one: each value that is stored begins here.
    pub fn of(key: Key<'static>, config: &ServiceConfig) -> Result<Self, Refusal> {
        check_depth(&key, config.limits.max_key_depth)?;
        Ok(Self {
            expected: Digests::of_sha256(named_sha256(&key, config)?),
            key,
            len: None,
            preconditions: None,
            media_type: None,
            fields: StoredFields::default(),
            following: Wanted::default(),
            checksums: None,
            most: None,
            existing: None,
        })
    }

    /// Takes what the `headers` say of the value, but for its digests.
    pub fn read(&mut self, headers: &HeaderMap, config: &ServiceConfig) -> Result<(), Refusal> {
        // RFC 9110, section 14.4: a part must not be stored as if it were the whole.
        if headers.contains_key(CONTENT_RANGE) {
            return Err(PARTIAL_PUT
                .because("a part of a value cannot be stored: PUT takes no Content-Range"));
        }
        // Some clients of S3 send aws-chunked and leave out the Content-Encoding that says so.
        let sha256 = headers.get(AMZ_CONTENT_SHA256);
        if sha256.is_some_and(|word| word.as_bytes().starts_with(b"STREAMING-")) {
            return Err(AWS_CHUNKED);
        }
        self.preconditions = preconditions_of_write(headers);
        let media_type = headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|v| media::kept(v.as_bytes()));
        self.media_type = media_type.map(Into::into);
        // The C server knew none of these fields.
        if !config.compat {
            self.fields = StoredFields::of(headers, &config.kept_fields)?;
        }
        if are_announced(headers) {
            // By algorithms not known before.
            self.following = Wanted::ALL;
        }
        Ok(())
    }

    /// Keeps these fields too, which one door alone sends again.
    pub fn keep(
        &mut self,
        fields: impl Iterator<Item = (HeaderName, HeaderValue)>,
    ) -> Result<(), Refusal> {
        self.fields.keep(fields)
    }

    /// True where the value has a date of its own.
    pub fn has_date(&self) -> bool {
        self.fields.has_date()
    }

    /// Gives the value this date.
    pub fn set_date(&mut self, date: SystemTime) {
        self.fields.set_date(date);
    }

    /// Takes digests that the value must have.
    pub fn expect(&mut self, digests: Digests) -> Result<(), Refusal> {
        self.expected = match self.expected.sha256 {
            Some(_) => self.expected.and(digests)?,
            None => digests,
        };
        Ok(())
    }

    /// What it needs.
    pub fn needs(&self) -> impl Iterator<Item = Need<'_>> {
        let key = self.key.as_str();
        let needs = match self.preconditions.as_ref().map(Preconditions::exact) {
            None => [Some(Need::Store(key.into())), None, None],
            Some(Some(WriteCondition::Create)) => [Some(Need::all(Right::Create, key)), None, None],
            // A condition reveals the state of the value.
            Some(_) => {
                [Right::Create, Right::Write, Right::Read].map(|right| Some(Need::all(right, key)))
            }
        };
        needs.into_iter().flatten()
    }

    /// Narrows it to what the `client` may store.
    pub fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())?;
        let key = self.key.as_str();
        if self.preconditions.is_none() && !client.allows(Right::Write, key) {
            self.preconditions = Some(Preconditions::NEW);
            self.existing = Some(client.subject.grant.existing(key));
        }
        Ok(())
    }

    /// Limits an upload by a signed link to the length of the link.
    pub fn limit(&mut self, client: &Principal) -> Result<(), Refusal> {
        let AuthMethod::Link { max } = client.by else {
            return Ok(());
        };
        self.most = max;
        match (max, self.len) {
            (Some(limit), Some(len)) if len > limit => Err(too_large(limit)),
            _ => Ok(()),
        }
    }

    /// Takes what is kept with the value.
    pub fn attributes(&mut self) -> Attributes {
        Attributes {
            media_type: self.media_type.take(),
            fields: self.fields.encode(),
        }
    }

    /// Takes what is kept with the value, and the preconditions under which it is published.
    pub fn head(&mut self) -> UploadHead {
        UploadHead {
            len: self.len,
            sha256: self.expected.sha256,
            attributes: self.attributes(),
            preconditions: self.preconditions.take(),
            ..UploadHead::default()
        }
    }
}

/// Stores the `body` as the value.
pub async fn put(
    request: &RequestContext,
    mut put: Box<PutRequest>,
    body: &mut Received<'_>,
) -> Result<Published, Refusal> {
    let changing = request.begin_change(&[Scope::one(put.key.as_str())])?;
    let Service { store, reactor, .. } = &*request.service;
    let name = (request.service.config.logs.audit).then(|| put.key.clone());
    let existing = put.existing;
    let storing = async {
        let quota = store.quota().filter(|quota| quota.is_by_client());
        let mut head = UploadHead {
            uploader: quota.map(|_| request.uploader()),
            ..put.head()
        };
        let mut upload = store.upload(*reactor, &put.key, &mut head).await?;
        let _in_flight = count_upload(request.counters());
        receive(&mut upload, &put, body).await?;
        Ok(upload.publish(put.key).await?)
    };
    let published = request.narrowed(existing, storing.await)?;
    drop(changing);
    if let Some(name) = &name {
        request.changed(name);
    }
    Ok(published)
}

/// Receives a part of a request as a value: `data` gives its bytes. It is permitted, and refused, as a PUT would be
/// now. Returns the publishing of the value, which begins when it is polled; `None` where values are dropped.
pub async fn receive_part(
    request: &RequestContext,
    mut put: PutRequest,
    mut data: impl AsyncFnMut() -> Result<Option<Bytes>, Refusal>,
) -> Result<Option<LocalBoxFuture<'_, Result<Published, Refusal>>>, Refusal> {
    let Service {
        store,
        reactor,
        config,
        ..
    } = &*request.service;
    let changing = request.begin_change(&[Scope::one(put.key.as_str())])?;
    request.permitted_now(|client| put.permit(client))?;
    let existing = put.existing;
    let _in_flight = count_upload(request.counters());
    let quota = store.quota().filter(|quota| quota.is_by_client());
    let (expected, wanted) = (put.expected, put.expected.wanted());
    let mut head = UploadHead {
        uploader: quota.map(|_| request.uploader()),
        ..put.head()
    };
    let (mut count, limit) = (0, config.limits.max_body);
    let received = async {
        let mut upload = None;
        if !config.discard {
            upload = Some(store.upload(*reactor, &put.key, &mut head).await?);
        }
        if let Some(upload) = upload.as_mut().filter(|_| !wanted.is_none()) {
            upload.hash(wanted);
        }
        while let Some(data) = data().await? {
            count += data.len() as u64;
            if count > limit {
                return Err(too_large(limit));
            }
            if let Some(upload) = &mut upload {
                upload.push(data).await?;
            }
        }
        if let Some(upload) = &mut upload {
            compare(upload, &expected, wanted).await?;
        }
        Ok(upload)
    };
    let received = received.await;
    let upload = request.narrowed(existing, received)?;
    let publishing = upload.map(|upload| upload.publish(put.key));
    Ok(publishing.map(|publishing| {
        let published = publishing
            .err_into()
            .map(move |it| request.narrowed(existing, it).inspect(|_| drop(changing)));
        published.boxed_local()
    }))
}

/// Counts an upload under way, until the result is dropped.
pub fn count_upload(counters: &ReactorCounters) -> impl Drop + '_ {
    counters.uploads_started.add(1);
    guard((), |()| counters.uploads_finished.add(1))
}

/// Receives all of `body` into `upload`, and compares the digests that come with it.
pub async fn receive(
    upload: &mut Upload<'_>,
    put: &PutRequest,
    body: &mut Received<'_>,
) -> Result<(), Refusal> {
    let wanted = put.expected.wanted().union(put.following);
    if !wanted.is_none() {
        upload.hash(wanted);
    }
    match body.source().filter(|_| wanted.is_none()) {
        Some(source) => upload.take(source).await?,
        None => {
            while let Some(data) = body.next().await? {
                upload.push(data).await?;
            }
        }
    }
    let mut expected = put.expected;
    if let Some(trailers) = &body.trailers {
        let trailers = Digests::of(trailers)?;
        expected = expected.and(trailers)?;
    }
    // A trailer that was not announced asks for digests only now.
    compare(upload, &expected, wanted.union(expected.wanted())).await?;
    if let Some(in_head) = &put.checksums {
        let all = [Some(in_head), body.trailers.as_ref()];
        let mut lines = Vec::new();
        for (name, value) in all.into_iter().flatten().flat_map(checksums) {
            append_field(&mut lines, name.as_str(), value, "\n");
        }
        upload.keep_of_version(&lines);
    }
    Ok(())
}

/// Refuses a received value without the `expected` digests; those that are `wanted` are computed.
pub async fn compare(
    upload: &mut Upload<'_>,
    expected: &Digests,
    wanted: Wanted,
) -> Result<(), Refusal> {
    if !wanted.is_none() {
        let digests = upload.digests(wanted).await?;
        verify(expected, &digests)?;
    }
    Ok(())
}

/// Refuses a value whose `digests` are not the `expected` ones.
pub fn verify(expected: &Digests, digests: &Digests) -> Result<(), Refusal> {
    if let (Some(expected), Some(found)) = (expected.sha256, digests.sha256)
        && expected != found
    {
        let both = [found, expected].map(|digest| HEXLOWER.encode(&digest));
        return Err(MISMATCH.because(format!(
            "the value does not have the digest that was sent with it: its SHA-256 is {}, not {}",
            both[0], both[1]
        )));
    }
    let is_same = (expected.sha256.is_none() || expected.sha256 == digests.sha256)
        && (expected.sha512.is_none() || expected.sha512 == digests.sha512)
        && (expected.md5.is_none() || expected.md5 == digests.md5)
        && (expected.checksum.is_none() || expected.checksum == digests.checksum);
    let mismatch = || MISMATCH.because("the value does not have the digest that was sent with it");
    is_same.then_some(()).ok_or_else(mismatch)
}
