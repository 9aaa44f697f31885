//! Options of what the directory keeps: its bounds, each a table of the configuration file or the same table on the
//! command line.

use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use serde::Deserialize;

use super::file::table;
use crate::commands::size;
use crate::store::bounds::{AgeOf, Bound, Full, MIN_AGE, Prefix};
use crate::store::check_prefix;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Bounds")]
pub struct BoundOptions {
    /// Most bytes of the disk that all values take: those used longest ago make room for new ones
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<ByteSize>,

    /// Bound of the values below a prefix, as a table of TOML, in the file `[[bound]]`: prefix (with {name}/, each name
    /// has its own), max-size, max-keys, max-age (since the last use, or with of = "write"), full = "evict" (default)
    /// or "refuse" (507), min-age (what was used since is spared by eviction ahead of need; default 1h)
    #[arg(long, value_name = "TABLE", value_parser = bound)]
    bound: Vec<Bound>,

    /// Let bounds evict values that were in the directory before them: once is enough for each bound
    #[arg(long)]
    pub evict_existing: bool,
}

impl BoundOptions {
    /// The bounds.
    pub fn all(&self) -> Vec<Bound> {
        let whole = self.max_size.map(|size| Bound {
            prefix: Prefix::default(),
            max_size: Some(size.as_u64()),
            max_keys: None,
            max_age: None,
            full: Full::Evict,
            min_age: MIN_AGE,
        });
        whole.into_iter().chain(self.bound.clone()).collect()
    }

    /// The first option that is given.
    pub fn given(&self) -> Option<&'static str> {
        let max_size = self.max_size.map(|_| "--max-size");
        let bound = self.bound.first().map(|_| "--bound");
        let existing = self.evict_existing.then_some("--evict-existing");
        max_size.or(bound).or(existing)
    }
}

/// A bound as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    #[serde(default)]
    prefix: String,
    max_size: Option<SizeOrText>,
    max_keys: Option<u64>,
    max_age: Option<String>,
    of: Option<AgeOf>,
    #[serde(default)]
    full: Full,
    min_age: Option<String>,
}

/// A number of bytes, or a text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeOrText {
    Bytes(u64),
    Text(String),
}

/// The bound that `text` is, the entries of a table.
fn bound(text: &str) -> Result<Bound, String> {
    let table: Table = table(text)?;
    let prefix = Prefix::new(&table.prefix).map_err(|why| format!("prefix: {why}"))?;
    check_prefix(&table.prefix.replace(Prefix::NAME, "x"))?;
    let max_size = table.max_size.map(|given| match given {
        SizeOrText::Bytes(bytes) => Ok(bytes),
        SizeOrText::Text(text) => size(&text).map(|size| size.as_u64()),
    });
    let max_size = max_size
        .transpose()
        .map_err(|why| format!("max-size: {why}"))?;
    let max_age = span("max-age", table.max_age.as_deref())?;
    if max_age.is_none() && table.of.is_some() {
        return Err("of: there is no max-age".to_owned());
    }
    if max_age.is_none() && max_size.is_none() && table.max_keys.is_none() {
        return Err("it bounds nothing: give max-size, max-keys or max-age".to_owned());
    }
    Ok(Bound {
        prefix,
        max_size,
        max_keys: table.max_keys,
        max_age: max_age.map(|age| (age, table.of.unwrap_or_default())),
        full: table.full,
        min_age: span("min-age", table.min_age.as_deref())?.unwrap_or(MIN_AGE),
    })
}

fn span(name: &str, text: Option<&str>) -> Result<Option<Duration>, String> {
    let parse = |text| {
        humantime::parse_duration(text)
            .map_err(|_| format!("{name}: give a time such as 30s, 12h or 7days"))
    };
    text.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_becomes_a_bound_or_says_what_is_wrong() {
        let written = r#"prefix = "cas/", max-size = "10GiB", max-keys = 7, max-age = "7days", of = "write", full = "refuse", min-age = "1m""#;
        let expected = Bound {
            prefix: Prefix::new("cas/").unwrap(),
            max_size: Some(10 << 30),
            max_keys: Some(7),
            max_age: Some((Duration::from_secs(7 * 86400), AgeOf::Write)),
            full: Full::Refuse,
            min_age: Duration::from_secs(60),
        };
        assert_eq!(bound(written), Ok(expected));
        let found = bound("max-size = 5").map(|bound| bound.full);
        assert_eq!(found, Ok(Full::Evict));
        for (bad, why) in [
            ("", "bounds nothing"),
            ("prefix = \"a/\"", "bounds nothing"),
            ("max-size = \"many\"", "max-size: give a number of bytes"),
            ("max-age = \"soon\"", "max-age: give a time"),
            ("max-keys = 1, of = \"write\"", "of: there is no max-age"),
            ("max-keys = 1, ful = \"evict\"", "unknown field `ful`"),
            ("max-keys = 1, full = \"drop\"", "unknown variant `drop`"),
            ("max-keys = 1, prefix = \"/a/\"", "no key begins with '/'"),
            ("max-keys = 1, prefix = \"a//{name}/\"", "no key begins"),
            (
                "max-keys = 1, prefix = \"{name}\"",
                "prefix: {name} stands once",
            ),
            ("max-keys = 1 }", "expected"),
        ] {
            let refused = bound(bad).unwrap_err();
            assert!(refused.contains(why), "{bad}: {refused}");
        }
    }
}
