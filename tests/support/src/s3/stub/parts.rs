//! Uploads in parts.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use hyper::HeaderMap;
use md5::{Digest, Md5};

use super::list::element;
use super::objects::{Object, Objects, Refusal, decide, etag_of, kept};
use crate::s3::sign::hex;

/// One upload in parts.
#[derive(Debug)]
pub(super) struct Upload {
    key: String,
    headers: Vec<(String, String)>,
    parts: BTreeMap<u32, Bytes>,
}

/// Begins one: what is answered.
pub(super) fn create(objects: &mut Objects, key: &str, headers: &HeaderMap) -> String {
    objects.next_upload += 1;
    let id = format!("upload-{}", objects.next_upload);
    let upload = Upload {
        key: key.to_owned(),
        headers: kept(headers),
        parts: BTreeMap::new(),
    };
    let begun = element("UploadId", &id);
    objects.uploads.insert(id, upload);
    element("InitiateMultipartUploadResult", begun)
}

/// Takes a part: its entity tag.
pub(super) fn part(objects: &mut Objects, id: &str, number: u32, bytes: Bytes) -> Option<String> {
    let upload = objects.uploads.get_mut(id)?;
    let etag = etag_of(&bytes);
    upload.parts.insert(number, bytes);
    Some(etag)
}

/// Makes an object of the parts that `body` lists, and of no others: what is answered.
pub(super) fn complete(
    objects: &mut Objects,
    id: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<String, Refusal> {
    let upload = objects.uploads.get(id).ok_or((404, "NoSuchUpload"))?;
    let listed = listed(body, &upload.parts)?;
    decide(headers, objects.stored.get(&upload.key))?;
    let upload = objects.uploads.remove(id).ok_or((404, "NoSuchUpload"))?;
    let mut bytes = BytesMut::new();
    let mut digests = Vec::new();
    for part in &listed {
        bytes.extend_from_slice(part);
        digests.extend_from_slice(&Md5::digest(part));
    }
    let mut object = Object::new(bytes.freeze(), upload.headers);
    object.etag = format!("\"{}-{}\"", hex(&Md5::digest(&digests)), listed.len());
    let etag = element("ETag", object.etag.replace('"', "&quot;"));
    objects.stored.insert(upload.key, object);
    Ok(element("CompleteMultipartUploadResult", etag))
}

/// The parts that `body` lists: in order, each as it was sent last.
fn listed(body: &[u8], parts: &BTreeMap<u32, Bytes>) -> Result<Vec<Bytes>, Refusal> {
    let text = String::from_utf8_lossy(body).replace("&quot;", "\"");
    let of = |item: &str, name: &str| -> Option<String> {
        let (_, rest) = item.split_once(&format!("<{name}>"))?;
        let (value, _) = rest.split_once(&format!("</{name}>"))?;
        Some(value.to_owned())
    };
    let (mut found, mut last) = (Vec::new(), 0);
    for item in text.split("<Part>").skip(1) {
        let number = of(item, "PartNumber").and_then(|number| number.parse::<u32>().ok());
        let number = number.filter(|&number| number > last);
        last = number.ok_or((400, "InvalidPartOrder"))?;
        let part = parts.get(&last).ok_or((400, "InvalidPart"))?;
        if of(item, "ETag") != Some(etag_of(part)) {
            return Err((400, "InvalidPart"));
        }
        found.push(part.clone());
    }
    Ok(found)
}

/// The uploads under way below this prefix.
pub(super) fn list(objects: &Objects, prefix: &str) -> String {
    let mut xml = element("IsTruncated", false);
    let all = objects.uploads.iter();
    for (id, upload) in all.filter(|(_, upload)| upload.key.starts_with(prefix)) {
        let begun = element("Initiated", "2000-01-01T00:00:00.000Z");
        let id = element("UploadId", id) + &begun;
        xml += &element("Upload", element("Key", &upload.key) + &id);
    }
    element("ListMultipartUploadsResult", xml)
}
