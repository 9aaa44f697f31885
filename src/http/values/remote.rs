//! Requests to an S3 store: what a client asks in one request, as requests that a store can answer.
//!
//! A condition that the store can decide by itself goes there with the request. Any other is decided here, for the version
//! that a HEAD shows, and the request that follows names that version; where it is another by then, all begins again.

use std::ops::Range;
use std::sync::Arc;

use hyper::Method;

use crate::http::body::content::RemotePart;
use crate::http::refusal::rejection::Rejection;
use crate::http::response::outcome::{Outcome, Published, RemoteResponse};
use crate::http::service::handler::Handler;
use crate::http::service::operation::GetOptions;
use crate::http::values::conditional::{Current, Preconditions, Selection, Single};
use crate::http::values::digest_fields::{Algorithm, field};
use crate::http::values::media;
use crate::http::values::representation::{Representation, Validators};
use crate::http::values::stored_fields::StoredFields;
use crate::s3::{Gateway, GetOutcome, ReadRequest, RemoteMeta, S3, WriteCondition, Written};
use crate::store::{Digest, Error, Key};

/// How often a request begins again when the value is another one each time.
const TRIES: usize = 8;

/// It was another value each time.
const CONTENDED: Error = Error::Busy { retry_after: 1 };

/// Whether a value is sent: a HEAD is answered without asking for the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    Value,
    HeadAlone,
}

impl Wants {
    fn method(self) -> Method {
        match self {
            Self::Value => Method::GET,
            Self::HeadAlone => Method::HEAD,
        }
    }
}

impl Handler {
    pub async fn get_remote(
        &self,
        s3: &Arc<S3>,
        key: Key<'static>,
        options: Option<&GetOptions>,
        wants: Wants,
    ) -> Result<Outcome, Outcome> {
        let is_plain = |options: &GetOptions| {
            options.preconditions.is_none() && options.ranges.is_empty() && options.digest.is_none()
        };
        let redirect_from = s3.settings().redirect_from;
        if wants == Wants::Value && redirect_from.is_none() && options.is_none_or(is_plain) {
            return self.get_whole(s3, &key, options).await;
        }
        let gateway = s3.gateway(self.reactor);
        for _ in 0..TRIES {
            let Some(meta) = gateway.head(&key).await? else {
                return Ok(Outcome::NoValue);
            };
            let mut found = self.selected(s3, &key, &meta, options)?;
            if is_elsewhere(&found, redirect_from) {
                let to = gateway.link(&wants.method(), &key)?;
                return Ok(Outcome::RedirectToStore { to });
            }
            if let Some(algorithm) = options.and_then(|options| options.digest) {
                let Some(digest) = digest(gateway, &key, &meta, algorithm).await? else {
                    continue;
                };
                found.digest = Some(digest);
            }
            let first = match (&found.selection, wants) {
                (Selection::NotModified(_), _) | (_, Wants::HeadAlone) => None,
                (Selection::Whole, _) => Some(None),
                (Selection::Part(range), _) => Some(Some(range.clone())),
                (Selection::Parts(ranges), _) => ranges.first().cloned().map(Some),
            };
            // An empty value has no range to ask for.
            let Some(range) = first.filter(|_| meta.len > 0) else {
                return Ok(Outcome::Remote(Box::new(found)));
            };
            let read = ReadRequest {
                range,
                only: Some(&meta.etag),
            };
            match gateway.get(&key, read).await? {
                GetOutcome::Value(_, body) => {
                    found.parts[0] = RemotePart::coming(body);
                    return Ok(Outcome::Remote(Box::new(found)));
                }
                GetOutcome::Gone => return Ok(Outcome::NoValue),
                GetOutcome::Changed => {}
            }
        }
        Err(CONTENDED.into())
    }

    /// All of a value, in one request to the store.
    async fn get_whole(
        &self,
        s3: &Arc<S3>,
        key: &Key<'static>,
        options: Option<&GetOptions>,
    ) -> Result<Outcome, Outcome> {
        match s3
            .gateway(self.reactor)
            .get(key, ReadRequest::default())
            .await?
        {
            GetOutcome::Value(meta, body) => {
                let mut found = self.selected(s3, key, &meta, options)?;
                found.parts = vec![RemotePart::coming(body)];
                Ok(Outcome::Remote(Box::new(found)))
            }
            GetOutcome::Gone | GetOutcome::Changed => Ok(Outcome::NoValue),
        }
    }

