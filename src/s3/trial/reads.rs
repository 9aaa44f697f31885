//! Reads: a list has the names in their order, and what is written through one endpoint is what all others have.

use std::sync::Arc;

use super::report::{Report, Verdict, What};
use super::requests::{Depth, Outcome, Trial};
use super::writes::races;
use crate::s3::contract::Exact;
use crate::s3::objects::list::AT_ONCE;
use crate::s3::transport::answer::explained;
use crate::value::Error;

/// Names that have another order as words, as numbers, by folder or in UTF-16, or that an encoding spoils.
const NAMES: [&str; 11] = [
    "10",
    "9",
    "Z",
    "a",
    "a%41",
    "a+b",
    "b-c",
    "b/c",
    "b0",
    "\u{ff5e}",
    "\u{1f600}",
];

/// Where lists begin: at names that are there, between them, and past a folder, as the server itself asks.
const AFTER: [&str; 7] = ["!", "a", "b", "b/", "b/\u{10ffff}", "c", "\u{10000}"];

/// The beginning of the names, apart from all other objects of the check.
const PREFIX: &str = "list-";

/// Tries the endpoints against each other. Changes through all of them race as those through one do.
pub async fn endpoints(trials: &[Arc<Trial>], depth: Depth, report: &mut Report) {
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

/// Tries what a list has, and where it begins.
pub async fn listing(trial: &Arc<Trial>, depth: Depth, report: &mut Report) -> Result<(), Error> {
    let numbers = (0..depth.listed).map(|number| format!("n{number}"));
    let mut names: Vec<String> = NAMES
        .map(str::to_owned)
        .into_iter()
        .chain(numbers)
        .collect();
    let object = |name: &String| trial.named(&format!("{PREFIX}{name}"));
    let objects: Vec<String> = names.iter().map(object).collect();
    trial.place_all(&objects).await?;
    names.sort_unstable();
    report.add(What::ListOrder, order(trial, &names).await?);
    report.add(What::ListAfter, after(trial, &names).await?);
    Ok(())
}

/// Lists all names, by as long pages as there are and by shorter ones.
async fn order(trial: &Trial, names: &[String]) -> Result<Verdict, Error> {
    for most in [AT_ONCE, names.len() / 3 + 1] {
        let found = all(trial, most, names.len()).await?;
        if let Some(fault) = differ(&found, names) {
            return Ok(Verdict::Fails(format!("a list has {fault}")));
        }
    }
    Ok(Verdict::Holds(
        u32::try_from(names.len()).unwrap_or(u32::MAX),
    ))
}

/// The list, page by page, as far as it is of use.
async fn all(trial: &Trial, most: usize, enough: usize) -> Result<Vec<String>, Error> {
    let (mut found, mut token) = (Vec::new(), None);
    loop {
        let (names, next) = trial.list(PREFIX, "", most, token.as_deref()).await?;
        found.extend(names);
        if next.is_none() || next == token || found.len() > enough {
            return Ok(found);
        }
        token = next;
    }
}

async fn after(trial: &Trial, names: &[String]) -> Result<Verdict, Error> {
    for after in AFTER {
        let rest = &names[names.partition_point(|name| name.as_str() <= after)..];
        let rest = &rest[..rest.len().min(3)];
        let (mut found, _) = trial.list(PREFIX, after, 3, None).await?;
        found.truncate(3);
        if let Some(fault) = differ(&found, rest) {
            return Ok(Verdict::Fails(format!(
                "a list after {after:?} has {fault}"
            )));
        }
    }
    Ok(Verdict::Holds(
        u32::try_from(AFTER.len()).unwrap_or(u32::MAX),
    ))
}

/// Where a list is not what it should be.
fn differ(found: &[String], expected: &[String]) -> Option<String> {
    let same = found.iter().zip(expected).take_while(|(a, b)| a == b);
    let at = same.count();
    let said = |name: Option<&String>| match name {
        Some(name) => format!("{name:?}"),
        None => "no more".to_owned(),
    };
    let (found, expected) = (found.get(at), expected.get(at));
    (found != expected).then(|| {
        let (found, expected) = (said(found), said(expected));
        format!("{found} where {expected} is next by its bytes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let right = names(&["Z", "a"]);
        assert_eq!(differ(&right, &right), None);
        for (found, fault) in [
            (&["a", "Z"][..], "\"a\" where \"Z\" is next by its bytes"),
            (&["Z"], "no more where \"a\" is next by its bytes"),
            (&["Z", "a", "b"], "\"b\" where no more is next by its bytes"),
        ] {
            assert_eq!(differ(&names(found), &right).as_deref(), Some(fault));
        }
    }
}
