//! Whether a write was made whose answer was lost: each one carries a number of its own, which is kept with the value.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use hyper::Method;
use hyper::header::ETAG;
use tokio::time::Instant;

use crate::s3::contract::Written;
use crate::s3::transport::call::{Call, NONCE};
use crate::s3::transport::client::{Client, Found};
use crate::s3::transport::head::text;

/// The shortest time that is taken to find out.
const AT_LEAST: Duration = Duration::from_millis(1500);

/// A number that no other write has: 128 bits, drawn at random.
pub fn nonce() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// What became of `write`, which carries a nonce: it was made, where the object carries the same. Otherwise it is not known:
/// another write may have come after it, or it may yet be made.
pub async fn find(client: &Client, write: &Call, until: Instant) -> Option<Written> {
    let call = Call::named(Method::HEAD, write.object.clone());
    let until = until.max(Instant::now() + AT_LEAST);
    let Ok(Found::Answer(answer)) = client.read_until(&call, until).await else {
        return None;
    };
    let is_ours = write.headers.get(NONCE)? == answer.headers.get(NONCE)?;
    let etag = text(&answer.headers, &ETAG)?;
    is_ours.then(|| Written {
        etag: etag.to_owned(),
    })
}
