//! `CompleteMultipartUpload`: the parts become the value.
//!
//! One file is made of them, by a reflink where the file system has one, else by copies of the kernel, which take about
//! as long as writing the value, and the publisher decides the conditions.

use std::rc::Rc;
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::http::audit::AuditEvent;
use crate::http::auth::credentials::Principal;
use crate::http::exchange::Exchange;
use crate::http::head::path::path_of;
use crate::http::head::syntax::append_field;
use crate::http::locks::Scope;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::too_large;
use crate::http::request::head::RequestHead;
use crate::http::request::{Service, narrowed};
use crate::http::s3_door::errors::{
    BAD_ARGUMENT, INVALID_ORDER, INVALID_PART, NO_SUCH_UPLOAD, OTHER_SIZE,
};
use crate::http::s3_door::fields::{conditions_of_write, fields_of, own_fields, wants_version};
use crate::http::s3_door::multipart::checksum::Sum;
use crate::http::s3_door::multipart::{Named, name_object};
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::patience::patiently;
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{Target, unless_gone};
use crate::http::s3_door::xml::{self, BAD_XML, Document, add_checksums};
use crate::http::service_config::ServiceConfig;
use crate::http::values::digest_fields::AMZ_CHECKSUM;
use crate::http::values::put::{PutRequest, compare, count_upload};
use crate::http::values::representation::validators;
use crate::http::verb::Parsed;
use crate::store::{
    Directory, Field, Key, Multipart, OpenPart, Preconditions, Published, Purpose, ReceivedPart,
    UploadHead, Uploader, kept_value,
};

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
    #[serde(rename = "ChecksumCRC32")]
    crc32: Option<String>,
    #[serde(rename = "ChecksumCRC32C")]
    crc32c: Option<String>,
    #[serde(rename = "ChecksumCRC64NVME")]
    crc64nvme: Option<String>,
    #[serde(rename = "ChecksumSHA1")]
    sha1: Option<String>,
    #[serde(rename = "ChecksumSHA256")]
    sha256: Option<String>,
}

impl ListedPart {
    /// True unless it has another checksum than one that is `kept` of the part.
    fn is_like(&self, kept: &[u8]) -> bool {
        let listed = [
            ("x-amz-checksum-crc32", &self.crc32),
            ("x-amz-checksum-crc32c", &self.crc32c),
            ("x-amz-checksum-crc64nvme", &self.crc64nvme),
            ("x-amz-checksum-sha1", &self.sha1),
            ("x-amz-checksum-sha256", &self.sha256),
        ];
        listed.into_iter().all(|(name, sum)| {
            let pair = sum.as_ref().zip(kept_value(kept, name));
            pair.is_none_or(|(sum, kept)| sum.as_bytes() == kept)
        })
    }
}

/// The parts that are `listed`, of those that were received.
fn selected(upload: &Multipart, listed: &Listed) -> Result<Vec<ReceivedPart>, Refusal> {
    let Listed { parts } = listed;
    if parts.is_empty() {
        return Err(BAD_XML);
    }
    if !parts.is_sorted_by(|a, b| a.part_number < b.part_number) {
        return Err(INVALID_ORDER);
    }
    let received = upload.parts();
    let mut left = received.iter();
    let found = parts.iter().map(|part| {
        let found = left.find(|it| it.number == part.part_number);
        let is_same =
            |it: &&ReceivedPart| it.etag().trim_matches('"') == part.etag.trim().trim_matches('"');
        found.filter(is_same).copied().ok_or(INVALID_PART)
    });
    found.collect()
}

