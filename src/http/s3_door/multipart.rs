//! Uploads in parts: begun, received in any order, and completed or given up.
//!
//! The parts lie on the disk as they come, and the upload ends with its value.

mod checksum;
pub mod complete;
pub mod list;

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue,
};

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::PRECONDITION;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{empty, with};
use crate::http::s3_door::copy::source;
use crate::http::s3_door::errors::{BAD_ARGUMENT, BAD_RANGE, NO_SUCH_UPLOAD};
use crate::http::s3_door::fields::{
    CHECKSUM_TYPE, add_checksums, described, is_own_field, stored_fields,
};
use crate::http::s3_door::multipart::checksum::{ALGORITHM, Sum};
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{
    Target, bucket_of, check_bucket, name_of, needs_bucket, not_found,
};
use crate::http::s3_door::xml::Document;
use crate::http::values::put::{PutRequest, count_upload, receive};
use crate::http::verb::Parsed;
use crate::store::{
    Found, Key, MOST_PARTS, Multipart, Preconditions, Purpose, ReceivedPart, Store, Upload,
    UploadHead, UploadId,
};

/// The fields of the first request that are kept for the value, beside those of this door alone.
const KEPT: [HeaderName; 7] = [
    ALGORITHM,
    CACHE_CONTROL,
    CHECKSUM_TYPE,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_TYPE,
];

/// Begins an upload.
pub fn begin(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let key = target.object()?;
    let mut put = PutRequest::of(key.clone(), asked.config)?;
    described(&mut put, asked)?;
    let headers = stored_fields(&asked.head.headers);
    Sum::of(&headers, &HeaderMap::new())?;
    let kept = |name: &HeaderName| {
        KEPT.contains(name)
            || is_own_field(name.as_str())
            || asked.config.kept_fields.names().any(|it| it == name)
    };
    let fields = headers.iter().filter(|(name, _)| kept(name));
    let fields = fields.map(|(name, value)| {
        let value = str::from_utf8(value.as_bytes()).map_err(|_| BAD_ARGUMENT)?;
        Ok((name.as_str().to_owned(), value.to_owned()))
    });
    let fields = fields.collect::<Result<_, Refusal>>()?;
    let needs: Vec<_> = put.needs().map(Need::into_owned).collect();
    operation(Takes::Nothing, needs, async move |request, _| {
        needs_bucket(request, &key).await?;
        request.begin_change(&[])?;
        let directory = request.service.store.resumable()?;
        let id = directory.begin_multipart(key.clone(), fields, request.uploader());
        let mut text = Document::new("InitiateMultipartUploadResult");
        name_object(&mut text, &key);
        text.show("UploadId", id.await?);
        Ok(text.answer().with(|answer| {
            for name in [ALGORITHM, CHECKSUM_TYPE] {
                answer.extend(headers.get(&name).map(|it| (name, it.clone())));
            }
        }))
    })
}

fn name_object(text: &mut Document, key: &Key<'_>) {
    let bucket = bucket_of(key);
    text.add("Bucket", bucket.as_str());
    text.add("Key", name_of(key.as_str(), &bucket));
}

/// An upload that a request names.
struct Named {
    id: Option<UploadId>,
    key: Key<'static>,
}

impl Named {
    fn of(asked: &RequestHead<'_>, target: Target) -> Result<Self, Refusal> {
        let id = asked.query.get("uploadId").and_then(UploadId::parse);
        let key = target.object()?;
        Ok(Self { id, key })
    }

    /// What is done with it needs what its value needs.
    fn need(&self) -> Need<'static> {
        Need::Store(self.key.to_string().into())
    }

    async fn find(&self, store: &Store) -> Result<Arc<Multipart>, Refusal> {
        check_bucket(store, &self.key).await?;
        let directory = store.resumable()?;
        let found = self.id.and_then(|id| directory.multipart(id));
        let found = found.filter(|it| it.key == self.key);
        let found = found.ok_or(NO_SUCH_UPLOAD)?;
        found.touch();
        Ok(found)
    }

    /// Receives by `receive` a part of `len` bytes, and keeps it as that of this number.
    async fn receive(
        &self,
        request: &RequestContext,
        number: u16,
        len: Option<u64>,
        receive: impl AsyncFnOnce(&mut Upload<'_>) -> Result<(), Refusal>,
    ) -> Result<ReceivedPart, Refusal> {
        let upload = self.find(&request.service.store).await?;
        request.begin_change(&[])?;
        let mut head = UploadHead {
            len,
            uploader: Some(request.uploader()),
            ..UploadHead::default()
        };
        let _in_flight = count_upload(request.counters());
        let (store, reactor) = (&request.service.store, request.service.reactor);
        let mut part = store.upload(reactor, &self.key, &mut head).await?;
        receive(&mut part).await?;
        let kept = part.keep_part(&upload, number).await?;
        let meta = kept.ok_or(NO_SUCH_UPLOAD)?;
        Ok(ReceivedPart { number, meta })
    }
}

