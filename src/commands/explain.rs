//! `access explain`: the rules of an access file that decide a request, a line for each right that it asks for.
//!
//! Promises the decision of the server on the request. One that goes on to values whose keys it does not name is
//! decided again for each of these, which a line says.

use std::fmt::Write as _;
use std::path::Path;

use humantime::format_duration;

use super::{Failure, UsageError};
use crate::access::{Access, Policy, Right, Rule};
use crate::http::{Explained, Need};

/// Reports the rules of `file` that decide whether `who` may do `method` with `target` and the `destination`, a line
/// for each right; returns true if the request is allowed.
pub fn explain_access(
    file: &Path,
    who: &str,
    method: &str,
    target: &str,
    destination: Option<&str>,
) -> Result<(String, bool), Failure> {
    let policy = Access::read(file.to_owned())?.policy();
    let name = (who != Rule::ANONYMOUS).then_some(who);
    let subject = match name {
        Some(name) => policy.subjects.get(name),
        None => Some(&policy.anonymous),
    };
    let subject = subject.ok_or_else(|| UsageError(format!("there is no subject {who:?}")))?;
    let bad = |why: &str| UsageError(format!("{method} {target}: {why}"));
    if destination.is_some() && !matches!(method, "MOVE" | "COPY") {
        return Err(bad("only MOVE and COPY have a destination").into());
    }
    let asked = Explained::of(method, target, destination).map_err(|why| bad(&why))?;
    let (mut text, mut is_allowed) = (String::new(), true);
    for need in &asked.needs {
        let (rights, of, is_prefix): (&[Right], _, _) = match need {
            Need::All(right, of) => (&[*right], of, false),
            Need::Any(right, prefix) => (&[*right], prefix, true),
            Need::Store(key) => (&[Right::Write, Right::Create], key, false),
        };
        let rule = |right| policy.deciding(name, right, of, is_prefix);
        let place = destination.map_or_else(String::new, |_| format!(" of {of:?}"));
        for &right in rights {
            let decision = decision(&policy, rule(right));
            let _ = writeln!(text, "{}{place}: {decision}", right.name());
        }
        let is_met = rights.iter().any(|&right| rule(right).is_some());
        if matches!(need, Need::Store(_)) && is_met && rule(Right::Write).is_none() {
            let status = subject.grant.existing(of).status();
            let _ = writeln!(text, "where there is a value{place}: {status}");
        }
        is_allowed &= is_met;
    }
    match asked.of_each {
        Some(of_each) if asked.needs.is_empty() => {
            return Err(bad(&format!(
                "each value is a {of_each} of its key: ask for these"
            ))
            .into());
        }
        Some(of_each) => {
            let _ = writeln!(text, "each value below: as {of_each} of its key");
        }
        None if asked.needs.is_empty() => text += "no right is needed\n",
        None => {}
    }
    if let Some(signed) = asked.link_key(&policy, subject) {
        is_allowed &= signed.is_ok();
        text += &signed.map_or_else(
            |why| format!("link-key: refused, {why}\n"),
            |(by, lasts)| format!("link-key: {by:?} signs for {}\n", format_duration(lasts)),
        );
    }
    Ok((text, is_allowed))
}

fn decision(policy: &Policy, rule: Option<&Rule>) -> String {
    let Some(rule) = rule else {
        return "refused, no rule allows it".to_owned();
    };
    let is_it = |other: &Rule| std::ptr::eq(other, rule);
    let at = policy.rules.iter().position(is_it).map_or(0, |at| at + 1);
    let (who, prefix) = (rule.who.join(", "), &rule.prefix);
    format!("allowed by rule {at}, for {who} with the prefix {prefix:?}")
}
