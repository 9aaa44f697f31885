//! Writes: their conditions, one request at a time and many at once, of which one may be made; and uploads that are cut off or have a
//! wrong checksum.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::report::{Report, Verdict, What};
use super::requests::{Depth, Outcome, Trial};
use crate::s3::contract::Exact;
use crate::s3::transport::body::SendBody;
use crate::value::Error;

/// The entity tag of other bytes than those of the check.
const STALE: &str = "\"00000000000000000000000000000000\"";

/// How many changes are made at once.
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
    let verdict = remove(trial).await?;
    report.add(What::Remove, verdict);
    Ok(())
}

async fn create(trial: &Trial, object: &str) -> Verdict {
    let over = trial.put(object, "created", &Exact::Create).await;
    if let Some(fails) = unless_not_held(over, "PUT with If-None-Match: * over a value") {
        return fails;
    }
    let fresh = trial.object();
    match trial.put(&fresh, "created", &Exact::Create).await {
        Outcome::Done(_) => Verdict::Holds(2),
        other => Verdict::Fails(format!(
            "PUT with If-None-Match: * where there is no value is not made: {}",
            said(other)
        )),
    }
}

async fn swap(trial: &Trial, object: &str, etag: &str) -> Verdict {
    let stale = Exact::Swap(STALE.to_owned());
    let other = trial.put(object, "stale", &stale).await;
    if let Some(fails) = unless_not_held(other, "PUT with If-Match of another version") {
        return fails;
    }
    let absent = trial.put(&trial.object(), "absent", &stale).await;
    if let Some(fails) = unless_not_held(absent, "PUT with If-Match where there is no value") {
        return fails;
    }
    match trial
        .put(object, "new", &Exact::Swap(etag.to_owned()))
        .await
    {
        Outcome::Done(_) => Verdict::Holds(3),
        other => Verdict::Fails(format!(
            "PUT with If-Match of the current version is not made: {}",
            said(other)
        )),
    }
}

async fn remove(trial: &Trial) -> Result<Verdict, Error> {
    let object = trial.object();
    let etag = trial.place(&object, "kept").await?;
    let other = trial.delete(&object, &Exact::Swap(STALE.to_owned())).await;
    let what = "DELETE with If-Match of another version";
    if let Some(fails) = unless_not_held(other, what) {
        return Ok(fails);
    }
    if trial.read(&object).await?.is_none() {
        return Ok(Verdict::Fails(format!(
            "{what} removes it, and is answered that it does not"
        )));
    }
    Ok(match trial.delete(&object, &Exact::Swap(etag)).await {
        Outcome::Done(_) => Verdict::Holds(2),
        other => Verdict::Fails(format!(
            "DELETE with If-Match of the current version is not made: {}",
            said(other)
        )),
    })
}

/// The fault, unless the condition was found not to hold.
fn unless_not_held(outcome: Outcome, what: &str) -> Option<Verdict> {
    match outcome {
        Outcome::NotHeld => None,
        Outcome::Done(_) => Some(Verdict::Fails(format!("{what} is made all the same"))),
        other => Some(Verdict::Fails(format!(
            "{what} is answered {}",
            said(other)
        ))),
    }
}

fn said(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done(_) => "that it is made".to_owned(),
        Outcome::NotHeld => "that the condition does not hold".to_owned(),
        Outcome::Refused(said) => said,
        Outcome::Unclear => "nothing that is clear".to_owned(),
    }
}

/// Tries the conditions of changes that are made at once.
pub async fn at_once(trial: &Arc<Trial>, depth: Depth, report: &mut Report) -> Result<(), Error> {
    let for_put = [
        (What::Create, What::CreateRace),
        (What::Swap, What::SwapRace),
    ];
    for (alone, race) in for_put {
        // What is wrong one at a time is wrong at once.
        if report.keeps(alone) {
            let verdict = races(std::slice::from_ref(trial), race, depth.races).await?;
            report.add(race, verdict);
        }
    }
    if report.keeps(What::Remove) && report.keeps(What::SwapRace) {
        let trials = std::slice::from_ref(trial);
        let verdict = races(trials, What::RemoveRace, depth.removals).await?;
        report.add(What::RemoveRace, verdict);
    }
    Ok(())
}

