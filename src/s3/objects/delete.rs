//! Removing a value.
//!
//! A store answers the same whether there was a value or not. So it is looked for first: of several removals at once, more
//! than one may find it.

use hyper::Method;
use hyper::header::IF_MATCH;
use tokio::time::Instant;

use crate::s3::transport::answer::Failure;
use crate::s3::transport::call::Call;
use crate::s3::transport::client::{Client, Found};
use crate::s3::transport::send_body::SendBody;
use crate::s3::transport::sign::NOTHING;
use crate::s3::transport::tries::Tries;
use crate::value::{Error, Key};

/// Removes the value of `key`, of the version `only` where there is one; false when there was none.
pub async fn delete(client: &Client, key: &Key<'_>, only: Option<&str>) -> Result<bool, Error> {
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
        let asked = client.ask(&call, SendBody::Empty, NOTHING, until).await;
        let Err(failure) = asked else {
            return Ok(true);
        };
        let may_be_made = tries.may_have_been_made();
        let ended = match failure {
            // By an earlier try, or by another writer.
            Failure::Refused(refusal)
                if may_be_made
                    && only.is_some()
                    && (refusal.is_missing() || refusal.is_changed()) =>
            {
                Err(Error::OutcomeUnknown { is_late: false })
            }
            Failure::Refused(refusal) if refusal.is_missing() => return Ok(may_be_made),
            failure => tries.again_after_nothing(failure).await,
        };
        let is_unknown = matches!(ended, Err(Error::OutcomeUnknown { .. }));
        client.counters().unknown.add(u64::from(is_unknown));
        ended?;
    }
}
