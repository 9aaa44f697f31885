//! The objects of the store, and the conditions on them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use md5::{Digest, Md5};

use super::parts::Upload;
use crate::s3::sign::hex;

/// The objects and the uploads in parts.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) stored: BTreeMap<String, Object>,
    /// What was there before the last change of each key.
    replaced: BTreeMap<String, Option<Object>>,
    pub(super) uploads: BTreeMap<String, Upload>,
    pub(super) next_upload: u64,
}

impl Objects {
    /// Has `key` be this from now on.
    pub(super) fn replace(&mut self, key: &str, object: Option<Object>) {
        let before = match object {
            Some(object) => self.stored.insert(key.to_owned(), object),
            None => self.stored.remove(key),
        };
        self.replaced.insert(key.to_owned(), before);
    }

    /// What `key` is or, where that is `stale`, what it was before its last change.
    pub(super) fn of(&self, key: &str, stale: bool) -> Option<Object> {
        match self.replaced.get(key) {
            Some(before) if stale => before.clone(),
            _ => self.stored.get(key).cloned(),
        }
    }
}

/// One version of an object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) bytes: Bytes,
    pub(super) etag: String,
    pub(super) modified: SystemTime,
    /// What came with it and is answered with it.
    pub(super) headers: Vec<(String, String)>,
}

/// The entity tag of what was stored whole.
pub(super) fn etag_of(bytes: &[u8]) -> String {
    format!("\"{}\"", hex(&Md5::digest(bytes)))
}

impl Object {
    pub(super) fn new(bytes: Bytes, headers: Vec<(String, String)>) -> Self {
        Self {
            etag: etag_of(&bytes),
            bytes,
            modified: SystemTime::now(),
            headers,
        }
    }
}

/// Headers that are kept with an object.
const KEPT: [&str; 7] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-disposition",
    "cache-control",
    "expires",
    "x-amz-checksum-sha256",
];

/// What of these headers is kept with an object.
pub(super) fn kept(headers: &HeaderMap) -> Vec<(String, String)> {
    let is_kept = |name: &str| KEPT.contains(&name) || name.starts_with("x-amz-meta-");
    lines(headers).filter(|(name, _)| is_kept(name)).collect()
}

/// The names and values of these headers.
pub(super) fn lines(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let lines = headers.iter();
    lines.map(move |(name, value)| (name.to_string(), text(value)))
}

/// Why a condition does not hold: a status and a code.
pub(super) type Refusal = (u16, &'static str);

/// Decides the conditions of a change.
pub(super) fn decide(headers: &HeaderMap, now: Option<&Object>) -> Result<(), Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(tag) = text("if-match") {
        let Some(now) = now else {
            return Err((404, "NoSuchKey"));
        };
        if tag != "*" && tag != now.etag {
            return Err((412, "PreconditionFailed"));
        }
    }
    match (text("if-none-match"), now) {
        (Some("*"), Some(_)) => Err((412, "PreconditionFailed")),
        (Some("*") | None, _) => Ok(()),
        (Some(_), _) => Err((501, "NotImplemented")),
    }
}
