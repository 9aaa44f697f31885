//! Uploads in parts: begun, received in any order, completed or given up, and listed.
//!
//! The parts lie on the disk as they come. Completing makes one file of them, by a reflink where the file system has
//! one, else by copies of the kernel, which take about as long as writing the value, and the publisher decides the
//! conditions. The upload ends with its value.

use std::sync::Arc;

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue,
};
use serde::Deserialize;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::head::path::path_of;
use crate::http::head::syntax::put as put_field;
use crate::http::locks::Scope;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{PRECONDITION, too_large};
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, empty, with};
use crate::http::s3_door::buckets::document;
use crate::http::s3_door::copy::source;
use crate::http::s3_door::errors::{
    BAD_ARGUMENT, BAD_RANGE, INVALID_ORDER, INVALID_PART, NO_BUCKET, NO_SUCH_UPLOAD, OTHER_SIZE,
};
use crate::http::s3_door::listing::{MOST, common_prefix, encodes, shown};
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::stores::{described, unless_gone};
use crate::http::s3_door::target::{
    Target, bucket_of, conditions, is_own_field, name_of, needs_bucket, not_found, number,
    own_fields, stored_fields,
};
use crate::http::s3_door::xml::{self, BAD_XML, Document};
use crate::http::service_config::ServiceConfig;
use crate::http::values::put::{PutRequest, compare, count_upload, receive};
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{
    Digests, Directory, Field, Found, Key, MOST_PARTS, Multipart, Preconditions, Purpose,
    ReceivedPart, UploadHead, UploadId,
};

/// The fields of the first request that are kept for the value, beside those of this door alone.
const KEPT: [HeaderName; 5] = [
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_TYPE,
];

fn object(target: Target) -> Result<Key<'static>, Refusal> {
    match target {
        Target::Object(key) => Ok(key),
        _ => Err(BAD_ARGUMENT),
    }
}

/// Begins an upload.
pub fn begin(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let mut put = Box::new(PutRequest::of(object(target)?, asked.config)?);
    described(&mut put, asked)?;
    let headers = stored_fields(&asked.head.headers);
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
    parsed(Begin {
        fields: fields.collect::<Result<_, Refusal>>()?,
        put,
    })
}

struct Begin {
    put: Box<PutRequest>,
    fields: Vec<Field>,
}

#[async_trait(?Send)]
impl Verb for Begin {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        self.put.needs().collect()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.put.permit(client)
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let key = self.put.key;
        needs_bucket(request, &key).await?;
        request.begin_change(&[])?;
        let directory = request.service.store.resumable()?;
        let begun = directory.begin_multipart(key.clone(), self.fields, request.uploader());
        let id = begun.await?;
        let mut text = Document::new("InitiateMultipartUploadResult", true);
        name_object(&mut text, &key);
        text.show("UploadId", id);
        Ok(document(text.end()))
    }
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
        let key = object(target)?;
        Ok(Self { id, key })
    }

    /// What is done with it needs what its value needs.
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::Store(self.key.as_str().into())]
    }

    async fn find<'r>(
        &self,
        request: &'r RequestContext,
    ) -> Result<(&'r Directory, Arc<Multipart>), Refusal> {
        needs_bucket(request, &self.key).await?;
        let directory = request.service.store.resumable()?;
        let found = self.id.and_then(|id| directory.multipart(id));
        let found = found.filter(|it| it.key == self.key);
        let found = found.ok_or(NO_SUCH_UPLOAD)?;
        found.touch();
        Ok((directory, found))
    }
}

/// PUT of a part, with a body or from another object.
pub fn part(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let named = Named::of(asked, target)?;
    let number = asked.query.get("partNumber").map(str::parse);
    let number = number
        .and_then(Result::ok)
        .filter(|it| (1..=MOST_PARTS).contains(it));
    let number = number.ok_or(BAD_ARGUMENT)?;
    let put = Box::new(PutRequest::of(named.key.clone(), asked.config)?);
    let headers = &asked.head.headers;
    if let Some((from, of_source)) = source(headers)? {
        let range = headers.get("x-amz-copy-source-range");
        let range = range
            .map(|it| range_of(it).ok_or(BAD_ARGUMENT))
            .transpose()?;
        return parsed(CopyPart {
            named,
            number,
            from,
            of_source,
            range,
        });
    }
    asked.needs_length()?;
    let payload = Payload::of(asked)?;
    let limit = asked.config.limits.max_body;
    if payload.len.is_some_and(|len| len > limit) {
        return Err(too_large(limit));
    }
    parsed(Part {
        named,
        number,
        put,
        payload,
    })
}

