//! What is kept of a resumable upload in the store: a small object below `.data-server/uploads/`, named as the upload. Its
//! tail, the bytes that are too few for a part, is another object whose name begins so.
//!
//! Promises that a change is made to what was read and to nothing else: each one names the entity tag that it replaces, and
//! no two changes write the same bytes.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::Method;
use hyper::header::{DATE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED};
use md5::Md5;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::super::super::digest::HasherState;
use super::super::super::error::Error;
use super::super::super::key::RESERVED;
use super::super::super::resumable::Field;
use super::super::super::staging_quota::Uploader;
use super::super::call::{Call, NONCE};
use super::super::client::{Client, Found};
use super::super::contract::{Exact, Kept};
use super::super::escape;
use super::super::head::{text, unclear};
use super::super::joining::Part;
use super::super::nonce::nonce;
use super::super::put::put;
use super::super::settings::Place;
use super::super::sign::hex;

/// Longer than any: of 10,000 parts, of a key and of fields that came in the head of a request.
const MAX_LEN: usize = 4 << 20;

/// How often it is read until it is certain that the entity tag is that of what was read.
const READS: usize = 8;

/// What is kept of an upload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Info {
    pub(super) key: String,
    /// How long it will be, where that is known.
    pub(super) length: Option<u64>,
    /// What is kept for who publishes it.
    pub(super) fields: Vec<Field>,
    /// The client that it counts for.
    #[serde(default)]
    uploader: Option<String>,
    /// What is kept with the value.
    pub(super) media_type: Option<String>,
    pub(super) kept: Option<String>,
    /// The number that the write of the value carries.
    pub(super) nonce: String,
    pub(super) standing: Standing,
    /// What the store calls the upload in parts, once there is one.
    pub(super) multipart: Option<String>,
    /// The number of the next part. Those before it may be on their way, from a request that has lost the upload.
    pub(super) next: u32,
    pub(super) progress: Progress,
    /// Tells this change from every other.
    write: String,
}

/// Where an upload stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Standing {
    /// Bytes may be appended.
    Open,
    /// It has been published.
    Complete,
    /// It is being removed.
    Removed,
}

/// What has been received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// How many bytes.
    pub(super) offset: u64,
    pub(super) parts: Vec<Part>,
    /// What follows the parts.
    pub(super) tail: Option<Tail>,
    /// The digests of all of it.
    pub(super) digests: HasherState,
}

/// The object that has the last bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tail {
    /// Its name, behind that of the upload.
    pub(super) name: String,
    pub(super) len: u64,
}

/// What was read of an upload.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) info: Info,
    pub(super) etag: String,
    /// How long ago it was changed, by the clock of the store.
    pub(super) age: Duration,
}

impl Stored {
    /// Whether bytes may be appended.
    pub(super) fn is_open(&self) -> bool {
        self.info.standing == Standing::Open
    }
}

impl Info {
    pub(super) fn new(
        key: String,
        length: Option<u64>,
        fields: Vec<Field>,
        uploader: &Uploader,
        kept: &Kept,
        digests: HasherState,
    ) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            key,
            length,
            fields,
            uploader: Some(uploader.as_str().to_owned()),
            media_type: kept.media_type.as_deref().map(str::to_owned),
            kept: kept.fields.as_deref().map(text),
            nonce: nonce(),
            standing: Standing::Open,
            multipart: None,
            next: 1,
            progress: Progress {
                digests,
                ..Progress::default()
            },
            write: String::new(),
        }
    }

    /// The client that it counts for.
    pub(super) fn uploader(&self) -> Option<Uploader> {
        self.uploader.as_deref().map(Uploader::new)
    }

    /// What is kept with the value.
    pub(super) fn kept(&self) -> Kept {
        Kept {
            media_type: self.media_type.as_deref().map(Into::into),
            fields: self.kept.as_deref().map(|text| text.as_bytes().into()),
            sha256: None,
        }
    }
}

/// What the names of all uploads begin with, behind the prefix.
pub(super) fn folder() -> String {
    format!("{RESERVED}/uploads/")
}

/// The encoded name of the object that is called so.
pub(super) fn object(place: &Place, name: &str) -> String {
    escape::path(&format!("{}{}{name}", place.prefix, folder()))
}

/// The upload that `object` keeps; `None` where there is none.
pub(super) async fn load(client: &Client, object: &str) -> Result<Option<Stored>, Error> {
    let call = Call::named(Method::GET, object.to_owned());
    let mut before = None;
    for _ in 0..READS {
        let Found::Answer(answer) = client.read(&call).await? else {
            return Ok(None);
        };
        let etag = text(&answer.headers, &ETAG).map(str::to_owned);
        let etag = etag.ok_or_else(|| unclear("an upload has no entity tag"))?;
        let age = age(&answer.headers);
        let body = timeout(client.timeout(), answer.whole(MAX_LEN)).await;
        let body = body.map_err(|_| Error::TimedOut)?;
        let body = body.map_err(|said| Error::BadGateway { said })?;
        // While an object is replaced, a store may answer the tag of the one with the bytes of the other.
        let is_certain = etag.trim_matches('"') == hex(&Md5::digest(&body));
        let read = (etag, body);
        if is_certain || before.as_ref() == Some(&read) {
            let info = serde_json::from_slice(&read.1);
            let info = info.map_err(|error| unclear(&format!("an upload: {error}")))?;
            return Ok(Some(Stored {
                info,
                etag: read.0,
                age,
            }));
        }
        before = Some(read);
    }
    Err(Error::Busy { retry_after: 1 })
}

/// Keeps `info` in `object`, if `condition` holds: its entity tag. [`Error::Taken`], where it does not hold.
pub(super) async fn save(
    client: &Client,
    object: &str,
    info: &mut Info,
    condition: &Exact,
) -> Result<String, Error> {
    info.write = nonce();
    let text = serde_json::to_vec(&info).map_err(|error| unclear(&error.to_string()))?;
    let body = Bytes::from(text);
    let call = Call::named(Method::PUT, object.to_owned());
    let call = call.with(HeaderName::from_static(NONCE), &info.write)?;
    let sha256 = Sha256::digest(&body).into();
    match put(client, &call, &body, &sha256, condition).await {
        Ok(written) => Ok(written.etag),
        Err(Error::Precondition) => Err(Error::Taken),
        Err(error) => Err(error),
    }
}

/// How long ago an object was changed, by the clock of the store where it says the time.
fn age(headers: &HeaderMap) -> Duration {
    let date = |name| httpdate::parse_http_date(text(headers, name)?).ok();
    let now = date(&DATE).unwrap_or_else(SystemTime::now);
    let modified = date(&LAST_MODIFIED).unwrap_or(now);
    now.duration_since(modified).unwrap_or_default()
}
