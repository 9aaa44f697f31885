//! `access explain`: the rules of an access file that decide a request, a line for each right that it asks for.
//!
//! Promises the decision of the server on the request. One that goes on to values whose keys it does not name is
//! decided again for each of these, which a line says.

use std::fmt::Write as _;
use std::path::Path;

use humantime::format_duration;

use super::{Failure, UsageError};
use crate::access::{Access, Policy, Right, Rule};
use crate::http::{self, ArchiveFormat, OF_SHARE, QueryFields, explain_share};

/// The rights of which a request needs one.
struct Need {
    rights: &'static [Right],
    /// The key, or the prefix of all keys that there can be below a folder.
    of: String,
    /// A right to any key with this prefix suffices.
    is_prefix: bool,
}

impl Need {
    fn all(rights: &'static [Right], of: &str) -> Self {
        let (of, is_prefix) = (of.to_owned(), false);
        Self {
            rights,
            of,
            is_prefix,
        }
    }

    fn any(rights: &'static [Right], of: &str) -> Self {
        let is_prefix = true;
        Self {
            is_prefix,
            ..Self::all(rights, of)
        }
    }
}

/// All needs of a request, and the request that it is for each value which it does not name.
type Needs = (Vec<Need>, Option<&'static str>);

const READ: &[Right] = &[Right::Read];
const CREATE: &[Right] = &[Right::Create];
const DELETE: &[Right] = &[Right::Delete];
const LIST: &[Right] = &[Right::List];

/// A PUT: without the right to replace it creates.
const STORE: &[Right] = &[Right::Write, Right::Create];

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
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = &QueryFields::of(Some(query));
    let asked = match destination {
        Some(to) => relocation(method, path, to),
        None => needs(method, path, query),
    };
    let bad = |why: String| UsageError(format!("{method} {target}: {why}"));
    let (needs, of_each) = asked.map_err(bad)?;
    let (mut text, mut is_allowed) = (String::new(), true);
    for need in &needs {
        let rule = |right| policy.deciding(name, right, &need.of, need.is_prefix);
        let place = destination.map_or_else(String::new, |_| format!(" of {:?}", need.of));
        for &right in need.rights {
            let decision = decision(&policy, rule(right));
            let _ = writeln!(text, "{}{place}: {decision}", right.name());
        }
        let is_met = need.rights.iter().any(|&right| rule(right).is_some());
        if need.rights == STORE && is_met && rule(Right::Write).is_none() {
            let status = subject.grant.existing(&need.of).status();
            let _ = writeln!(text, "where there is a value{place}: {status}");
        }
        is_allowed &= is_met;
    }
    if let Some(of_each) = of_each {
        let _ = writeln!(text, "each value below: as {of_each} of its key");
    }
    if let ("POST", true, Some(need)) = (method, query.resembles(OF_SHARE), needs.first()) {
        let signed = explain_share(&policy, subject, &need.of, query);
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

/// The prefix of the keys in the folder that a path names; empty for the root.
fn folder(path: &str) -> Result<Option<String>, String> {
    match path {
        "/" => Ok(Some(String::new())),
        _ => http::folder(path).map_err(|why| why.to_string()),
    }
}

/// The key that a path names.
fn key(path: &str) -> Result<String, String> {
    let key = http::key(path, false).map_err(|why| why.to_string())?;
    Ok(key.as_str().to_owned())
}

/// The needs of a request other than MOVE and COPY.
fn needs(method: &str, path: &str, query: &QueryFields<'_>) -> Result<Needs, String> {
    let (all, any) = (Need::all, Need::any);
    let key = || key(path);
    let prefix = || query.get("prefix").unwrap_or_default();
    let is_archive = || {
        let format = ArchiveFormat::of(query).map_err(|why| why.to_string());
        format.map(|format| format.is_some())
    };
    let needs = match (method, path, folder(path)?) {
        ("GET" | "HEAD", "/-/metrics", _) => vec![any(&[Right::Metrics], "")],
        ("GET", "/-/watch", _) => vec![any(&[Right::Watch], prefix())],
        ("POST", "/-/upload", _) => {
            return Err("each file of a form is a PUT of its key: ask for these".to_owned());
        }
        ("GET" | "HEAD", _, Some(of)) if is_archive()? => {
            let needs = vec![any(READ, &of), any(LIST, &of)];
            return Ok((needs, Some("GET and listing")));
        }
        ("GET" | "HEAD", _, Some(of)) => vec![any(LIST, &(of + prefix()))],
        ("GET" | "HEAD", ..) => vec![all(READ, &key()?)],
        ("PUT", _, Some(of)) if is_archive()? => return Ok((vec![any(CREATE, &of)], Some("PUT"))),
        ("POST", ..) if query.resembles(OF_SHARE) => {
            vec![all(&[Right::Link], &key()?), all(READ, &key()?)]
        }
        ("PUT" | "POST", ..) => vec![all(STORE, &key()?)],
        ("MKCOL", "/", _) => return Err("the root is there".to_owned()),
        ("MKCOL", _, Some(of)) => vec![all(CREATE, &of)],
        ("MKCOL", ..) => vec![all(CREATE, &(key()? + "/"))],
        ("DELETE", _, Some(of)) if path != "/" => vec![all(DELETE, &of), all(LIST, &of)],
        ("DELETE", ..) => vec![all(DELETE, &key()?)],
        ("MOVE" | "COPY", ..) => return Err("give the path of the destination too".to_owned()),
        _ => return Err("give GET, HEAD, PUT, POST, DELETE, MKCOL, MOVE or COPY".to_owned()),
    };
    Ok((needs, None))
}

/// The needs of a MOVE or COPY.
fn relocation(method: &str, from: &str, to: &str) -> Result<Needs, String> {
    let (all, any) = (Need::all, Need::any);
    let is_root = from == "/" || to == "/";
    let needs = match (method, folder(from)?, folder(to)?) {
        ("MOVE", None, None) => {
            let (from, to) = (key(from)?, key(to)?);
            vec![all(READ, &from), all(DELETE, &from), all(STORE, &to)]
        }
        ("COPY", None, None) => vec![all(READ, &key(from)?), all(STORE, &key(to)?)],
        ("MOVE", Some(from), Some(to)) if !is_root => {
            let of_source = [READ, DELETE, LIST].map(|right| all(right, &from));
            of_source.into_iter().chain([all(CREATE, &to)]).collect()
        }
        ("COPY", Some(from), Some(to)) if !is_root => {
            return Ok((vec![all(LIST, &from), any(CREATE, &to)], Some("COPY")));
        }
        ("MOVE" | "COPY", ..) => {
            return Err(
                "a folder is moved and copied to a folder, and a value to a key".to_owned(),
            );
        }
        _ => return Err("only MOVE and COPY have a destination".to_owned()),
    };
    Ok((needs, None))
}
