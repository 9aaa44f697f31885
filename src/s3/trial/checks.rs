//! The checks of a trial. Writes: their conditions, one request at a time and many at once, of which one may be made;
//! and uploads that are cut off or have a wrong checksum. Reads: what is written through one endpoint is what all
//! others have.

use std::ptr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Either;

use super::requests::{CheckEffort, StoreTrial, TrialOutcome};
use crate::s3::contract::{ContractError, ContractReport, What, WriteCondition, explained, fails};
use crate::s3::transport::body::feed;
use crate::value::Error;

/// An entity tag of other bytes than the check's.
const STALE: &str = "\"00000000000000000000000000000000\"";

/// Changes that are made at once.
const RACERS: usize = 8;

/// Tries the conditions one request at a time.
pub async fn one_at_a_time(trial: &StoreTrial, report: &mut ContractReport) -> Result<(), Error> {
    report.add(What::Create, create(trial).await)?;
    report.add(What::Swap, swap(trial).await)?;
    report.add(What::Remove, remove(trial).await)
}

async fn create(trial: &StoreTrial) -> Result<usize, ContractError> {
    let object = trial.object();
    trial.place(&object, "old").await?;
    let condition = WriteCondition::Create;
    let over = trial.put(&object, "created", &condition).await;
    over.must_be_refused("PUT with If-None-Match: * over a value")?;
    let made = trial.put(&trial.object(), "created", &condition).await;
    made.must_be_made("PUT with If-None-Match: * where there is no value")?;
    Ok(2)
}

async fn swap(trial: &StoreTrial) -> Result<usize, ContractError> {
    let object = trial.object();
    let etag = trial.place(&object, "old").await?;
    let stale = WriteCondition::Swap(STALE.to_owned());
    let other = trial.put(&object, "stale", &stale).await;
    other.must_be_refused("PUT with If-Match of another version")?;
    let absent = trial.put(&trial.object(), "absent", &stale).await;
    absent.must_be_refused("PUT with If-Match where there is no value")?;
    let made = trial.put(&object, "new", &WriteCondition::Swap(etag)).await;
    made.must_be_made("PUT with If-Match of the current version")?;
    Ok(3)
}

async fn remove(trial: &StoreTrial) -> Result<usize, ContractError> {
    let object = trial.object();
    let etag = trial.place(&object, "kept").await?;
    let what = "DELETE with If-Match of another version";
    let stale = WriteCondition::Swap(STALE.to_owned());
    trial.delete(&object, &stale).await.must_be_refused(what)?;
    if trial.read(&object).await?.is_none() {
        return fails(format!(
            "{what} removes it, and is answered that it does not"
        ));
    }
    let made = trial.delete(&object, &WriteCondition::Swap(etag)).await;
    made.must_be_made("DELETE with If-Match of the current version")?;
    Ok(2)
}

/// Tries the conditions of changes that are made at once.
pub async fn at_once(
    trial: &StoreTrial,
    effort: CheckEffort,
    report: &mut ContractReport,
) -> Result<(), Error> {
    let trials = std::slice::from_ref(trial);
    for (alone, race, rounds) in [
        (What::Create, What::CreateRace, effort.races),
        (What::Swap, What::SwapRace, effort.races),
        (What::Remove, What::RemoveRace, effort.removals),
    ] {
        // A condition that fails one at a time fails at once.
        let is_raced = race != What::RemoveRace || report.keeps(What::SwapRace);
        if report.keeps(alone) && is_raced {
            report.add(race, races(trials, race, rounds).await)?;
        }
    }
    Ok(())
}

/// Runs `rounds` races, through each of `trials` in turn; ends at the first race in which more than one change is made.
async fn races(trials: &[StoreTrial], what: What, rounds: usize) -> Result<usize, ContractError> {
    for round in 1..=rounds {
        let trial = &trials[round % trials.len()];
        let object = trial.object();
        let condition = match what {
            What::CreateRace | What::EndpointCreateRace => WriteCondition::Create,
            _ => WriteCondition::Swap(trial.place(&object, "old").await?),
        };
        let (at, under) = (&object, &condition);
        let through = trials.iter().cycle().skip(round);
        let changes = (0..RACERS).zip(through).map(|(racer, trial)| async move {
            match what {
                // Beside each other, and in turn the first to be sent.
                What::RemoveRace if (racer + round).is_multiple_of(2) => {
                    trial.delete(at, under).await
                }
                _ => trial.put(at, &format!("racer {racer}"), under).await,
            }
        });
        let outcomes = join_all(changes).await;
        let is_made = |outcome: &&TrialOutcome| matches!(outcome, TrialOutcome::Done);
        let made = outcomes.iter().filter(is_made).count();
        if made > 1 {
            let kind = match what {
                What::CreateRace | What::EndpointCreateRace => "creations of one object",
                What::SwapRace | What::EndpointSwapRace => "PUTs with If-Match of one version",
                _ => "PUTs and DELETEs with If-Match of one version",
            };
            return fails(format!(
                "{made} of {RACERS} {kind} at once are made, in round {round}"
            ));
        }
        trial.delete(&object, &WriteCondition::Any).await;
    }
    Ok(rounds)
}

