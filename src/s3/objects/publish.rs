//! The end of an upload: what makes the value that was sent, or was kept in a file, the value of its key.

use std::sync::Arc;

use tokio::time::Instant;

use super::multipart::{Multipart, ONE_REQUEST};
use super::put::{refused, settle, settle_again, written};
use super::sending::Sending;
use super::spool::Spool;
use crate::s3::contract::{Exact, Written};
use crate::s3::transport::answer::Failure;
use crate::s3::transport::call::Call;
use crate::s3::transport::client::Client;
use crate::s3::transport::tries::{Tries, error, outcome};
use crate::value::Error;

/// Ends the one request that `sending` is.
pub async fn publish_whole(
    client: &Client,
    call: &Call,
    sending: Sending,
    condition: &Exact,
) -> Result<Written, Error> {
    let until = Instant::now() + client.timeout();
    match sending.finish().await {
        Ok(answer) => written(&answer.headers),
        Err(Failure::Refused(refusal)) => Err(refused(refusal, condition)),
        Err(failure) => settle(client, call, until, outcome(failure)).await,
    }
}

/// Has the parts joined.
pub async fn publish_parts(
    client: &Client,
    call: &Call,
    parts: Multipart,
    condition: &Exact,
) -> Result<Written, Error> {
    let until = Instant::now() + client.timeout();
    match parts.finish(condition).await {
        Err(error) => settle(client, call, until, error).await,
        made => made,
    }
}

/// Sends what `spool` holds, all of which is written.
pub async fn publish_spool(
    client: &Arc<Client>,
    call: &Call,
    spool: &Spool,
    sha256: Option<[u8; 32]>,
    condition: &Exact,
) -> Result<Written, Error> {
    if spool.len() > ONE_REQUEST {
        let mut parts = Multipart::begin(client, call, spool.len()).await?;
        let mut sent = 0;
        while sent < spool.len() {
            let data = spool.read(sent, spool.len()).await?;
            sent += data.len() as u64;
            parts.push(data).await.map_err(error)?;
        }
        return publish_parts(client, call, parts, condition).await;
    }
    let until = Instant::now() + client.timeout();
    let mut tries = Tries::until(until, client.counters());
    let conditional = call.clone().under(condition)?;
    loop {
        let mut sending = Sending::begin(client, &conditional, spool.len(), sha256)?;
        if let Err(failure) = fill(&mut sending, spool).await {
            if let Failure::Refused(refusal) = failure {
                let error = refused(refusal, condition);
                return settle_again(client, call, &tries, error).await;
            }
            // Without its end it was not made: it may be sent again.
            tries.again_after(failure).await?;
            continue;
        }
        let failure = match sending.finish().await {
            Ok(answer) => return written(&answer.headers),
            Err(Failure::Refused(refusal)) => {
                let error = refused(refusal, condition);
                return settle_again(client, call, &tries, error).await;
            }
            Err(failure) => failure,
        };
        if let Err(error) = tries.again_after_nothing(failure).await {
            return settle(client, call, until, error).await;
        }
    }
}

/// Gives `sending` all that `spool` holds.
async fn fill(sending: &mut Sending, spool: &Spool) -> Result<(), Failure> {
    let mut sent = 0;
    while sent < spool.len() {
        let data = spool
            .read(sent, spool.len())
            .await
            .map_err(Failure::Unfit)?;
        sent += data.len() as u64;
        sending.push(data).await?;
    }
    Ok(())
}
