//! Changes of one object at once, of which at most one may be made. A store that looks first and acts then makes several.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::depth::Depth;
use super::report::{Report, Verdict, What};
use super::trial::{Outcome, Trial};
use crate::s3::contract::Exact;
use crate::value::Error;

/// How many changes are made at once.
const RACERS: u32 = 8;

pub async fn check(trial: &Arc<Trial>, depth: Depth, report: &mut Report) -> Result<(), Error> {
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
