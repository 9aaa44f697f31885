//! GET: from a key to the answer with its value, or with the part of it that is asked for.
//!
//! An S3 store is asked once where all of a value is wanted. Anything else is decided here, for the version that a HEAD shows, and
//! the request that follows names that version; where the value is another one by then, all begins again.

use std::ops::Range;
use std::sync::Arc;

use hyper::Method;
use hyper::header::{HeaderMap, IF_RANGE, RANGE};
use hyper::http::request::Parts;

use crate::http::body::sources::{Encoded, RemotePart};
use crate::http::exchange::ConnectionState;
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;
use crate::http::service::handler::Handler;
use crate::http::service::operation::GetOptions;
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::{Preconditions, Selection, select};
use crate::http::values::digest_fields::{Algorithm, field, want};
use crate::http::values::fields::StoredFields;
use crate::http::values::media;
use crate::http::values::representation::{
    FoundValue, MIN_COMPRESSED, RemoteValue, Representation, ShownValue, Validators, ValueResponse,
    takes_gzip,
};
use crate::http::values::upload::{CONTENDED, TRIES};
use crate::s3::{Gateway, GetOutcome, ReadRequest, RemoteMeta, S3};
use crate::store::{Digest, Directory, Error, Key, Object, Store};

/// The most parts of a value of an S3 store: each is a request to the store.
const MAX_REMOTE_PARTS: usize = 16;

impl GetOptions {
    pub fn of(head: &Parts, config: &ServiceConfig) -> Self {
        let mut ranges = HeaderMap::new();
        if head.method == Method::GET {
            for name in [RANGE, IF_RANGE] {
                for value in head.headers.get_all(&name) {
                    ranges.append(&name, value.clone());
                }
            }
        }
        Self {
            preconditions: Preconditions::of(&head.headers),
            ranges,
            digest: want(&head.headers),
            takes_gzip: config.compress && takes_gzip(&head.headers),
        }
    }

    /// Selects the part that is sent of a value of `len` bytes in this `representation`.
    pub fn select(&self, representation: &Representation, len: u64) -> Result<Selection, Refusal> {
        let (preconditions, current) = (self.preconditions.as_ref(), representation.current());
        let selection = select(preconditions, &self.ranges, current, len)?;
        Ok(match selection {
            // A client that decodes the coding would take the framing of several parts for coded bytes. Many short parts would be
            // longer than the value.
            Selection::Parts(parts)
                if representation.is_coded() || representation.len_of(&parts, len) > len =>
            {
                Selection::Whole
            }
            selection => selection,
        })
    }
}

impl Handler {
    /// The value of `key`, if it is in the cache.
    pub fn cached(&self, key: &Key<'_>, connection: &ConnectionState) -> Option<Arc<Object>> {
        let Store::Directory(directory) = &*self.store else {
            return None;
        };
        let found = directory.get_cached(key);
        let counters = connection.metrics().counters();
        match found {
            Some(_) => counters.cache_hits.add(1),
            None => counters.cache_misses.add(1),
        }
        found
    }

    /// Answers a value of a directory.
    pub async fn get(
        &self,
        directory: &Directory,
        key: &Key<'_>,
        options: Option<&GetOptions>,
    ) -> Result<Outcome, Refusal> {
        let Some(object) = directory.get(key).await? else {
            return Ok(Outcome::NoValue);
        };
        let digest = match options.and_then(|options| options.digest) {
            Some(algorithm) => Some(digest(directory, &object, algorithm).await?),
            None => None,
        };
        self.found(object, key, options, digest)
    }

    /// The answer with `object`, the value of `key`.
    pub fn found(
        &self,
        object: Arc<Object>,
        key: &Key<'_>,
        options: Option<&GetOptions>,
        digest: Option<String>,
    ) -> Result<Outcome, Refusal> {
        let value = ShownValue::new(object, key, &self.config);
        let (mut selection, mut encoded) = (Selection::Whole, None);
        if let Some(options) = options {
            let (representation, len) = (value.representation(), value.object().meta().len);
            selection = options.select(representation, len)?;
            // A digest is of the value as it is.
            let is_whole = selection == Selection::Whole && digest.is_none();
            let is_worth_it = representation.is_compressible && len > MIN_COMPRESSED;
            encoded = (options.takes_gzip && is_whole && is_worth_it).then(|| {
                let object = Arc::clone(value.object());
                Box::new(Encoded::new(object, self.store.compute().clone()))
            });
        }
        Ok(Outcome::Value(ValueResponse {
            value: FoundValue::Directory(value),
            selection,
            digest,
            encoded,
        }))
    }

