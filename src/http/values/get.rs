//! GET: from a key to the answer with its value, or with the part of it that is asked for.
//!
//! The response is decided for the version that was found, and has the bytes of that version. If an S3 store has
//! another version when it is asked for the bytes, the GET starts again.

use std::sync::Arc;

use hyper::header::{CONTENT_RANGE, HeaderMap, IF_RANGE, LOCATION, RANGE};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use crate::http::body::sources::Encoded;
use crate::http::head::accept::takes_gzip;
use crate::http::head::range::{ranges, unsatisfied};
use crate::http::head::syntax::put;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::PRECONDITION;
use crate::http::refusal::kind::Kind;
use crate::http::request::{RequestContext, Service};
use crate::http::response::{Reply, TEXT, unstored};
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::{Selection, if_range, preconditions};
use crate::http::values::digest_fields::{Algorithm, field, want};
use crate::http::values::representation::{
    MIN_COMPRESSED, RepresentedValue, ValueResponse, answered,
};
use crate::http::values::siblings::sibling;
use crate::store::{CONTENDED, Current, Found, Key, Preconditions, Purpose, TRIES, Verdict};

/// The options of a GET: preconditions, ranges, a digest, a coding.
#[derive(Debug)]
pub struct GetOptions {
    pub preconditions: Option<Preconditions>,
    /// Range and If-Range, of a GET: the one method that has ranges (RFC 9110, section 14.2).
    pub ranges: HeaderMap,
    pub digest: Option<Algorithm>,
    pub takes_gzip: bool,
    /// The query, which a browser that is led to a folder keeps.
    pub query: Option<Box<str>>,
}

const UNSATISFIABLE: &Kind = &Kind::new(StatusCode::RANGE_NOT_SATISFIABLE, "range-not-satisfiable");

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
            preconditions: preconditions(&head.headers),
            ranges,
            digest: want(&head.headers),
            takes_gzip: config.compress && takes_gzip(&head.headers),
            query: head.uri.query().map(Into::into),
        }
    }

    /// The same without what holds for an answer of 200 alone (RFC 9110, section 13.2.1): all of the value.
    pub fn of_whole(&self) -> Self {
        Self {
            preconditions: None,
            ranges: HeaderMap::new(),
            digest: self.digest,
            takes_gzip: self.takes_gzip,
            query: None,
        }
    }

    /// True where all of the value is wanted, whatever it is.
    fn want_all(&self) -> bool {
        self.preconditions.is_none() && self.ranges.is_empty() && self.digest.is_none()
    }

    /// True where all of `value` is sent compressed. A digest is of the value as it is.
    fn compress(&self, value: &RepresentedValue) -> bool {
        self.takes_gzip
            && self.digest.is_none()
            && value.representation().is_compressible()
            && value.found.len() > MIN_COMPRESSED
            && matches!(value.found, Found::File(_))
    }

    /// Selects the part of `value` that is sent: by preconditions first, then by ranges (RFC 9110, section 13.2.2).
    fn select(&self, value: &RepresentedValue) -> Result<Selection, Refusal> {
        let (representation, len) = (value.representation(), value.found.len());
        let mut current = representation.current();
        if representation.is_compressible() && !self.compress(value) {
            // The client does not get the compressed form, so it is not what it has, nor what it expects.
            current.variant = None;
        }
        if let Some(preconditions) = &self.preconditions {
            match preconditions.for_read(Some(current)) {
                Verdict::Failed => return Err(PRECONDITION),
                Verdict::NotModified(etag) => return Ok(Selection::NotModified(etag.to_owned())),
                Verdict::Proceed => {}
            }
            let plain = Current {
                variant: None,
                ..current
            };
            if preconditions.for_read(Some(plain)) == Verdict::Failed {
                // The client expects another form than the one that ranges are of.
                return Ok(Selection::Whole);
            }
        }
        if self.ranges.is_empty() || !if_range(&self.ranges, current) {
            return Ok(Selection::Whole);
        }
        // A client that decodes the coding would take the framing of several parts for coded bytes. Many short parts
        // would be longer than the value.
        let are_worth_it = |parts: &[_]| {
            !representation.is_coded()
                && parts.len() <= value.max_parts()
                && representation.len_of(parts, len) <= len
        };
        let Some(mut parts) = ranges(&self.ranges, len) else {
            return Ok(Selection::Whole);
        };
        match parts.len() {
            0 => Err(unsatisfiable(len)),
            1 => Ok(Selection::Part(parts.remove(0))),
            _ if are_worth_it(&parts) => Ok(Selection::Parts(parts)),
            _ => Ok(Selection::Whole),
        }
    }
}

