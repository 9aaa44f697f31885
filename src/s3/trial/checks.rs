//! The checks of a trial. Writes: their conditions, one request at a time and many at once, of which one may be made; and uploads that
//! are cut off or have a wrong checksum. Reads: what is written through one endpoint is what all others have.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use super::requests::{CheckEffort, Trial, TrialOutcome};
use crate::s3::contract::{Report, Verdict, What, WriteCondition};
use crate::s3::transport::answer::explained;
use crate::s3::transport::body::SendBody;
use crate::value::Error;

/// An entity tag of other bytes than the check's.
const STALE: &str = "\"00000000000000000000000000000000\"";

/// Changes that are made at once.
const RACERS: u32 = 8;

/// Tries the conditions one request at a time.
pub async fn one_at_a_time(trial: &Trial, report: &mut Report) -> Result<(), Error> {
    let object = trial.object();
    let etag = trial.place(&object, "old").await?;
    report.add(What::Create, create(trial, &object).await);
    let etag = match trial.read(&object).await? {
        Some(value) if value == "old" => etag,
        // The conditions of what follows are about what is there.
        _ => trial.place(&object, "old").await?,
    };
    report.add(What::Swap, swap(trial, &object, &etag).await);
    report.add(What::Remove, remove(trial).await?);
    Ok(())
}

async fn create(trial: &Trial, object: &str) -> Verdict {
    let over = trial.put(object, "created", &WriteCondition::Create).await;
    if let Some(fails) = unless_not_held(over, "PUT with If-None-Match: * over a value") {
        return fails;
    }
    let fresh = trial.object();
    let made = trial.put(&fresh, "created", &WriteCondition::Create).await;
    if_made(made, 2, "PUT with If-None-Match: * where there is no value")
}

async fn swap(trial: &Trial, object: &str, etag: &str) -> Verdict {
    let stale = WriteCondition::Swap(STALE.to_owned());
    let other = trial.put(object, "stale", &stale).await;
    if let Some(fails) = unless_not_held(other, "PUT with If-Match of another version") {
        return fails;
    }
    let absent = trial.put(&trial.object(), "absent", &stale).await;
    if let Some(fails) = unless_not_held(absent, "PUT with If-Match where there is no value") {
        return fails;
    }
    let current = WriteCondition::Swap(etag.to_owned());
    let made = trial.put(object, "new", &current).await;
    if_made(made, 3, "PUT with If-Match of the current version")
}

async fn remove(trial: &Trial) -> Result<Verdict, Error> {
    let object = trial.object();
    let etag = trial.place(&object, "kept").await?;
    let other = trial
        .delete(&object, &WriteCondition::Swap(STALE.to_owned()))
        .await;
    let what = "DELETE with If-Match of another version";
    if let Some(fails) = unless_not_held(other, what) {
        return Ok(fails);
    }
    if trial.read(&object).await?.is_none() {
        return Ok(fails(format!(
            "{what} removes it, and is answered that it does not"
        )));
    }
    let made = trial.delete(&object, &WriteCondition::Swap(etag)).await;
    let what = "DELETE with If-Match of the current version";
    Ok(if_made(made, 2, what))
}

/// The verdict on a change that is to be made, after this number of tries of its kind.
fn if_made(outcome: TrialOutcome, times: u32, what: &str) -> Verdict {
    match outcome {
        TrialOutcome::Done(_) => Verdict::Holds(times),
        other => fails(format!("{what} is not made: {}", said(other))),
    }
}

/// The fault, unless the condition was found not to hold.
fn unless_not_held(outcome: TrialOutcome, what: &str) -> Option<Verdict> {
    match outcome {
        TrialOutcome::NotHeld => None,
        TrialOutcome::Done(_) => Some(fails(format!("{what} is made all the same"))),
        other => Some(fails(format!("{what} is answered {}", said(other)))),
    }
}

/// The verdict on a store that does something else: `how`.
pub(super) fn fails(how: impl Into<String>) -> Verdict {
    Verdict::Fails(how.into())
}

