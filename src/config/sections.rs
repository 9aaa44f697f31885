//! The sections of the configuration file: settings of key prefixes, which no option can say.
//!
//! Only a file has them, so nothing wins over them. A fault is reported with its place in the file, as that of an option is.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer, Error};

use crate::store::{Prefixes, check_prefix};

/// The sections of a file, each an array of tables.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Sections {
    content: Vec<ContentSection>,
}

/// `[[content]]`: the keys that begin with a prefix are named after their values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentSection {
    prefix: Spanned<String>,
    #[serde(rename = "name")]
    _name: NameOfValue,
}

/// The last segment of such a key.
#[derive(Clone, Debug, Deserialize)]
enum NameOfValue {
    #[serde(rename = "sha256")]
    Sha256,
}

impl Sections {
    /// The names of the sections.
    pub const NAMES: [&str; 1] = ["content"];

    /// The sections in `table`, which has no other entries; else the offset in the file of what is wrong, and why.
    pub fn read(table: DeTable<'_>) -> Result<Self, (usize, String)> {
        let sections = Deserializer::from(Spanned::new(0..0, table));
        let sections = Self::deserialize(sections).map_err(|error: Error| {
            let at = error.span().map_or(0, |span| span.start);
            (at, error.message().trim().replace('\n', ", "))
        })?;
        for ContentSection { prefix, .. } in &sections.content {
            check_prefix(prefix.get_ref()).map_err(|why| (prefix.span().start, why))?;
        }
        Ok(sections)
    }

    /// The prefixes of the keys whose last segment is the SHA-256 of the value.
    pub fn named_by_sha256(&self) -> Prefixes {
        Prefixes::new(self.content.iter().map(|it| it.prefix.get_ref().as_str()))
    }
}
