//! GET: from a key to the answer with its value, or with what of it is wanted.

use std::sync::Arc;
use std::time::SystemTime;

use hyper::Method;
use hyper::header::{HeaderMap, IF_RANGE, RANGE};
use hyper::http::request::Parts;

use crate::http::exchange::ConnectionState;
use crate::http::refusal::rejection::Rejection;
use crate::http::response::outcome::{Outcome, ValueResponse};
use crate::http::service::handler::Handler;
use crate::http::service::operation::GetOptions;
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::{Preconditions, Selection, select};
use crate::http::values::digest_fields::{Algorithm, WANT_REPR_DIGEST, field, want};
use crate::http::values::encoded::{Encoded, MIN_COMPRESSED, takes_gzip};
use crate::http::values::representation::{Representation, ShownValue};
use crate::store::{Directory, Error, Key, Object, Store};

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
            digest: want(&head.headers, &WANT_REPR_DIGEST),
            takes_gzip: config.compress && takes_gzip(&head.headers),
        }
    }

    /// Selects what of a value of `len` bytes is sent as this `representation`.
    pub fn select(
        &self,
        representation: &Representation,
        len: u64,
    ) -> Result<Selection, Rejection> {
        let (preconditions, now) = (self.preconditions.as_ref(), SystemTime::now());
        let selection = representation
            .current(|current| select(preconditions, &self.ranges, current, len, now))?;
        Ok(match selection {
            // A client that decodes what it receives would take the framing of several parts for coded bytes.
            Selection::Parts(_) if representation.is_coded() => Selection::Whole,
            selection => selection,
        })
    }
}

impl Handler {
    /// The value of `key`, if it is hot.
    pub fn cached(&self, key: &Key<'_>, connection: &ConnectionState) -> Option<Arc<Object>> {
        let Store::Directory(directory) = &*self.store else {
            return None;
        };
        let found = directory.get_cached(key);
        let counters = connection.metrics().counters();
        match found {
            Some(_) => counters.cache.hits.add(1),
            None => counters.cache.misses.add(1),
        }
        found
    }

    pub async fn get(
        &self,
        directory: &Directory,
        key: &Key<'_>,
        options: Option<&GetOptions>,
    ) -> Result<Outcome, Outcome> {
        let Some(object) = directory.get(key).await? else {
            return Ok(Outcome::NoValue);
        };
        let digest = match options.and_then(|options| options.digest) {
            Some(algorithm) => Some(digest(directory, &object, algorithm).await?),
            None => None,
        };
        Ok(self.found(object, key, options, digest))
    }

    /// The answer with `object`, the value of `key`, or with what of it is wanted.
    pub fn found(
        &self,
        object: Arc<Object>,
        key: &Key<'_>,
        options: Option<&GetOptions>,
        digest: Option<String>,
    ) -> Outcome {
        let value = ShownValue::new(object, key, &self.config);
        let Some(options) = options else {
            return Outcome::Value(ValueResponse::whole(value, digest));
        };
        let len = value.object().meta().len;
        let representation = value.representation();
        let selection = match options.select(representation, len) {
            Ok(selection) => selection,
            Err(why) => return why.into(),
        };
        // The digest would be that of the value as it is.
        let is_whole = selection == Selection::Whole && digest.is_none();
        let is_worth_it = representation.is_compressible && len > MIN_COMPRESSED;
        let encoded = (options.takes_gzip && is_whole && is_worth_it).then(|| {
            let object = Arc::clone(value.object());
            Box::new(Encoded::new(object, self.store.compute().clone()))
        });
        Outcome::Value(ValueResponse {
            value,
            selection,
            digest,
            encoded,
        })
    }
}

/// The digest of `object` as a field: kept with it, or computed where that keeps no reactor busy.
async fn digest(
    directory: &Directory,
    object: &Arc<Object>,
    algorithm: Algorithm,
) -> Result<String, Error> {
    let (sha512, keep) = (algorithm == Algorithm::Sha512, directory.is_writable());
    let digest = object.digest(sha512, keep, directory.compute());
    Ok(field(&digest.await?))
}
