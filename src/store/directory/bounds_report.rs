//! What bounds hold of a directory: sizes, ages, and what would go next; of a server that runs, or by the files.
//!
//! Changes nothing, so a server may have the directory. By the files, uses are as old as the last note of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::store::bounds::uses::{approval, approved, is_approved, load};
use crate::store::bounds::{Account, Bound, Total};
use crate::store::changes::Removal;
use crate::store::directory_fd::open_folder;
use crate::store::layout::{OpenError, open_values};
use crate::store::list::count_all;
use crate::value::RESERVED;

/// The most values, and names of a bound, that a report has.
pub const MOST_NAMED: usize = 1000;

/// The reasons for which bounds remove values.
const REASONS: [Removal; 2] = [Removal::Full, Removal::Age];

/// What one bound holds.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct BoundReport {
    /// As it is written.
    pub prefix: String,
    /// The limits, in words; with `{name}` they are of each name.
    pub limits: String,
    /// The limit of bytes.
    pub max_bytes: Option<u64>,
    /// The limit of values.
    pub max_keys: Option<u64>,
    /// What its values take.
    #[serde(flatten)]
    pub total: Total,
    /// The fullest names, where each has a bound of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NameReport>,
    /// How long the value used longest ago has not been used.
    pub oldest_idle_seconds: Option<u64>,
    /// The same of the value in the middle.
    pub median_idle_seconds: Option<u64>,
    /// False for a quota.
    pub removes: bool,
    /// False until a start with `--evict-existing`.
    pub may_remove: bool,
    /// What is beyond the bound, or too old.
    pub would_go: Total,
    /// What goes next.
    pub next: Vec<NextReport>,
}

/// What one name of a bound holds.
#[derive(Debug, Deserialize, Serialize)]
pub struct NameReport {
    /// The prefix with this name.
    pub prefix: String,
    /// What its values take.
    #[serde(flatten)]
    pub total: Total,
}

/// A value that goes soon.
#[derive(Debug, Deserialize, Serialize)]
pub struct NextReport {
    /// Its key.
    pub key: String,
    /// Bytes of the disk that it takes.
    pub bytes: u64,
    /// How long it has not been used.
    pub idle_seconds: u64,
}

/// What `bounds` hold of the values in `dir`, by the files, and how many seconds ago the uses of these were noted.
/// Blocks.
pub fn report(
    dir: &Path,
    bounds: &[Bound],
    most: usize,
) -> Result<(Vec<BoundReport>, Option<u64>), OpenError> {
    let values = open_values(dir, None)?;
    let own = open_folder(&values.root, RESERVED).ok();
    let uses = own.as_ref().map(load).unwrap_or_default();
    let noted = std::fs::metadata(dir.join(RESERVED).join("uses")).and_then(|it| it.modified());
    let noted = noted.ok().map(|at| SystemTime::now().duration_since(at));
    let noted = noted.map(|since| since.unwrap_or_default().as_secs());
    let account = Account::new(bounds.to_vec(), Some(&values), uses);
    let approved = own.as_ref().map(approved).unwrap_or_default();
    let counted = count_all(&values, &account);
    counted.map_err(|error| OpenError::Refused(format!("{}: {error}", dir.display())))?;
    account.set_whole();
    for (at, bound) in bounds.iter().enumerate() {
        for why in REASONS {
            account.set_may_remove(at, why, is_approved(&approved, bound, why));
        }
    }
    let all = (0..bounds.len()).map(|at| describe(&account, at, most, true));
    Ok((all.collect(), noted))
}

/// What the bounds of a server hold now; none before all values are counted. Blocks.
pub fn report_now(account: &Account) -> Vec<BoundReport> {
    let all = (0..account.bounds.len()).filter(|_| account.is_whole());
    all.map(|at| describe(account, at, MOST_NAMED, false))
        .collect()
}

/// What the bound of this number holds, with so many values and names at most. Of a server that `is_to_foresee` nothing
/// and may remove, no more would go at once than it is about to remove, and this is not reckoned.
fn describe(account: &Account, at: usize, most: usize, is_to_foresee: bool) -> BoundReport {
    let bound = &account.bounds[at];
    let (mut ages, mut next) = (Vec::new(), BinaryHeap::new());
    account.visit_counted(at, |_, name, value| {
        let age = value.age();
        ages.push(age);
        let is_later = |(last, key, _): &(_, Box<str>, _)| (Reverse(age), name) >= (*last, &**key);
        if next.len() < most || !next.peek().is_none_or(is_later) {
            next.push((Reverse(age), Box::from(name), value.bytes()));
            if next.len() > most {
                next.pop();
            }
        }
    });
    let seconds = |millis: i64| u64::try_from(millis / 1000).unwrap_or(0);
    let median = ages.len() / 2;
    let median = (!ages.is_empty()).then(|| *ages.select_nth_unstable(median).1);
    let may_remove = |&why: &Removal| approval(bound, why).is_none() || account.may_remove(at, why);
    let may_remove = REASONS.iter().all(may_remove);
    let mut would_go = Total::default();
    if bound.removes() && (is_to_foresee || !may_remove) {
        would_go = account.would_go(at);
    }
    let is_of_names = bound.prefix.is_of_names();
    let names = account.fullest(at, if is_of_names { most } else { 0 });
    let next = next.into_sorted_vec().into_iter();
    BoundReport {
        prefix: bound.prefix.to_string(),
        limits: bound.to_string(),
        max_bytes: bound.max_size,
        max_keys: bound.max_keys,
        total: account.total(at),
        names: names
            .into_iter()
            .map(|(prefix, total)| NameReport {
                prefix: prefix.into(),
                total,
            })
            .collect(),
        oldest_idle_seconds: ages.iter().max().copied().map(seconds),
        median_idle_seconds: median.map(seconds),
        removes: bound.removes(),
        may_remove,
        would_go,
        next: next
            .filter(|_| bound.removes())
            .map(|(Reverse(age), key, bytes)| NextReport {
                key: key.into(),
                bytes,
                idle_seconds: seconds(age),
            })
            .collect(),
    }
}
