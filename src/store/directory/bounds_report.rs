//! What bounds hold of a directory, for a person: sizes, ages, and what would go next. Changes nothing, so a server may
//! have the directory.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::store::bounds::uses::{approval, approved, is_approved, load};
use crate::store::bounds::{Account, Bound, Total, named};
use crate::store::changes::Removal;
use crate::store::directory_fd::open_folder;
use crate::store::layout::{OpenError, open_values};
use crate::store::list::count_all;
use crate::value::RESERVED;
use bytesize::ByteSize;

/// How many of the next are named.
const NAMED: usize = 10;

/// What `bounds` hold of the values in `dir`.
pub fn report(dir: &Path, bounds: &[Bound]) -> Result<String, OpenError> {
    let values = open_values(dir, None)?;
    let own = open_folder(&values.root, RESERVED).ok();
    let uses = own.as_ref().map(load).unwrap_or_default();
    let account = Account::new(bounds.to_vec(), Some(&values), uses);
    let approved = own.as_ref().map(approved).unwrap_or_default();
    let counted = count_all(&values, &account);
    counted.map_err(|error| OpenError::Refused(format!("{}: {error}", dir.display())))?;
    account.set_whole();
    let mut text = String::new();
    for (at, bound) in bounds.iter().enumerate() {
        let mut may_evict = true;
        for why in [Removal::Full, Removal::Age] {
            account.set_may_remove(at, why, true);
            may_evict &= approval(bound, why).is_none() || is_approved(&approved, bound, why);
        }
        let _ = describe(&mut text, &account, at, may_evict);
    }
    Ok(text)
}

/// Adds what the bound of this number holds to `text`.
fn describe(text: &mut String, account: &Account, at: usize, may_evict: bool) -> std::fmt::Result {
    let bound = &account.bounds[at];
    let Total { bytes, keys } = account.total(at);
    let (name, size) = (named(&bound.prefix.to_string()), readable(bytes));
    writeln!(text, "{name} ({bound}): {keys} values, {size}")?;
    let mut values = Vec::new();
    account.visit_counted(at, |_, name, value| {
        values.push((value.age(), value.bytes(), name.to_owned()));
    });
    values.sort_unstable_by(|one, other| (other.0, &one.2).cmp(&(one.0, &other.2)));
    for (part, at) in [("oldest", 0), ("median", values.len() / 2)] {
        if let Some((age, ..)) = values.get(at) {
            writeln!(text, "  {part}: used {} ago", span(*age))?;
        }
    }
    if !bound.removes() {
        return writeln!(text, "  a quota: removes nothing");
    }
    let Total { bytes, keys: going } = account.would_go(at);
    if going > 0 {
        writeln!(text, "  would go now: {going} values, {}", readable(bytes))?;
    }
    if !may_evict && keys > 0 {
        writeln!(
            text,
            "  removes nothing of it until a server is started with --evict-existing"
        )?;
    }
    for (age, size, key) in values.iter().take(NAMED) {
        writeln!(
            text,
            "  next: {key} ({}, used {} ago)",
            readable(*size),
            span(*age)
        )?;
    }
    Ok(())
}

fn readable(bytes: u64) -> impl std::fmt::Display {
    ByteSize::b(bytes).display().iec()
}

/// A time in milliseconds, in whole seconds.
fn span(millis: i64) -> impl std::fmt::Display {
    let seconds = u64::try_from(millis / 1000).unwrap_or(0);
    humantime::format_duration(Duration::from_secs(seconds))
}