/// So many races, or those to the first in which more than one change is made: through each of `trials` in turn.
pub async fn races(trials: &[Arc<Trial>], what: What, rounds: u32) -> Result<Verdict, Error> {
    for round in 1..=rounds {
        let trial = &trials[round as usize % trials.len()];
        let object = trial.object();
        let condition = match what {
            What::CreateRace | What::EndpointCreateRace => Exact::Create,
            _ => Exact::Swap(trial.place(&object, "old").await?),
        };
        let changes = (0..RACERS).map(|racer| match what {
            // Beside each other, and in turn the first to be sent.
            What::RemoveRace if (racer + round).is_multiple_of(2) => Change::Removal,
            _ => Change::Write(racer),
        });
        let through = trials.iter().cycle().skip(round as usize);
        let made = race(through, &object, &condition, changes).await;
        if made > 1 {
            let kind = match what {
                What::CreateRace | What::EndpointCreateRace => "creations of one object",
                What::SwapRace | What::EndpointSwapRace => "PUTs with If-Match of one version",
                _ => "PUTs and DELETEs with If-Match of one version",
            };
            return Ok(Verdict::Fails(format!(
                "{made} of {RACERS} {kind} at once are made, in round {round}"
            )));
        }
        trial.delete(&object, &Exact::Any).await;
    }
    Ok(Verdict::Holds(rounds))
}

/// One of the changes of a race.
enum Change {
    /// Of bytes that no other of the race writes.
    Write(u32),
    Removal,
}

/// How many of these changes are made, each through the next of `through`.
async fn race<'a>(
    through: impl Iterator<Item = &'a Arc<Trial>>,
    object: &str,
    condition: &Exact,
    changes: impl Iterator<Item = Change>,
) -> usize {
    let mut racers = JoinSet::new();
    for (change, trial) in changes.zip(through) {
        let (trial, object, condition) = (Arc::clone(trial), object.to_owned(), condition.clone());
        racers.spawn(async move {
            match change {
                Change::Write(racer) => {
                    trial
                        .put(&object, &format!("racer {racer}"), &condition)
                        .await
                }
                Change::Removal => trial.delete(&object, &condition).await,
            }
        });
    }
    let outcomes = racers.join_all().await;
    let made = |outcome: &&Outcome| matches!(outcome, Outcome::Done(_));
    outcomes.iter().filter(made).count()
}

/// The length of an upload that is cut off.
const LEN: usize = 256 << 10;

/// How long a store may take to notice that an upload broke off, between two looks at it.
const NOTICED: Duration = Duration::from_millis(100);

/// Tries uploads that are not what they should be.
pub async fn uploads(trial: &Trial, depth: Depth, report: &mut Report) -> Result<(), Error> {
    let verdict = cut(trial, depth).await?;
    report.add(What::CutUpload, verdict);
    let verdict = wrong_checksum(trial).await?;
    report.add(What::WrongChecksum, verdict);
    Ok(())
}

/// Cuts uploads off at as many places as the depth says.
async fn cut(trial: &Trial, depth: Depth) -> Result<Verdict, Error> {
    let objects: Vec<String> = (0..depth.cuts).map(|_| trial.object()).collect();
    for (object, at) in objects.iter().zip(1..) {
        trial.place(object, "old").await?;
        let framed = framed(&vec![b'x'; LEN], "AAAAAAAAAAA=");
        let sent = framed.len() * at / (objects.len() + 1);
        let body = SendBody::CutOff {
            begin: Some(framed.slice(..sent)),
            len: framed.len() as u64,
        };
        if let Outcome::Done(_) = trial.put_framed(object, body, LEN).await {
            return Ok(Verdict::Fails(
                "an upload that broke off was acknowledged".to_owned(),
            ));
        }
    }
    for _ in 0..depth.looks {
        tokio::time::sleep(NOTICED).await;
        for object in &objects {
            if trial.read(object).await?.is_none_or(|value| value != "old") {
                return Ok(Verdict::Fails(
                    "the beginning of an upload that broke off is stored".to_owned(),
                ));
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
        Outcome::Done(_) => {}
        other => {
            return Ok(Verdict::Fails(format!(
                "an upload in pieces with a right checksum is not taken: {other:?}"
            )));
        }
    }
    let wrong = SendBody::Whole(framed(b"987654321", "rosUhgp5mIg="));
    Ok(match trial.put_framed(&object, wrong, value.len()).await {
        Outcome::Done(_) => Verdict::Fails("it is acknowledged".to_owned()),
        _ if trial
            .read(&object)
            .await?
            .is_none_or(|now| now != value[..]) =>
        {
            Verdict::Fails("it is refused, and stored".to_owned())
        }
        _ => Verdict::Holds(1),
    })
}

/// `value` as one piece, with this checksum behind it.
fn framed(value: &[u8], checksum: &str) -> Bytes {
    let head = format!("{:x}\r\n", value.len());
    let trailer = format!("\r\n0\r\nx-amz-checksum-crc64nvme:{checksum}\r\n\r\n");
    [head.as_bytes(), value, trailer.as_bytes()].concat().into()
}