/// PUT of a part, with a body or from another object.
pub fn part(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let named = Named::of(asked, target)?;
    let number = asked.query.get("partNumber").map(str::parse);
    let number = number.and_then(Result::ok);
    let number = number.filter(|it| (1..=MOST_PARTS).contains(it));
    let number = number.ok_or(BAD_ARGUMENT)?;
    if let Some((source, of_source)) = source(&asked.head.headers)? {
        let source = (source.object()?, of_source);
        let range = asked.head.headers.get("x-amz-copy-source-range");
        let range = range.map(|it| range_of(it).ok_or(BAD_ARGUMENT));
        return copy_part(named, number, source, range.transpose()?);
    }
    let payload = Payload::of(asked)?;
    // The digests are those of the part.
    let mut put = Box::new(PutRequest::of(named.key.clone(), asked.config)?);
    (put.following, put.expected) = (payload.announced(), payload.expected());
    put.checksums = Some(payload.checksums.clone());
    operation(Takes::Body, [named.need()], async move |request, body| {
        let (len, checksums) = (payload.len, payload.checksums.clone());
        let receive = async |part: &mut Upload<'_>| {
            payload.open(request, body)?;
            receive(part, &put, body).await
        };
        let part = named.receive(request, number, len, receive).await?;
        let response = with(empty(StatusCode::OK), |headers| {
            put_field(headers, ETAG, part.etag());
            add_checksums(headers, &[Some(&checksums), body.trailers.as_ref()]);
        });
        Ok(response.into())
    })
}

/// The bytes that a range names, the last one included.
fn range_of(value: &HeaderValue) -> Option<(u64, u64)> {
    let range = value.to_str().ok()?.strip_prefix("bytes=")?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// A part that is copied from an object.
fn copy_part(
    named: Named,
    number: u16,
    (from, of_source): (Key<'static>, Option<Preconditions>),
    range: Option<(u64, u64)>,
) -> Parsed {
    let of_from = Need::all(Right::Read, from.as_str()).into_owned();
    let needs = [of_from, named.need()];
    operation(Takes::Nothing, needs, async move |request, _| {
        named.find(&request.service.store).await?;
        let (store, reactor) = (&request.service.store, request.service.reactor);
        let found = store.get(reactor, &from, false, Purpose::Use).await?;
        let Some(Found::File(source)) = found else {
            return Err(not_found(request, &from).await);
        };
        let found = Found::File(Arc::clone(&source));
        if of_source.is_some_and(|it| !found.allows(&it)) {
            return Err(PRECONDITION);
        }
        let range = match range {
            None => 0..found.len(),
            Some((first, last)) if last < found.len() => first..last + 1,
            Some(_) => return Err(BAD_RANGE),
        };
        let len = Some(range.end - range.start);
        let copy =
            async |part: &mut Upload<'_>| Ok(part.copy_range(&source.shared(), range).await?);
        let part = named.receive(request, number, len, copy).await?;
        let mut text = Document::new("CopyPartResult");
        text.date("LastModified", part.meta.modified());
        text.add("ETag", &part.etag());
        Ok(text.answer())
    })
}

/// Gives an upload up.
pub fn abort(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let named = Named::of(asked, target)?;
    operation(Takes::Nothing, [named.need()], async move |request, _| {
        let directory = request.service.store.resumable()?;
        let upload = named.find(&request.service.store).await?;
        request.begin_change(&[])?;
        directory.remove_multipart(&upload).await?;
        request.changed(&named.key);
        Ok(empty(StatusCode::NO_CONTENT).into())
    })
}