/// The bytes that a range names, the last one included.
fn range_of(value: &HeaderValue) -> Option<(u64, u64)> {
    let (first, last) = value
        .to_str()
        .ok()?
        .strip_prefix("bytes=")?
        .split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

struct Part {
    named: Named,
    number: u16,
    put: Box<PutRequest>,
    payload: Payload,
}

#[async_trait(?Send)]
impl Verb for Part {
    fn needs(&self) -> Vec<Need<'_>> {
        self.named.needs()
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self {
            named,
            number,
            mut put,
            payload,
        } = *self;
        let (_, upload) = named.find(request).await?;
        request.begin_change(&[])?;
        // The digests are those of the part.
        (put.len, put.following) = (payload.len, payload.announced());
        put.expected = payload.expected();
        payload.open(request, body)?;
        let service = &*request.service;
        let mut head = UploadHead {
            len: put.len,
            uploader: Some(request.uploader()),
            ..UploadHead::default()
        };
        let _in_flight = count_upload(request.counters());
        let mut part = service
            .store
            .upload(service.reactor, &named.key, &mut head)
            .await?;
        receive(&mut part, &put, body).await?;
        let meta = part
            .keep_part(&upload, number)
            .await?
            .ok_or(NO_SUCH_UPLOAD)?;
        let etag = ReceivedPart { number, meta }.etag();
        let response = with(empty(StatusCode::OK), |headers| {
            put_field(headers, ETAG, etag);
        });
        Ok(response.into())
    }
}

/// A part that is copied from an object.
struct CopyPart {
    named: Named,
    number: u16,
    from: Key<'static>,
    of_source: Option<Preconditions>,
    range: Option<(u64, u64)>,
}

#[async_trait(?Send)]
impl Verb for CopyPart {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        let of_source = Need::all(Right::Read, self.from.as_str());
        [of_source].into_iter().chain(self.named.needs()).collect()
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (_, upload) = self.named.find(request).await?;
        request.begin_change(&[])?;
        let service = &*request.service;
        let (store, reactor) = (&service.store, service.reactor);
        let found = store.get(reactor, &self.from, false, Purpose::Use).await?;
        let Some(Found::File(source)) = found else {
            return Err(not_found(request, &self.from).await);
        };
        let found = Found::File(Arc::clone(&source));
        if self.of_source.as_ref().is_some_and(|it| !found.allows(it)) {
            return Err(PRECONDITION);
        }
        let range = match self.range {
            None => 0..found.len(),
            Some((first, last)) if last < found.len() => first..last + 1,
            Some(_) => return Err(BAD_RANGE),
        };
        let mut head = UploadHead {
            len: Some(range.end - range.start),
            uploader: Some(request.uploader()),
            ..UploadHead::default()
        };
        let _in_flight = count_upload(request.counters());
        let mut part = store.upload(reactor, &self.named.key, &mut head).await?;
        part.copy_range(&source.shared(), range).await?;
        let meta = part
            .keep_part(&upload, self.number)
            .await?
            .ok_or(NO_SUCH_UPLOAD)?;
        let mut text = Document::new("CopyPartResult", true);
        text.date("LastModified", meta.modified());
        let number = self.number;
        text.add("ETag", &ReceivedPart { number, meta }.etag());
        Ok(document(text.end()))
    }
}

/// POST of the list of parts, which become the value.
pub fn complete(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let mut payload = Payload::of(asked)?;
    let headers = &asked.head.headers;
    let len = headers.get("x-amz-mp-object-size").map(|len| {
        let len = len.to_str().ok().and_then(|len| len.parse().ok());
        len.ok_or(BAD_ARGUMENT)
    });
    parsed(Complete {
        named: Named::of(asked, target)?,
        preconditions: conditions(headers, "").filter(Preconditions::are_of_writes),
        expected: payload.take_checksum(),
        len: len.transpose()?,
        payload,
    })
}

struct Complete {
    named: Named,
    preconditions: Option<Preconditions>,
    /// The digests of the value.
    expected: Digests,
    /// How long it is, if that is said.
    len: Option<u64>,
    payload: Payload,
}

/// The list of parts that completes an upload.
#[derive(Deserialize)]
pub struct Listed {
    /// As they are listed.
    #[serde(default, rename = "Part")]
    pub parts: Vec<ListedPart>,
}

/// One of them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListedPart {
    part_number: u16,
    /// Its entity tag.
    #[serde(rename = "ETag")]
    pub etag: String,
}

