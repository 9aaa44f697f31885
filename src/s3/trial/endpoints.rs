//! Several endpoints of one store: what is written through one is what all others have, and changes through all of them race
//! as those through one.

use std::sync::Arc;

use super::depth::Depth;
use super::races::races;
use super::report::{Report, Verdict, What};
use super::trial::{Outcome, Trial};
use crate::s3::contract::Exact;
use crate::s3::transport::tries::explained;
use crate::value::Error;

pub async fn check(trials: &[Arc<Trial>], depth: Depth, report: &mut Report) {
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
            report.add(
                race,
                verdict.unwrap_or_else(|error| Verdict::Fails(explained(&error))),
            );
        }
    }
}

/// Writes and removes an object through each endpoint in turn, and looks at it through the others.
async fn reads(trials: &[Arc<Trial>], rounds: u32) -> Verdict {
    let object = trials[0].object();
    for round in 1..=rounds {
        for (at, writer) in trials.iter().enumerate() {
            let others = trials.iter().enumerate().filter(|(other, _)| *other != at);
            let others: Vec<&Trial> = others.map(|(_, trial)| &**trial).collect();
            if let Err(fault) = turn(writer, &others, &object, round).await {
                return Verdict::Fails(fault);
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
    let removed = writer.delete(object, &Exact::Any).await;
    if !matches!(removed, Outcome::Done(_)) {
        return Err(format!("{}: a removal is not made", writer.origin()));
    }
    see(writer, others, object, None, "a removal").await
}

/// Whether the object is this for all `others`.
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