/// The verdict on a store that did as it should, this number of times.
pub(super) fn holds(times: usize) -> Verdict {
    Verdict::Holds(u32::try_from(times).unwrap_or(u32::MAX))
}

fn said(outcome: TrialOutcome) -> String {
    match outcome {
        TrialOutcome::Done(_) => "that it is made".to_owned(),
        TrialOutcome::NotHeld => "that the condition does not hold".to_owned(),
        TrialOutcome::Refused(said) => said,
        TrialOutcome::Unclear => "nothing that is clear".to_owned(),
    }
}

/// Tries the conditions of changes that are made at once.
pub async fn at_once(trial: &Trial, depth: CheckEffort, report: &mut Report) -> Result<(), Error> {
    let trials = std::slice::from_ref(trial);
    let for_put = [
        (What::Create, What::CreateRace),
        (What::Swap, What::SwapRace),
    ];
    for (alone, race) in for_put {
        // A condition that fails one at a time fails at once.
        if report.keeps(alone) {
            report.add(race, races(trials, race, depth.races).await?);
        }
    }
    if report.keeps(What::Remove) && report.keeps(What::SwapRace) {
        let verdict = races(trials, What::RemoveRace, depth.removals).await?;
        report.add(What::RemoveRace, verdict);
    }
    Ok(())
}

/// Runs `rounds` races, through each of `trials` in turn; ends at the first race in which more than one change is made.
async fn races(trials: &[Trial], what: What, rounds: u32) -> Result<Verdict, Error> {
    for round in 1..=rounds {
        let trial = &trials[round as usize % trials.len()];
        let object = trial.object();
        let condition = match what {
            What::CreateRace | What::EndpointCreateRace => WriteCondition::Create,
            _ => WriteCondition::Swap(trial.place(&object, "old").await?),
        };
        let (at, under) = (&object, &condition);
        let through = trials.iter().cycle().skip(round as usize);
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
        let is_made = |outcome: &&TrialOutcome| matches!(outcome, TrialOutcome::Done(_));
        let made = outcomes.iter().filter(is_made).count();
        if made > 1 {
            let kind = match what {
                What::CreateRace | What::EndpointCreateRace => "creations of one object",
                What::SwapRace | What::EndpointSwapRace => "PUTs with If-Match of one version",
                _ => "PUTs and DELETEs with If-Match of one version",
            };
            return Ok(fails(format!(
                "{made} of {RACERS} {kind} at once are made, in round {round}"
            )));
        }
        trial.delete(&object, &WriteCondition::Any).await;
    }
    Ok(Verdict::Holds(rounds))
}

/// The length of an upload that is cut off.
const LEN: usize = 256 << 10;

/// The time between two looks, for a store to notice that an upload broke off.
const NOTICED: Duration = Duration::from_millis(100);

/// Tries uploads that are not what they should be.
pub async fn uploads(trial: &Trial, depth: CheckEffort, report: &mut Report) -> Result<(), Error> {
    report.add(What::CutUpload, cut(trial, depth).await?);
    report.add(What::WrongChecksum, wrong_checksum(trial).await?);
    Ok(())
}

/// Cuts uploads off at as many places as the depth says.
async fn cut(trial: &Trial, depth: CheckEffort) -> Result<Verdict, Error> {
    let objects: Vec<String> = (0..depth.cuts).map(|_| trial.object()).collect();
    for (object, at) in objects.iter().zip(1..) {
        trial.place(object, "old").await?;
        let framed = framed(&vec![b'x'; LEN], "AAAAAAAAAAA=");
        let sent = framed.len() * at / (objects.len() + 1);
        let body = SendBody::CutOff {
            begin: Some(framed.slice(..sent)),
            len: framed.len() as u64,
        };
        if let TrialOutcome::Done(_) = trial.put_framed(object, body, LEN).await {
            return Ok(fails("an upload that broke off was acknowledged"));
        }
    }
    for _ in 0..depth.looks {
        tokio::time::sleep(NOTICED).await;
        for object in &objects {
            if trial.read(object).await?.is_none_or(|value| value != "old") {
                return Ok(fails("the beginning of an upload that broke off is stored"));
            }
        }
    }
    Ok(Verdict::Holds(depth.cuts))
}