/// The parts that are `listed`, of those that were received.
fn selected(upload: &Multipart, listed: &Listed) -> Result<Vec<ReceivedPart>, Refusal> {
    if listed.parts.is_empty() {
        return Err(BAD_XML);
    }
    if !listed
        .parts
        .is_sorted_by(|a, b| a.part_number < b.part_number)
    {
        return Err(INVALID_ORDER);
    }
    let received = upload.parts();
    let mut left = received.iter();
    let found = listed.parts.iter().map(|part| {
        let found = left.find(|it| it.number == part.part_number);
        let is_same =
            |it: &&ReceivedPart| it.etag().trim_matches('"') == part.etag.trim().trim_matches('"');
        found.filter(is_same).copied().ok_or(INVALID_PART)
    });
    found.collect()
}

#[async_trait(?Send)]
impl Verb for Complete {
    fn needs(&self) -> Vec<Need<'_>> {
        self.named.needs()
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self {
            named,
            preconditions,
            expected,
            len,
            payload,
        } = *self;
        let (directory, upload) = named.find(request).await?;
        let listed: Listed = xml::receive(request, payload, body).await?;
        let parts = selected(&upload, &listed)?;
        let total = parts.iter().map(|part| part.meta.len).sum();
        if len.is_some_and(|len| len != total) {
            return Err(OTHER_SIZE);
        }
        let service = &*request.service;
        let fields = directory.fields_of(&upload).await?;
        let mut put = put_of(&fields, &named.key, &service.config)?;
        put.len = Some(total);
        put.preconditions = preconditions;
        put.expect(expected)?;
        request.permitted_now(|client| put.permit(client))?;
        let changing = request.begin_change(&[Scope::one(named.key.as_str())])?;
        let wants = put
            .preconditions
            .as_ref()
            .is_some_and(|it| it.matching.is_some());
        let existing = put.existing;
        let completing = async {
            let limit = service.config.limits.max_body;
            if total > limit {
                return Err(too_large(limit));
            }
            let mut head = UploadHead {
                uploader: Some(request.uploader()),
                ..put.head()
            };
            let _in_flight = count_upload(request.counters());
            let (store, reactor) = (&service.store, service.reactor);
            let mut value = store.upload(reactor, &named.key, &mut head).await?;
            for part in &parts {
                let file = directory
                    .open_part(&upload, *part)
                    .await?
                    .ok_or(INVALID_PART)?;
                value.copy_range(&file, 0..part.meta.len).await?;
                upload.touch();
            }
            compare(&mut value, &put.expected, put.expected.wanted()).await?;
            Ok(value.publish(named.key.clone()).await?)
        };
        let published = request.narrowed(existing, completing.await);
        let published = unless_gone(request, &named.key, wants, published).await?;
        drop(changing);
        request.changed(&named.key);
        directory.remove_multipart(&upload).await?;
        let mut text = Document::new("CompleteMultipartUploadResult", true);
        text.add("Location", &path_of(&named.key));
        name_object(&mut text, &named.key);
        text.add("ETag", &published.etag);
        Ok(document(text.end()))
    }
}

/// The value that the first request, with these fields, is for.
fn put_of(
    fields: &[Field],
    key: &Key<'static>,
    config: &ServiceConfig,
) -> Result<PutRequest, Refusal> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    let mut put = PutRequest::of(key.clone(), config)?;
    put.read(&headers, config)?;
    put.keep(own_fields(&headers))?;
    Ok(put)
}

/// Gives an upload up.
pub fn abort(asked: &RequestHead<'_>, target: Target) -> Parsed {
    parsed(Abort(Named::of(asked, target)?))
}

struct Abort(Named);

#[async_trait(?Send)]
impl Verb for Abort {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        self.0.needs()
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (directory, upload) = self.0.find(request).await?;
        request.begin_change(&[])?;
        directory.remove_multipart(&upload).await?;
        request.changed(&self.0.key);
        Ok(empty(StatusCode::NO_CONTENT).into())
    }
}

/// Lists the parts of an upload.
pub fn parts(asked: &RequestHead<'_>, target: Target) -> Parsed {
    parsed(ListParts {
        named: Named::of(asked, target)?,
        most: number(asked, "max-parts", MOST)?.min(MOST),
        after: number(asked, "part-number-marker", 0)?,
    })
}

struct ListParts {
    named: Named,
    most: usize,
    after: usize,
}

