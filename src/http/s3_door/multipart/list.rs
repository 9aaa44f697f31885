//! The lists of the parts of an upload, and of the uploads of a bucket.

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::request::head::RequestHead;
use crate::http::s3_door::listing::{MOST, common_prefix, encodes, number, shown};
use crate::http::s3_door::multipart::{Named, name_object};
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::target::{Target, name_of, needs_bucket};
use crate::http::s3_door::xml::Document;
use crate::http::verb::Parsed;
use crate::store::Multipart;

/// Lists the parts of an upload.
pub fn parts(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let named = Named::of(asked, target)?;
    let most = number(asked, "max-parts", MOST)?.min(MOST);
    let after = number(asked, "part-number-marker", 0)?;
    operation(Takes::Nothing, [named.need()], async move |request, _| {
        let upload = named.find(&request.service.store).await?;
        let mut page = upload.parts();
        page.retain(|part| usize::from(part.number) > after);
        let is_cut = page.len() > most;
        page.truncate(most);
        let mut text = Document::new("ListPartsResult");
        name_object(&mut text, &upload.key);
        text.show("UploadId", upload.id);
        text.show("StorageClass", "STANDARD");
        text.show("PartNumberMarker", after);
        text.show("MaxParts", most);
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
        Ok(text.answer())
    })
}

/// Lists the uploads of a bucket.
pub fn uploads(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = target.bucket()?;
    let get = |name| asked.query.get(name).unwrap_or_default().to_owned();
    let [prefix, delimiter] = ["prefix", "delimiter"].map(get);
    let [key, id] = ["key-marker", "upload-id-marker"].map(get);
    let most = number(asked, "max-uploads", MOST)?.min(MOST);
    let encodes = encodes(asked)?;
    let below = format!("{bucket}/{prefix}");
    let needs = [Need::Any(Right::List, below.clone().into())];
    operation(Takes::Nothing, needs, async move |request, _| {
        needs_bucket(request, &bucket).await?;
        let mut all = request.service.store.resumable()?.multiparts(&below);
        let may_list = |key: &str| {
            let client = request.principal();
            client.is_none_or(|client| client.allows(Right::List, key))
        };
        let name = |upload: &Multipart| name_of(upload.key.as_str(), &bucket).to_owned();
        all.retain(|upload| {
            let (name, own) = (name(upload), upload.id.to_string());
            let is_after = name > key || name == key && !id.is_empty() && own > id;
            (key.is_empty() || is_after) && may_list(upload.key.as_str())
        });
        let (mut uploads, mut prefixes) = (Document::part(), Document::part());
        // Of what is shown: how many, the name of the last, and its upload.
        let (mut shows, mut last, mut is_cut) = (0, (key.clone(), None), false);
        for upload in &all {
            let name = name(upload);
            let common = common_prefix(&name, &prefix, &delimiter);
            if common.is_some_and(|it| last.0.starts_with(it)) {
                continue;
            }
            if shows == most {
                is_cut = shows > 0;
                break;
            }
            shows += 1;
            last = (common.unwrap_or(&name).to_owned(), Some(upload.id));
            if common.is_some() {
                prefixes.within("CommonPrefixes", |text| {
                    text.add("Prefix", &shown(&last.0, encodes));
                });
                continue;
            }
            uploads.within("Upload", |text| {
                text.add("Key", &shown(&name, encodes));
                text.show("UploadId", upload.id);
                text.show("StorageClass", "STANDARD");
                text.date("Initiated", upload.begun);
            });
        }
        let mut text = Document::new("ListMultipartUploadsResult");
        text.add("Bucket", bucket.as_str());
        text.add("Prefix", &shown(&prefix, encodes));
        if !delimiter.is_empty() {
            text.add("Delimiter", &shown(&delimiter, encodes));
        }
        if encodes {
            text.show("EncodingType", "url");
        }
        text.add("KeyMarker", &shown(&key, encodes));
        text.add("UploadIdMarker", &id);
        text.show("MaxUploads", most);
        text.show("IsTruncated", is_cut);
        if let (name, Some(id)) = last
            && is_cut
        {
            text.add("NextKeyMarker", &shown(&name, encodes));
            text.show("NextUploadIdMarker", id);
        }
        text.raw(&uploads.end());
        text.raw(&prefixes.end());
        Ok(text.answer())
    })
}
