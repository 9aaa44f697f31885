//! What a request of this door is for: the service, a bucket, an object or a folder; and what is said where it is not
//! there.
//!
//! A bucket stands in the path, or in the name of the host.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::http::head::allowlists::host_and_port;
use crate::http::head::syntax::has_bad_escape;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_KEY, PRECONDITION};
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::s3_door::errors::{BAD_ARGUMENT, BAD_BUCKET, NO_BUCKET};
use crate::store::{BadKey, Directory, Key, Store};

/// What a request is for.
pub enum Target {
    Service,
    /// The folder that is the bucket.
    Bucket(Key<'static>),
    /// A value in a bucket.
    Object(Key<'static>),
    /// A key that ends with `/`: the folder of this name.
    Folder(Key<'static>),
}

impl Target {
    /// The target of a request.
    pub fn of(asked: &RequestHead<'_>) -> Result<Self, Refusal> {
        let path = match virtual_bucket(asked) {
            Some(bucket) => Cow::Owned(format!("/{bucket}{}", asked.path)),
            None => Cow::Borrowed(asked.path),
        };
        Self::at(&path)
    }

    /// The target at a path, percent-encoded, that begins with the bucket.
    pub fn at(path: &str) -> Result<Self, Refusal> {
        match path.strip_prefix('/') {
            Some("") => Ok(Self::Service),
            Some(name) if !name.contains('%') => Self::named(name),
            _ if has_bad_escape(path) => Err(BAD_ARGUMENT),
            _ => {
                let name = percent_decode_str(&path[1..]).decode_utf8();
                Self::named(&name.map_err(|_| BadKey::NotUtf8)?)
            }
        }
    }

    /// The target of this name, which begins with the bucket.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        let (folder, is_folder) = match name.strip_suffix('/') {
            Some(folder) => (folder, true),
            None => (name, false),
        };
        let is_bucket = !folder.contains('/');
        if is_folder || is_bucket {
            // There can be keys below it.
            let below = Key::new(format!("{folder}/k")).map(drop);
            below.map_err(|why| if is_bucket { BAD_BUCKET } else { why.into() })?;
        }
        let key = Key::new(folder.to_owned())?;
        Ok(match (is_bucket, is_folder) {
            (true, _) => Self::Bucket(key),
            (false, true) => Self::Folder(key),
            (false, false) => Self::Object(key),
        })
    }

    /// The bucket.
    pub fn bucket(self) -> Result<Key<'static>, Refusal> {
        match self {
            Self::Service => Err(NO_BUCKET),
            Self::Bucket(key) | Self::Object(key) | Self::Folder(key) => Ok(bucket_of(&key)),
        }
    }

    /// The object, which is no folder.
    pub fn object(self) -> Result<Key<'static>, Refusal> {
        match self {
            Self::Object(key) => Ok(key),
            _ => Err(BAD_ARGUMENT),
        }
    }
}

/// The bucket that the host names, as in `bucket.s3.example`.
fn virtual_bucket(asked: &RequestHead<'_>) -> Option<String> {
    let authority = str::from_utf8(asked.common.host()).ok()?;
    let host = host_and_port(authority).map_or(authority, |(host, _)| host);
    let host = host.to_ascii_lowercase();
    let mut hosts = asked.config.s3_hosts.iter();
    let bucket = hosts.find_map(|of| host.strip_suffix(&**of)?.strip_suffix('.'))?;
    (!bucket.is_empty()).then(|| bucket.to_owned())
}

/// The bucket that the object `key` is in.
pub fn bucket_of(key: &Key<'_>) -> Key<'static> {
    let name = key.as_str();
    let bucket = name.split_once('/').map_or(name, |(bucket, _)| bucket);
    Key::recorded(bucket.to_owned()).unwrap_or_else(|_| key.clone().into_owned())
}

/// The name of an object in its bucket.
pub fn name_of<'k>(key: &'k str, bucket: &Key<'_>) -> &'k str {
    key.get(bucket.as_str().len() + 1..).unwrap_or_default()
}

/// Refuses what is for a bucket that is not there.
pub async fn needs_bucket(request: &RequestContext, key: &Key<'_>) -> Result<(), Refusal> {
    check_bucket(&request.service.store, key).await
}

/// The same, of what needs its request no more.
pub async fn check_bucket(store: &Store, key: &Key<'_>) -> Result<(), Refusal> {
    let has_bucket = store.has_folder(&bucket_of(key)).await?;
    has_bucket.then_some(()).ok_or(NO_BUCKET)
}

/// That there is no object of this `key`, or not even its bucket.
pub async fn not_found(request: &RequestContext, key: &Key<'_>) -> Refusal {
    needs_bucket(request, key)
        .await
        .err()
        .unwrap_or(NO_SUCH_KEY)
}

/// As S3 has it: a version that is expected of an object that is not there is no such key.
pub async fn unless_gone<T>(
    directory: &Directory,
    key: &Key<'_>,
    wants: bool,
    stored: Result<T, Refusal>,
) -> Result<T, Refusal> {
    match stored {
        Err(why) if wants && why.kind == PRECONDITION.kind => {
            let is_there = directory.meta(key).await?.is_some();
            Err(if is_there { why } else { NO_SUCH_KEY })
        }
        stored => stored,
    }
}