#[async_trait(?Send)]
impl Verb for ListParts {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        self.named.needs()
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (_, upload) = self.named.find(request).await?;
        let all = upload.parts();
        let rest = all.partition_point(|part| usize::from(part.number) <= self.after);
        let (page, is_cut) = match all.get(rest..rest + self.most) {
            Some(page) => (page, rest + self.most < all.len()),
            None => (&all[rest..], false),
        };
        let mut text = Document::new("ListPartsResult", true);
        name_object(&mut text, &upload.key);
        text.show("UploadId", upload.id);
        text.show("StorageClass", "STANDARD");
        text.show("PartNumberMarker", self.after);
        text.show("MaxParts", self.most);
        text.show("IsTruncated", is_cut);
        if let Some(last) = page.last().filter(|_| is_cut) {
            text.show("NextPartNumberMarker", last.number);
        }
        for part in page {
            text.within("Part", |text| {
                text.show("PartNumber", part.number);
                text.date("LastModified", part.meta.modified());
                text.add("ETag", &part.etag());
                text.show("Size", part.meta.len);
            });
        }
        Ok(document(text.end()))
    }
}

/// Lists the uploads of a bucket.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what a row of the table takes"
)]
pub fn list(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let get = |name| asked.query.get(name).unwrap_or_default().to_owned();
    parsed(ListUploads {
        bucket: target.bucket().ok_or(NO_BUCKET)?,
        prefix: get("prefix"),
        delimiter: get("delimiter"),
        after: (get("key-marker"), get("upload-id-marker")),
        most: number(asked, "max-uploads", MOST)?.min(MOST),
        encodes: encodes(asked)?,
    })
}

struct ListUploads {
    bucket: Key<'static>,
    prefix: String,
    delimiter: String,
    after: (String, String),
    most: usize,
    encodes: bool,
}

#[async_trait(?Send)]
impl Verb for ListUploads {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        let Self { bucket, prefix, .. } = self;
        vec![Need::Any(Right::List, format!("{bucket}/{prefix}").into())]
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        needs_bucket(request, &self.bucket).await?;
        let directory = request.service.store.resumable()?;
        let mut all = directory.multiparts(&format!("{}/{}", self.bucket, self.prefix));
        let may_list = |key: &str| {
            let client = request.principal();
            client.is_none_or(|client| client.allows(Right::List, key))
        };
        let name = |upload: &Multipart| name_of(upload.key.as_str(), &self.bucket).to_owned();
        let (key, id) = &self.after;
        all.retain(|upload| {
            let (name, own) = (name(upload), upload.id.to_string());
            let is_after = name > *key || name == *key && !id.is_empty() && own > *id;
            (key.is_empty() || is_after) && may_list(upload.key.as_str())
        });
        let (mut uploads, mut prefixes) = (Document::part(), Document::part());
        // Of what is shown: how many, the name of the last, and its upload.
        let (mut shows, mut last, mut is_cut) = (0, (key.clone(), None), false);
        for upload in &all {
            let name = name(upload);
            let common = common_prefix(&name, &self.prefix, &self.delimiter);
            if common.is_some_and(|it| last.0.starts_with(it)) {
                continue;
            }
            if shows == self.most {
                is_cut = shows > 0;
                break;
            }
            shows += 1;
            last = (common.unwrap_or(&name).to_owned(), Some(upload.id));
            if common.is_some() {
                prefixes.within("CommonPrefixes", |text| {
                    text.add("Prefix", &shown(&last.0, self.encodes));
                });
                continue;
            }
            uploads.within("Upload", |text| {
                text.add("Key", &shown(&name, self.encodes));
                text.show("UploadId", upload.id);
                text.show("StorageClass", "STANDARD");
                text.date("Initiated", upload.begun);
            });
        }
        let mut text = Document::new("ListMultipartUploadsResult", true);
        text.add("Bucket", self.bucket.as_str());
        text.add("Prefix", &shown(&self.prefix, self.encodes));
        if !self.delimiter.is_empty() {
            text.add("Delimiter", &shown(&self.delimiter, self.encodes));
        }
        if self.encodes {
            text.show("EncodingType", "url");
        }
        text.add("KeyMarker", &shown(key, self.encodes));
        text.add("UploadIdMarker", id);
        text.show("MaxUploads", self.most);
        text.show("IsTruncated", is_cut);
        if let (name, Some(id)) = last
            && is_cut
        {
            text.add("NextKeyMarker", &shown(&name, self.encodes));
            text.show("NextUploadIdMarker", id);
        }
        text.raw(&uploads.end());
        text.raw(&prefixes.end());
        Ok(document(text.end()))
    }
}