/// What answers a GET of a key that has a value.
pub enum GetOutcome {
    Value(ValueResponse),
    /// The value has this address at the store for a few minutes.
    Elsewhere(String),
}

impl From<GetOutcome> for Reply {
    fn from(outcome: GetOutcome) -> Self {
        match outcome {
            GetOutcome::Value(response) => answered(response),
            GetOutcome::Elsewhere(to) => {
                // For a client that does not follow.
                let text = "the value is at the address in Location, for a few minutes\n";
                let response = unstored(StatusCode::TEMPORARY_REDIRECT, TEXT, text);
                Self::from(response).with(|headers| put(headers, LOCATION, to))
            }
        }
    }
}

#[cold]
fn unsatisfiable(len: u64) -> Refusal {
    let why = format!("no range lies within the value ({len} bytes)");
    let mut refusal = UNSATISFIABLE.because(why);
    put(&mut refusal.more().fields, CONTENT_RANGE, unsatisfied(len));
    refusal
}

/// The value of `key`, for a `site` maybe its sibling; `None` where there is none. A HEAD is answered without asking an
/// S3 store for the value itself.
pub async fn get(
    request: &RequestContext,
    key: &Key<'_>,
    options: Option<&GetOptions>,
    codings: Option<&[usize]>,
) -> Result<Option<GetOutcome>, Refusal> {
    let (service, is_head) = (&*request.service, request.is_head());
    let all = !is_head && codings.is_none() && options.is_none_or(GetOptions::want_all);
    for nth in 0..TRIES {
        let value = service
            .store
            .get(service.reactor, key, all, Purpose::Use)
            .await?;
        if let Some(directory) = service.store.directory().filter(|_| nth == 0) {
            directory.count_request(key, value.is_some());
        }
        let Some(value) = value else {
            return Ok(None);
        };
        let mut value = RepresentedValue::new(value, key, &service.config);
        if let Some(codings) = codings
            && let Some(coded) = Box::pin(sibling(request, key, codings, &value)).await
        {
            value = coded;
        }
        let mut response = found(service, value, options)?;
        let value = &mut response.value;
        // No store sends several ranges. The links of a page lead nowhere at the store.
        if codings.is_none()
            && let Selection::Whole | Selection::Part(_) = response.selection
            && let Some(to) = value.found.link(is_head)?
        {
            return Ok(Some(GetOutcome::Elsewhere(to)));
        }
        if let Some(algorithm) = options.and_then(|options| options.digest) {
            let sha512 = algorithm == Algorithm::Sha512;
            let Some(digest) = service.store.digest(&value.found, sha512).await? else {
                continue;
            };
            response.digest = Some(field(&digest));
        }
        let first = response.selection.first(value.found.len());
        if let Some(first) = first.filter(|_| !is_head)
            && !value.found.open_range(first).await?
        {
            continue;
        }
        return Ok(Some(GetOutcome::Value(response)));
    }
    Err(CONTENDED.into())
}

/// The answer with a `value` that was found, without its digest.
pub fn found(
    service: &Service,
    value: RepresentedValue,
    options: Option<&GetOptions>,
) -> Result<ValueResponse, Refusal> {
    let (mut selection, mut encoded) = (Selection::Whole, None);
    if let Some(options) = options {
        selection = options.select(&value)?;
        if selection == Selection::Whole
            && options.compress(&value)
            && let Found::File(object) = &value.found
        {
            let compute = service.store.compute().clone();
            encoded = Some(Box::new(Encoded::new(Arc::clone(object), compute)));
        }
    }
    Ok(ValueResponse {
        value,
        selection,
        digest: None,
        encoded,
    })
}