    /// Answers a value of an S3 store. A HEAD is answered without asking for the value itself.
    pub async fn get_remote(
        &self,
        s3: &Arc<S3>,
        key: Key<'static>,
        options: Option<&GetOptions>,
        is_head: bool,
    ) -> Result<Outcome, Refusal> {
        let is_plain = |options: &GetOptions| {
            options.preconditions.is_none() && options.ranges.is_empty() && options.digest.is_none()
        };
        let redirect_from = s3.settings().redirect_from;
        if !is_head && redirect_from.is_none() && options.is_none_or(is_plain) {
            return self.get_whole(s3, &key, options).await;
        }
        let gateway = s3.gateway(self.reactor);
        for _ in 0..TRIES {
            let Some(meta) = gateway.head(&key).await? else {
                return Ok(Outcome::NoValue);
            };
            let (mut value, selection) = self.selected(s3, &key, &meta, options)?;
            // No store sends several ranges.
            if redirect_from.is_some_and(|from| meta.len >= from)
                && matches!(selection, Selection::Whole | Selection::Part(_))
            {
                let method = if is_head { Method::HEAD } else { Method::GET };
                let to = gateway.link(&method, &key)?;
                return Ok(Outcome::RedirectToStore { to });
            }
            let mut digest = None;
            if let Some(algorithm) = options.and_then(|options| options.digest) {
                digest = remote_digest(gateway, &key, &meta, algorithm).await?;
                if digest.is_none() {
                    continue;
                }
            }
            let first = match &selection {
                // An empty value has no range to ask for.
                _ if is_head || meta.len == 0 => None,
                Selection::NotModified(_) => None,
                Selection::Whole => Some(None),
                Selection::Part(range) => Some(Some(range.clone())),
                Selection::Parts(ranges) => ranges.first().cloned().map(Some),
            };
            if let Some(range) = first {
                let read = ReadRequest {
                    range,
                    only: Some(&meta.etag),
                };
                match gateway.get(&key, read).await? {
                    GetOutcome::Value(_, body) => value.parts[0] = RemotePart::Coming(body),
                    GetOutcome::Gone => return Ok(Outcome::NoValue),
                    GetOutcome::Changed => continue,
                }
            }
            return Ok(found_remotely(value, selection, digest));
        }
        Err(CONTENDED.into())
    }

    /// Answers all of a value, by one request to the store.
    async fn get_whole(
        &self,
        s3: &Arc<S3>,
        key: &Key<'static>,
        options: Option<&GetOptions>,
    ) -> Result<Outcome, Refusal> {
        let gateway = s3.gateway(self.reactor);
        match gateway.get(key, ReadRequest::default()).await? {
            GetOutcome::Value(meta, body) => {
                let (mut value, selection) = self.selected(s3, key, &meta, options)?;
                value.parts = vec![RemotePart::Coming(body)];
                Ok(found_remotely(value, selection, None))
            }
            GetOutcome::Gone | GetOutcome::Changed => Ok(Outcome::NoValue),
        }
    }

    /// The value with the parts of it that are to be sent; each part is asked for when its turn comes.
    fn selected(
        &self,
        s3: &Arc<S3>,
        key: &Key<'static>,
        meta: &RemoteMeta,
        options: Option<&GetOptions>,
    ) -> Result<(Box<RemoteValue>, Selection), Refusal> {
        let media_type = media::of(key.as_str(), meta.media_type.as_deref(), false);
        let validators = Validators {
            etag: meta.etag.clone(),
            modified: meta.modified,
        };
        let fields = StoredFields::decode(&meta.fields).with_coding_of(key.as_str());
        let representation = Representation::new(validators, media_type, fields, &self.config);
        let selection = options.map_or(Ok(Selection::Whole), |options| {
            options.select(&representation, meta.len)
        })?;
        let selection = match selection {
            Selection::Parts(parts) if parts.len() > MAX_REMOTE_PARTS => Selection::Whole,
            selection => selection,
        };
        let part = |range: &Range<u64>| {
            let (s3, reactor, range) = (Arc::clone(s3), self.reactor, range.clone());
            let (key, etag) = (key.clone(), meta.etag.clone());
            let len = range.end - range.start;
            let ask = async move {
                let read = ReadRequest {
                    range: Some(range),
                    only: Some(&etag),
                };
                match s3.gateway(reactor).get(&key, read).await? {
                    GetOutcome::Value(_, body) => Ok(body),
                    GetOutcome::Gone | GetOutcome::Changed => Err(Error::Truncated),
                }
            };
            RemotePart::Asking(len, Box::pin(ask))
        };
        let parts = match &selection {
            Selection::NotModified(_) => Vec::new(),
            Selection::Whole => vec![part(&(0..meta.len))],
            Selection::Part(range) => vec![part(range)],
            Selection::Parts(ranges) => ranges.iter().map(part).collect(),
        };
        let value = RemoteValue {
            representation,
            len: meta.len,
            parts,
        };
        Ok((Box::new(value), selection))
    }
}

fn found_remotely(
    value: Box<RemoteValue>,
    selection: Selection,
    digest: Option<String>,
) -> Outcome {
    Outcome::Value(ValueResponse {
        value: FoundValue::S3(value),
        selection,
        digest,
        encoded: None,
    })
}

/// The digest of `object` as a field: kept with it, or computed on the compute threads.
async fn digest(
    directory: &Directory,
    object: &Arc<Object>,
    algorithm: Algorithm,
) -> Result<String, Error> {
    let (sha512, keep) = (algorithm == Algorithm::Sha512, directory.is_writable());
    let digest = object.digest(sha512, keep, directory.compute());
    Ok(field(&digest.await?))
}

/// The digest of a value as a field: kept by the store, or computed from all of it; `None` where the value is another one now.
async fn remote_digest(
    gateway: Gateway<'_>,
    key: &Key<'_>,
    meta: &RemoteMeta,
    algorithm: Algorithm,
) -> Result<Option<String>, Error> {
    if let (Some(digest), Algorithm::Sha256) = (meta.sha256, algorithm) {
        return Ok(Some(field(&Digest::Sha256(digest))));
    }
    let sha512 = algorithm == Algorithm::Sha512;
    let digest = gateway.digest(key, &meta.etag, sha512).await?;
    Ok(digest.as_ref().map(field))
}