/// The length of an upload that is cut off.
const LEN: usize = 256 << 10;

/// The time between two looks, for a store to notice that an upload broke off.
const NOTICED: Duration = Duration::from_millis(100);

/// Cuts uploads off at as many places as the effort says.
pub async fn cut(trial: &StoreTrial, effort: CheckEffort) -> Result<usize, ContractError> {
    let objects: Vec<String> = (0..effort.cuts).map(|_| trial.object()).collect();
    for (object, at) in objects.iter().zip(1..) {
        trial.place(object, "old").await?;
        let framed = framed(&vec![b'x'; LEN], "AAAAAAAAAAA=");
        let sent = framed.len() * at / (objects.len() + 1);
        let body = || {
            let (sender, body) = feed(framed.len() as u64);
            // Nothing comes after this, and the body has more to come.
            sender.end(framed.slice(..sent));
            Either::Right(body)
        };
        if let TrialOutcome::Done = trial.put_framed(object, body, LEN).await {
            return fails("an upload that broke off was acknowledged");
        }
    }
    for _ in 0..effort.looks {
        tokio::time::sleep(NOTICED).await;
        for object in &objects {
            if trial.read(object).await?.is_none_or(|value| value != "old") {
                return fails("the beginning of an upload that broke off is stored");
            }
        }
    }
    Ok(effort.cuts)
}

pub async fn wrong_checksum(trial: &StoreTrial) -> Result<usize, ContractError> {
    let object = trial.object();
    trial.place(&object, "old").await?;
    // The published check value of CRC-64/NVME, of these digits, and another one.
    let value = b"123456789";
    let put = async |digits: &[u8]| {
        let body = framed(digits, "rosUhgp5mIg=");
        let body = || Either::Left(body.clone().into());
        let put = trial.put_framed(&object, body, value.len());
        put.await
    };
    put(value)
        .await
        .must_be_made("an upload in pieces with a right checksum")?;
    if let TrialOutcome::Done = put(b"987654321").await {
        return fails("it is acknowledged");
    }
    match trial.read(&object).await? {
        Some(now) if now == value[..] => Ok(1),
        _ => fails("it is refused, and stored"),
    }
}

/// `value` as one piece, with this checksum behind it.
fn framed(value: &[u8], checksum: &str) -> Bytes {
    let head = format!("{:x}\r\n", value.len());
    let trailer = format!("\r\n0\r\nx-amz-checksum-crc64nvme:{checksum}\r\n\r\n");
    [head.as_bytes(), value, trailer.as_bytes()].concat().into()
}

/// Tries the endpoints against each other. Changes through all of them race as those through one do.
pub async fn endpoints(trials: &[StoreTrial], effort: CheckEffort, report: &mut ContractReport) {
    report.note(What::EndpointReads, reads(trials, effort.across).await);
    for (alone, race) in [
        (What::CreateRace, What::EndpointCreateRace),
        (What::SwapRace, What::EndpointSwapRace),
    ] {
        if report.keeps(What::EndpointReads) && report.keeps(alone) {
            report.note(race, races(trials, race, effort.across).await);
        }
    }
}

/// Writes and removes an object through each endpoint in turn, and looks at it through the others.
async fn reads(trials: &[StoreTrial], rounds: usize) -> Result<usize, ContractError> {
    let object = trials[0].object();
    for round in 1..=rounds {
        for writer in trials {
            let origin = writer.client.origin();
            let value = format!("{origin} in round {round}");
            let placed = writer.place(&object, value.clone()).await;
            placed.or_else(|error| fails(format!("{origin}: {}", explained(&error))))?;
            see(trials, writer, &object, Some(&value), "a write").await?;
            let removed = writer.delete(&object, &WriteCondition::Any).await;
            removed.must_be_made(&format!("{origin}: a removal"))?;
            see(trials, writer, &object, None, "a removal").await?;
        }
    }
    Ok(rounds)
}

/// Fails unless all endpoints but the writer's read `value` from the object.
async fn see(
    trials: &[StoreTrial],
    writer: &StoreTrial,
    object: &str,
    value: Option<&str>,
    change: &str,
) -> Result<(), ContractError> {
    for reader in trials.iter().filter(|&reader| !ptr::eq(reader, writer)) {
        let (origin, writer) = (reader.client.origin(), writer.client.origin());
        let found = reader.read(object).await;
        let found = found.or_else(|error| fails(format!("{origin}: {}", explained(&error))))?;
        if found.as_deref() != value.map(str::as_bytes) {
            return fails(format!(
                "{origin} answers what was there before {change} through {writer}"
            ));
        }
    }
    Ok(())
}
