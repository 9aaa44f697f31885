//! `data-server bounds`: what bounds hold, as the server of the directory knows it, else by the files.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use bytesize::ByteSize;
use serde::Serialize;

use super::{Failure, UsageError};
use crate::lifecycle::{BOUNDS, ask};
use crate::store::bounds::{Bound, Total, named};
use crate::store::{BoundReport, report_bounds, server_of};

/// Where a report comes from, and what it says.
#[derive(Serialize)]
struct Report {
    /// `server`, or `files`.
    source: &'static str,
    /// How old the uses in it are, where uses were noted.
    uses_seconds_ago: Option<u64>,
    bounds: Vec<BoundReport>,
}

/// What the bounds of the values in `dir` hold: those that the server has which runs there, unless these are given
/// `of_command`; without a server, `bounds`. As JSON, if that `is_json`, else in words; with so many values and names.
pub fn describe_bounds(
    dir: &Path,
    (bounds, of_command): (&[Bound], bool),
    (is_json, most): (bool, usize),
) -> Result<(String, bool), Failure> {
    let asked = if of_command {
        Err("not asked, as the bounds are given here".to_owned())
    } else {
        ask_server(dir)
    };
    let (source, uses_seconds_ago, bounds, unasked) = match asked {
        Ok(bounds) => ("server", Some(0), bounds, String::new()),
        Err(why) if bounds.is_empty() => {
            return Err(UsageError(format!(
                "bounds: there are none: give --max-size, --bound, or a configuration file that has some (the server of {}: {why})",
                dir.display()
            ))
            .into());
        }
        Err(why) => {
            let (bounds, noted) = report_bounds(dir, bounds, most)?;
            ("files", noted, bounds, why)
        }
    };
    let mut report = Report {
        source,
        uses_seconds_ago,
        bounds,
    };
    for bound in &mut report.bounds {
        bound.next.truncate(most);
        bound.names.truncate(most);
    }
    if is_json {
        return Ok((serde_json::to_string_pretty(&report)? + "\n", true));
    }
    let mut text = String::new();
    match report.uses_seconds_ago {
        _ if report.source == "server" => writeln!(text, "as the server has it now")?,
        Some(seconds) => writeln!(
            text,
            "by the files, with uses up to {} ago (the server: {unasked})",
            span(seconds)
        )?,
        None => writeln!(text, "by the times of the files (the server: {unasked})")?,
    }
    for bound in &report.bounds {
        describe(&mut text, bound)?;
    }
    Ok((text, true))
}

/// What the bounds of the server hold that has `dir`.
fn ask_server(dir: &Path) -> Result<Vec<BoundReport>, String> {
    let pid = server_of(dir).ok_or("none has it")?;
    let answer = ask(BOUNDS, pid)?;
    let bounds: Vec<BoundReport> = serde_json::from_str(&answer)
        .map_err(|error| format!("process {pid} answers otherwise: {error}"))?;
    if bounds.is_empty() {
        return Err("it has no bounds, or still counts".to_owned());
    }
    Ok(bounds)
}

/// Adds a bound to `text`.
fn describe(text: &mut String, bound: &BoundReport) -> std::fmt::Result {
    let (name, size) = (named(&bound.prefix), readable(bound.total.bytes));
    let each = if bound.names.is_empty() { "" } else { "each " };
    writeln!(
        text,
        "{name} ({each}{}): {} values, {size}",
        bound.limits, bound.total.keys
    )?;
    for name in &bound.names {
        let (size, keys) = (readable(name.total.bytes), name.total.keys);
        writeln!(text, "  {}: {keys} values, {size}", name.prefix)?;
    }
    let ages = [
        ("oldest", bound.oldest_idle_seconds),
        ("median", bound.median_idle_seconds),
    ];
    for (part, age) in ages {
        if let Some(age) = age {
            writeln!(text, "  {part}: used {} ago", span(age))?;
        }
    }
    if !bound.removes {
        return writeln!(text, "  a quota: removes nothing");
    }
    let Total { bytes, keys } = bound.would_go;
    if keys > 0 {
        let size = readable(bytes);
        writeln!(text, "  would go now: {keys} values, {size}")?;
    }
    if !bound.may_remove && bound.total.keys > 0 {
        writeln!(
            text,
            "  removes nothing of it until a server is started with --evict-existing"
        )?;
    }
    for next in &bound.next {
        let (size, idle) = (readable(next.bytes), span(next.idle_seconds));
        writeln!(text, "  next: {} ({size}, used {idle} ago)", next.key)?;
    }
    Ok(())
}

fn readable(bytes: u64) -> impl std::fmt::Display {
    ByteSize::b(bytes).display().iec()
}

fn span(seconds: u64) -> impl std::fmt::Display {
    humantime::format_duration(Duration::from_secs(seconds))
}