/// The fields of the first request.
fn headers_of(fields: &[Field]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// The value that the first request, with these fields, is for.
fn put_of(
    headers: &HeaderMap,
    key: &Key<'static>,
    config: &ServiceConfig,
) -> Result<PutRequest, Refusal> {
    let mut put = PutRequest::of(key.clone(), config)?;
    put.read(headers, config)?;
    put.keep(own_fields(headers))?;
    Ok(put)
}

/// The line of a value that names the upload by which it came.
const UPLOAD: &str = "x-amz-upload-id";

/// POST of the list of parts.
pub fn complete(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let named = Named::of(asked, target)?;
    let headers = &asked.head.headers;
    // Its checksum is that of the value.
    let fields = headers
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    let (checksums, of_body): (HeaderMap, HeaderMap) =
        fields.partition(|(name, _)| name.as_str().starts_with(AMZ_CHECKSUM));
    let payload = Payload::with(asked, &of_body)?;
    let len = headers.get("x-amz-mp-object-size").map(|len| {
        let len = len.to_str().ok().and_then(|len| len.parse().ok());
        len.ok_or(BAD_ARGUMENT)
    });
    let len: Option<u64> = len.transpose()?;
    let preconditions = conditions_of_write(headers);
    operation(Takes::Body, [named.need()], async move |request, body| {
        let listed = xml::receive(request, payload, body).await?;
        let completion = Completion {
            service: Rc::clone(&request.service),
            exchange: Rc::clone(&request.guard.exchange),
            client: request.context.principal.clone(),
            uploader: request.uploader(),
            change: request.change_of(&named.key, ""),
            named,
            listed,
            len,
            preconditions,
            checksums,
        };
        let changing = request.begin_change(&[Scope::one(completion.named.key.as_str())])?;
        let id = request.request_id();
        patiently(&request.service, &request.guard.exchange, id, async move {
            let completed = completion.perform().await;
            drop(changing);
            completed
        })
        .await
    })
}

/// What completes an upload, and needs its request no more.
struct Completion {
    service: Rc<Service>,
    exchange: Rc<Exchange>,
    client: Option<Rc<Principal>>,
    uploader: Uploader,
    change: Option<AuditEvent>,
    named: Named,
    listed: Listed,
    len: Option<u64>,
    preconditions: Option<Preconditions>,
    /// What the request says of checksums, and once it is completed what the object keeps.
    checksums: HeaderMap,
}

impl Completion {
    /// Completes it, once.
    async fn perform(mut self) -> Result<Document, Refusal> {
        let service = Rc::clone(&self.service);
        let directory = service.store.resumable()?;
        let upload = match self.named.find(&service.store).await {
            Err(why) if why == NO_SUCH_UPLOAD => {
                let etag = self.completed().await?;
                return Ok(self.document(&etag.ok_or(why)?));
            }
            found => found?,
        };
        // One that waited for another may find that it is done.
        let _turn = upload.turn.lock().await;
        if let Some(etag) = self.completed().await? {
            directory.remove_multipart(&upload).await?;
            return Ok(self.document(&etag));
        }
        let published = self.publish(directory, &upload).await?;
        directory.remove_multipart(&upload).await?;
        if let Some(change) = self.change.take() {
            self.exchange.record.audit(change);
        }
        Ok(self.document(&published.etag))
    }

    /// The entity tag of the object, if it came by this upload, and is what it was then.
    async fn completed(&mut self) -> Result<Option<String>, Refusal> {
        let (store, reactor) = (&self.service.store, self.service.reactor);
        let found = store
            .get(reactor, &self.named.key, false, Purpose::Use)
            .await?;
        let id = self.named.id.map(|id| id.to_string());
        let Some((found, id)) = found.zip(id) else {
            return Ok(None);
        };
        let kept = fields_of(&found);
        if kept.get(UPLOAD).is_none_or(|of| *of != *id) {
            return Ok(None);
        }
        self.checksums = kept;
        Ok(Some(validators(&found).etag.clone()))
    }

    async fn publish(
        &mut self,
        directory: &Directory,
        upload: &Arc<Multipart>,
    ) -> Result<Published, Refusal> {
        let parts = selected(upload, &self.listed)?;
        let total = parts.iter().map(|part| part.meta.len).sum();
        if self.len.is_some_and(|len| len != total) {
            return Err(OTHER_SIZE);
        }
        let (config, limit) = (&self.service.config, self.service.config.limits.max_body);
        if total > limit {
            return Err(too_large(limit));
        }
        let key = &self.named.key;
        let first = headers_of(&directory.fields_of(upload).await?);
        let sum = Sum::of(&first, &self.checksums)?;
        let mut put = put_of(&first, key, config)?;
        put.len = Some(total);
        put.preconditions = self.preconditions.take();
        put.expect(sum.as_ref().map(Sum::of_all).unwrap_or_default())?;
        let client = self.client.as_deref().map(Principal::by_now).transpose()?;
        client
            .as_ref()
            .map_or(Ok(()), |client| put.permit(client))?;
        let (wants, existing) = (wants_version(&put), put.existing);
        let published = self.copied(directory, upload, &parts, put, sum).await;
        let published = narrowed(client.as_ref(), existing, published);
        unless_gone(directory, &self.named.key, wants, published).await
    }

    async fn copied(
        &mut self,
        directory: &Directory,
        upload: &Arc<Multipart>,
        parts: &[ReceivedPart],
        mut put: PutRequest,
        mut sum: Option<Sum>,
    ) -> Result<Published, Refusal> {
        let mut head = UploadHead {
            uploader: Some(self.uploader.clone()),
            ..put.head()
        };
        let _in_flight = count_upload(self.exchange.counters());
        let (store, reactor) = (&self.service.store, self.service.reactor);
        let mut value = store.upload(reactor, &self.named.key, &mut head).await?;
        for (part, listed) in parts.iter().zip(&self.listed.parts) {
            let found = directory.open_part(upload, *part).await?;
            let found = found.filter(|it| listed.is_like(&it.fields));
            let OpenPart { file, fields } = found.ok_or(INVALID_PART)?;
            if let Some(sum) = &mut sum {
                sum.add(&fields);
            }
            value.copy_range(&file, 0..part.meta.len).await?;
            upload.touch();
        }
        compare(&mut value, &put.expected, put.expected.wanted()).await?;
        let sum = sum.map_or(Ok(None), Sum::finish)?;
        self.checksums = sum.into_iter().collect();
        let mut lines = format!("{UPLOAD}: {}\n", upload.id).into_bytes();
        for (name, value) in &self.checksums {
            append_field(&mut lines, name.as_str(), value, "\n");
        }
        value.keep_of_version(&lines);
        Ok(value.publish(self.named.key.clone()).await?)
    }

    fn document(&self, etag: &str) -> Document {
        let mut text = Document::new("CompleteMultipartUploadResult");
        text.add("Location", &path_of(&self.named.key));
        name_object(&mut text, &self.named.key);
        text.add("ETag", etag);
        add_checksums(&mut text, &self.checksums);
        text
    }
}