    /// The parts of the value that are to be sent; each asks the store when its turn comes.
    fn selected(
        &self,
        s3: &Arc<S3>,
        key: &Key<'static>,
        meta: &RemoteMeta,
        options: Option<&GetOptions>,
    ) -> Result<RemoteResponse, Outcome> {
        let media_type = media::of(key.as_str(), meta.media_type.as_deref(), false);
        let validators = Validators {
            etag: meta.etag.clone(),
            modified: meta.modified,
        };
        let fields = StoredFields::decode(&meta.fields);
        let representation = Representation::new(validators, media_type, fields, &self.config);
        let selection = options.map_or(Ok(Selection::Whole), |options| {
            options.select(&representation, meta.len)
        })?;
        let part = |range: &Range<u64>| {
            let (s3, reactor, range) = (Arc::clone(s3), self.reactor, range.clone());
            let (key, etag) = (key.clone(), meta.etag.clone());
            RemotePart::asked(range.end - range.start, async move {
                let read = ReadRequest {
                    range: Some(range),
                    only: Some(&etag),
                };
                match s3.gateway(reactor).get(&key, read).await? {
                    GetOutcome::Value(_, body) => Ok(body),
                    GetOutcome::Gone | GetOutcome::Changed => Err(Error::Truncated),
                }
            })
        };
        let parts = match &selection {
            Selection::NotModified(_) => Vec::new(),
            Selection::Whole => vec![part(&(0..meta.len))],
            Selection::Part(range) => vec![part(range)],
            Selection::Parts(ranges) => ranges.iter().map(part).collect(),
        };
        Ok(RemoteResponse {
            parts,
            len: meta.len,
            digest: None,
            representation,
            selection,
        })
    }

    /// Whether there was a value to remove.
    pub async fn delete_remote(
        &self,
        s3: &Arc<S3>,
        key: &Key<'_>,
        preconditions: Option<Preconditions>,
    ) -> Result<bool, Outcome> {
        let gateway = s3.gateway(self.reactor);
        let Some(preconditions) = preconditions else {
            return Ok(gateway.delete(key, None).await?);
        };
        gateway.takes_conditional_removals()?;
        for _ in 0..TRIES {
            let Some(meta) = gateway.head(key).await? else {
                return Ok(false);
            };
            swap(&preconditions, Some(&meta))?;
            match gateway.delete(key, Some(&meta.etag)).await {
                Err(Error::Precondition) => {}
                deleted => return Ok(deleted?),
            }
        }
        Err(CONTENDED.into())
    }
}

/// Whether the client is sent to the store for what is `found`. No store sends several ranges.
fn is_elsewhere(found: &RemoteResponse, redirect_from: Option<u64>) -> bool {
    redirect_from.is_some_and(|from| found.len >= from)
        && matches!(found.selection, Selection::Whole | Selection::Part(_))
}

/// The digest of a value as a field: kept by the store, or computed from all of it; `None` where it is another value now.
async fn digest(
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

/// The condition that a store can decide by itself; `None` where it cannot.
pub fn exact(preconditions: Option<&Preconditions>) -> Option<WriteCondition> {
    match preconditions.map(Preconditions::single) {
        None => Some(WriteCondition::Any),
        Some(Some(Single::IsNew)) => Some(WriteCondition::Create),
        Some(Some(Single::Is(etag))) => Some(WriteCondition::Swap(etag.to_owned())),
        Some(None) => None,
    }
}

/// Has `publish` make the value of `key` under `preconditions`; it is called with a condition that the store can decide.
pub async fn publish_under(
    gateway: Gateway<'_>,
    key: &Key<'_>,
    preconditions: Option<&Preconditions>,
    mut publish: impl AsyncFnMut(&WriteCondition) -> Result<Written, Error>,
) -> Result<Published, Outcome> {
    let Some(preconditions) = preconditions else {
        return Ok(Published::Tag(publish(&WriteCondition::Any).await?.etag));
    };
    if let Some(condition) = exact(Some(preconditions)) {
        return Ok(Published::Tag(publish(&condition).await?.etag));
    }
    for _ in 0..TRIES {
        let current = gateway.head(key).await?;
        match publish(&swap(preconditions, current.as_ref())?).await {
            Err(Error::Precondition) => {}
            written => return Ok(Published::Tag(written?.etag)),
        }
    }
    Err(CONTENDED.into())
}

/// The condition under which a write replaces `current` and nothing else, if `preconditions` let it.
pub fn swap(
    preconditions: &Preconditions,
    current: Option<&RemoteMeta>,
) -> Result<WriteCondition, Outcome> {
    let known = current.map(|meta| Current {
        etag: &meta.etag,
        variants: &[],
        modified: meta.modified,
    });
    if !preconditions.for_write(known) {
        return Err(Rejection::Precondition.into());
    }
    Ok(current.map_or(WriteCondition::Create, |meta| {
        WriteCondition::Swap(meta.etag.clone())
    }))
}
