//! PUT: from a body as it arrives to a value that is published.
//!
//! Promises that a refused upload is not read, and that a body that breaks off, or has not the digests sent with it, is
//! never stored.

use crate::http::request::body::Received;
use crate::http::request::operation::PutOptions;
use crate::http::request::rejection::Rejection;
use crate::http::response::outcome::Outcome;
use crate::http::response::representation::etag;
use crate::http::semantics::coding::{Coding, variant};
use crate::http::semantics::conditional::{Current, Preconditions};
use crate::http::semantics::digest_fields::Expected;
use crate::http::service::handler::Handler;
use crate::metrics::ReactorCounters;
use crate::store::{Condition, Digests, Key, Meta, Wanted};

impl Handler {
    pub(in crate::http) async fn put(
        &self,
        key: Key<'static>,
        len: Option<u64>,
        options: PutOptions,
        body: &mut Received<'_>,
        counters: &ReactorCounters,
    ) -> Result<Outcome, Outcome> {
        if let Some(preconditions) = &options.preconditions {
            // Decided when the value is published; asked here too, so that what must fail is not received first.
            let current = self.store.get(&key).await?;
            if !holds(preconditions, current.map(|object| object.meta())) {
                return Err(Rejection::Precondition.into());
            }
        }
        let _in_flight = InFlight::begin(counters);
        let mut upload = self.store.upload(len).await?;
        if let Some(media_type) = &options.media_type {
            upload.set_media_type(media_type);
        }
        if let Some(fields) = options.fields.encode() {
            upload.set_fields(fields);
        }
        let wanted = wanted(&options);
        if !wanted.is_none() {
            upload.hash(wanted, self.store.compute().clone());
        }
        match body.source().filter(|_| wanted.is_none()) {
            Some(mut rest) => upload.receive(&mut rest).await?,
            None => {
                while let Some(data) = body.next().await? {
                    upload.push(data).await?;
                }
            }
        }
        let trailers = body.trailers().map(Expected::of).transpose();
        let trailers = trailers.map_err(Rejection::from)?.unwrap_or_default();
        let expected = options.expected.and(trailers).map_err(Rejection::from)?;
        // A trailer that was not announced asks for digests only now.
        let wanted = wanted.union(wanted_by(&expected));
        if !wanted.is_none() {
            let digests = upload.digests(wanted, self.store.compute()).await?;
            verify(&expected, &digests)?;
        }
        let condition = options.preconditions.map(condition);
        // Aside, so that uploads still being received need no room for it.
        let published = Box::pin(self.store.put(key, upload, condition)).await?;
        Ok(Outcome::Stored(published))
    }
}

/// An upload going on, in the counts of its reactor.
struct InFlight<'a>(&'a ReactorCounters);

impl<'a> InFlight<'a> {
    fn begin(counters: &'a ReactorCounters) -> Self {
        counters.uploads.started.add(1);
        Self(counters)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.uploads.finished.add(1);
    }
}

/// `preconditions` as the publisher asks them, at the moment of publishing.
pub(in crate::http) fn condition(preconditions: Preconditions) -> Condition {
    Box::new(move |current| holds(&preconditions, current))
}

fn holds(preconditions: &Preconditions, current: Option<Meta>) -> bool {
    let Some(meta) = current else {
        return preconditions.for_write(None);
    };
    let etag = etag(meta.version);
    let variants = Coding::ALL.map(|coding| variant(&etag, coding));
    preconditions.for_write(Some(Current {
        etag: &etag,
        variants: &variants.each_ref().map(String::as_str),
        modified: meta.version.time(),
    }))
}

/// The digests to compute of an upload: those it is to be compared with, or all that might follow.
fn wanted(options: &PutOptions) -> Wanted {
    if options.digests_follow {
        return Wanted::ALL;
    }
    wanted_by(&options.expected)
}

fn wanted_by(expected: &Expected) -> Wanted {
    Wanted {
        sha256: expected.sha256.is_some(),
        sha512: expected.sha512.is_some(),
        md5: expected.md5.is_some(),
    }
}

fn verify(expected: &Expected, digests: &Digests) -> Result<(), Rejection> {
    let same = (expected.sha256.is_none() || expected.sha256 == digests.sha256)
        && (expected.sha512.is_none() || expected.sha512 == digests.sha512)
        && (expected.md5.is_none() || expected.md5 == digests.md5);
    if same {
        Ok(())
    } else {
        Err(Rejection::DigestMismatch)
    }
}
