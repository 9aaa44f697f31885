//! Removing a value.
//!
//! A store answers the same whether there was a value or not. So it is looked for first: of several removals at once, more
//! than one may find it.

use hyper::Method;
use hyper::header::IF_MATCH;
use tokio::time::Instant;

use super::super::error::Error;
use super::super::key::Key;
use super::answer::Failure;
use super::call::Call;
use super::client::{Client, Found};
use super::send_body::SendBody;
use super::sign::NOTHING;
use super::tries::Tries;

/// Removes the value of `key`, of the version `only` where there is one; false when there was none.
pub(super) async fn delete(
    client: &Client,
    key: &Key<'_>,
    only: Option<&str>,
) -> Result<bool, Error> {
    let look = Call::object(Method::HEAD, client.place(), key)?;
    if let Found::Missing = client.read(&look).await? {
        return Ok(false);
    }
    let mut call = Call::named(Method::DELETE, look.object);
    if let Some(etag) = only {
        call = call.with(IF_MATCH, etag)?;
    }
    let until = Instant::now() + client.timeout();
    let mut tries = Tries::until(until, client.counters());
    loop {
        let failure = match client.ask(&call, SendBody::Empty, NOTHING, until).await {
            Ok(_) => return Ok(true),
            Err(Failure::Refused(refusal)) if refusal.is_missing() => return Ok(false),
            Err(failure) => failure,
        };
        let ended = tries.again_after_nothing(failure).await;
        let is_unknown = matches!(ended, Err(Error::OutcomeUnknown { .. }));
        client.counters().unknown.add(u64::from(is_unknown));
        ended?;
    }
}