async fn wrong_checksum(trial: &Trial) -> Result<Verdict, Error> {
    let object = trial.object();
    trial.place(&object, "old").await?;
    // The published check value of CRC-64/NVME, of these digits, and another one.
    let value = b"123456789";
    let right = SendBody::Whole(framed(value, "rosUhgp5mIg="));
    match trial.put_framed(&object, right, value.len()).await {
        TrialOutcome::Done(_) => {}
        other => {
            return Ok(fails(format!(
                "an upload in pieces with a right checksum is not taken: {other:?}"
            )));
        }
    }
    let wrong = SendBody::Whole(framed(b"987654321", "rosUhgp5mIg="));
    Ok(match trial.put_framed(&object, wrong, value.len()).await {
        TrialOutcome::Done(_) => fails("it is acknowledged"),
        _ => match trial.read(&object).await? {
            Some(now) if now == value[..] => Verdict::Holds(1),
            _ => fails("it is refused, and stored"),
        },
    })
}

/// `value` as one piece, with this checksum behind it.
fn framed(value: &[u8], checksum: &str) -> Bytes {
    let head = format!("{:x}\r\n", value.len());
    let trailer = format!("\r\n0\r\nx-amz-checksum-crc64nvme:{checksum}\r\n\r\n");
    [head.as_bytes(), value, trailer.as_bytes()].concat().into()
}

/// Tries the endpoints against each other. Changes through all of them race as those through one do.
pub async fn endpoints(trials: &[Trial], depth: CheckEffort, report: &mut Report) {
    report.add(What::EndpointReads, reads(trials, depth.across).await);
    if !report.keeps(What::EndpointReads) {
        return;
    }
    for (alone, race) in [
        (What::CreateRace, What::EndpointCreateRace),
        (What::SwapRace, What::EndpointSwapRace),
    ] {
        if report.keeps(alone) {
            let verdict = races(trials, race, depth.across).await;
            let verdict = verdict.unwrap_or_else(|error| fails(explained(&error)));
            report.add(race, verdict);
        }
    }
}

/// Writes and removes an object through each endpoint in turn, and looks at it through the others.
async fn reads(trials: &[Trial], rounds: u32) -> Verdict {
    let object = trials[0].object();
    for round in 1..=rounds {
        for (at, writer) in trials.iter().enumerate() {
            let others = trials.iter().enumerate().filter(|(other, _)| *other != at);
            let others: Vec<&Trial> = others.map(|(_, trial)| trial).collect();
            if let Err(fault) = turn(writer, &others, &object, round).await {
                return fails(fault);
            }
        }
    }
    Verdict::Holds(rounds)
}

async fn turn(writer: &Trial, others: &[&Trial], object: &str, round: u32) -> Result<(), String> {
    let of = |trial: &Trial, error: &Error| format!("{}: {}", trial.origin(), explained(error));
    let value = format!("{} in round {round}", writer.origin());
    let placed = writer.place(object, value.clone()).await;
    placed.map_err(|error| of(writer, &error))?;
    see(writer, others, object, Some(&value), "a write").await?;
    let removed = writer.delete(object, &WriteCondition::Any).await;
    if !matches!(removed, TrialOutcome::Done(_)) {
        return Err(format!("{}: a removal is not made", writer.origin()));
    }
    see(writer, others, object, None, "a removal").await
}

/// Fails unless all `others` read `value` from the object.
async fn see(
    writer: &Trial,
    others: &[&Trial],
    object: &str,
    value: Option<&str>,
    what: &str,
) -> Result<(), String> {
    for reader in others {
        let found = reader.read(object).await;
        let found = found.map_err(|error| format!("{}: {}", reader.origin(), explained(&error)))?;
        if found.as_deref() != value.map(str::as_bytes) {
            let (reader, writer) = (reader.origin(), writer.origin());
            return Err(format!(
                "{reader} answers what was there before {what} through {writer}"
            ));
        }
    }
    Ok(())
}
