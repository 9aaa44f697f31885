//! The checks of lists: the names in their order, page by page, by folder, and from any name on.

use super::requests::{CheckEffort, StoreTrial};
use crate::s3::contract::{ContractError, ContractReport, What, fails};
use crate::s3::objects::list::AT_ONCE;
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

/// The beginnings of lists: at names that are there, between them, and past a folder, as the server itself asks.
const AFTER: [&str; 7] = ["!", "a", "b", "b/", "b/\u{10ffff}", "c", "\u{10000}"];

/// The beginning of the names, apart from all other objects of the check.
const PREFIX: &str = "list-";

/// Tries what a list has, and where it begins.
pub async fn listing(
    trial: &StoreTrial,
    effort: CheckEffort,
    report: &mut ContractReport,
) -> Result<(), Error> {
    let numbers = (0..effort.listed).map(|number| format!("n{number}"));
    let mut names: Vec<String> = NAMES.map(str::to_owned).into();
    names.extend(numbers);
    let object = |name: &String| trial.named(&format!("{PREFIX}{name}"));
    let objects: Vec<String> = names.iter().map(object).collect();
    trial.place_all(&objects).await?;
    names.sort_unstable();
    report.note(What::ListOrder, order(trial, &names).await);
    report.add(What::ListAfter, after(trial, &names).await)
}

/// Lists all names, by as long pages as there are and by shorter ones; and by folder.
async fn order(trial: &StoreTrial, names: &[String]) -> Result<usize, ContractError> {
    let short = names.len() / 3 + 1;
    let mut by_folder: Vec<_> = names.iter().map(|name| of_folder(name)).collect();
    by_folder.dedup();
    for (page, expected) in [
        ((AT_ONCE, false), names),
        ((short, false), names),
        ((short, true), &by_folder),
    ] {
        let found = all(trial, page, names.len()).await?;
        compare(&found, expected, "a list")?;
    }
    Ok(names.len())
}

/// A name as a list by folder has it.
fn of_folder(name: &str) -> String {
    name.split_inclusive('/').take(1).collect()
}

/// The list, page by page, as far as it is of use. The keys and folders of a page are put in one order.
async fn all(trial: &StoreTrial, page: (usize, bool), enough: usize) -> Result<Vec<String>, Error> {
    let (mut found, mut token) = (Vec::new(), None);
    loop {
        let (mut names, next) = trial.list(PREFIX, "", page, token.as_deref()).await?;
        if page.1 {
            names.sort_unstable();
        }
        found.extend(names);
        if next.is_none() || next == token || found.len() > enough {
            return Ok(found);
        }
        token = next;
    }
}

async fn after(trial: &StoreTrial, names: &[String]) -> Result<usize, ContractError> {
    for after in AFTER {
        let rest = &names[names.partition_point(|name| name.as_str() <= after)..];
        let rest = &rest[..rest.len().min(3)];
        let (mut found, _) = trial.list(PREFIX, after, (3, false), None).await?;
        found.truncate(3);
        compare(&found, rest, &format!("a list after {after:?}"))?;
    }
    Ok(AFTER.len())
}

/// Fails with the first difference between a list and what it should be.
fn compare(found: &[String], expected: &[String], list: &str) -> Result<(), ContractError> {
    let same = found.iter().zip(expected).take_while(|(a, b)| a == b);
    let at = same.count();
    let said = |names: &[String]| match names.get(at) {
        Some(name) => format!("{name:?}"),
        None => "no more".to_owned(),
    };
    if found.get(at) == expected.get(at) {
        return Ok(());
    }
    let (found, expected) = (said(found), said(expected));
    fails(format!(
        "{list} has {found} where {expected} is next by its bytes"
    ))
}
